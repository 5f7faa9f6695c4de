// A store that stops to answer when it is told to, for tests: reads, puts, or both fail at once, or hang
// until their deadlines.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "store/passing_store.h"

namespace penstock::volume {

// What it does now; shared with the test.
struct Mood {
  enum Kind : uint8_t { kWell, kFails, kHangs };
  std::atomic<Kind> reads = kWell;
  std::atomic<Kind> puts = kWell;
};

class MoodyStore final : public store::PassingStore {
 public:
  MoodyStore(std::unique_ptr<store::ObjectStore> inner, std::shared_ptr<Mood> mood)
      : PassingStore(std::move(inner)), mood_(std::move(mood)) {}

  void async_get(std::string key, uint64_t offset, std::span<std::byte> into,
                 store::GetOptions options, store::Done<store::GetResult> done) override {
    if (const auto error = wait(mood_->reads, options)) return done(*error);
    PassingStore::async_get(std::move(key), offset, into, std::move(options), std::move(done));
  }
  void async_put(std::string key, std::span<const std::byte> bytes, store::PutOptions options,
                 store::Done<store::ObjectInfo> done) override {
    if (const auto error = wait(mood_->puts, options)) return done(*error);
    PassingStore::async_put(std::move(key), bytes, std::move(options), std::move(done));
  }

 private:
  static std::optional<Error> wait(const std::atomic<Mood::Kind>& mood,
                                   const store::CallOptions& call) {
    if (mood == Mood::kFails) {
      return make_error(ErrorCode::kUnavailable, "the store is away", /*retryable=*/true);
    }
    while (mood == Mood::kHangs) {
      if (call.cancel.stop_requested()) return make_error(ErrorCode::kCancelled, "cancelled");
      if (std::chrono::steady_clock::now() >= call.deadline) {
        return make_error(ErrorCode::kTimeout, "the deadline passed", /*retryable=*/true);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return std::nullopt;
  }

  const std::shared_ptr<Mood> mood_;
};

}  // namespace penstock::volume
