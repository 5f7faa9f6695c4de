#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "cache/tier_shared.h"

namespace penstock::cache {

using FillDone = std::function<void(Result<void>)>;

// The fills and drops of a tier.
// Threads: all calls from any thread.
class TierFills {
 public:
  explicit TierFills(TierShared& shared) : shared_(shared) {}

  bool reserve(const EntryName& name);
  void cancel(const EntryName& name);
  void fill(EntryKey key, const EntryName& name, Filling filling, FillDone done);
  void drop(const EntryName& name);
  void drain();

  uint64_t fills() const { return fills_.load(std::memory_order_relaxed); }
  uint64_t fill_bytes() const { return fill_bytes_.load(std::memory_order_relaxed); }
  uint64_t skipped() const { return skipped_.load(std::memory_order_relaxed); }

 private:
  struct Fill;

  Result<void> may_begin(uint64_t bytes);
  void refuse(Fill& fill, const Error& error);
  void run(Fill* fill);
  Result<void> publish(Fill& fill);
  void judge(const Error& error);
  void finish(Fill* fill, Result<void> outcome);
  bool paused() const;
  void begin_one();
  void end_one();

  TierShared& shared_;
  std::atomic<uint64_t> bytes_under_way_ = 0;
  std::atomic<std::chrono::steady_clock::time_point> no_space_until_{};
  std::atomic<uint64_t> fills_ = 0;
  std::atomic<uint64_t> fill_bytes_ = 0;
  std::atomic<uint64_t> skipped_ = 0;
  // Fills and drops not yet answered.
  std::mutex mutex_;
  std::condition_variable drained_;
  uint64_t unanswered_ = 0;
};

}  // namespace penstock::cache
