#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <string_view>

#include "penstock/sync.h"

namespace penstock::sync {

// What a run has done so far; tells it to whoever asked to be told.
// Threads: all calls from any thread.
class Tally {
 public:
  // `options` outlives it.
  explicit Tally(const Options& options);

  void listed(uint64_t objects) { listed_ += objects; }
  void listing_done() { listing_done_ = true; }
  void same() { ++same_; }
  void to_copy(uint64_t bytes);
  void moved(uint64_t bytes) { moved_bytes_ += bytes; }
  void copied(uint64_t bytes);
  void deleted(uint64_t objects) { deleted_ += objects; }
  // What a stop cut off is no failure.
  void failed(const std::string& key, const Error& error);
  void skipped(const std::string& key, std::string_view why);
  void act(Action action, const std::string& key, uint64_t bytes, std::string_view why);

  bool clean() const { return failed_ == 0; }
  Progress progress() const;
  Report report() const;

 private:
  const Options& options_;
  const std::chrono::steady_clock::time_point begun_at_;
  std::atomic<uint64_t> listed_{0};
  std::atomic<bool> listing_done_{false};
  std::atomic<uint64_t> same_{0};
  std::atomic<uint64_t> to_copy_{0};
  std::atomic<uint64_t> to_copy_bytes_{0};
  std::atomic<uint64_t> copied_{0};
  std::atomic<uint64_t> copied_bytes_{0};
  std::atomic<uint64_t> moved_bytes_{0};
  std::atomic<uint64_t> deleted_{0};
  std::atomic<uint64_t> failed_{0};
  std::atomic<uint64_t> skipped_{0};

  mutable std::mutex mutex_;
  std::vector<Failure> failures_;
  std::vector<Skip> skips_;
  std::mutex act_mutex_;  // Of its own: on_action may be slow.
};

}  // namespace penstock::sync
