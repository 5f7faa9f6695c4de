// Where the time goes, as it goes.
// Threads: all calls from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/metrics.h"
#include "penstock/loader.h"

namespace penstock::loader {

using Clock = std::chrono::steady_clock;

// A sum of times.
class Stopwatch {
 public:
  void add(Clock::duration time) {
    ns_.fetch_add(static_cast<uint64_t>(std::chrono::nanoseconds(time).count()),
                  std::memory_order_relaxed);
  }
  Nanoseconds total() const {
    return Nanoseconds(static_cast<int64_t>(ns_.load(std::memory_order_relaxed)));
  }

 private:
  std::atomic<uint64_t> ns_ = 0;
};

// Wall time during which at least one thing is under way.
class BusyTime {
 public:
  void begin() {
    const std::lock_guard lock(mutex_);
    if (under_way_++ == 0) since_ = Clock::now();
  }
  void end() {
    const std::lock_guard lock(mutex_);
    if (--under_way_ == 0) total_ += Clock::now() - since_;
  }
  Nanoseconds total() const {
    const std::lock_guard lock(mutex_);
    return total_ + (under_way_ > 0 ? Clock::now() - since_ : Clock::duration(0));
  }

 private:
  mutable std::mutex mutex_;
  uint64_t under_way_ = 0;
  Clock::time_point since_{};
  Clock::duration total_{0};
};

struct Stats {
  const Clock::time_point since = Clock::now();
  Counter batches;
  Counter samples;
  Counter bytes_read;
  Counter reads;
  Counter skipped;
  Stopwatch read_busy;
  Stopwatch decode_busy;
  Stopwatch worker_wait;
  Stopwatch plan_busy;
  Stopwatch memory_wait;
  Stopwatch ahead_wait;
  Stopwatch away;
  BusyTime storage;
  Histogram next;
  Counter ready_sum;
  Counter next_calls;
  std::atomic<uint64_t> first_batch_ns = 0;

  static constexpr size_t kListed = 100;
  void list(Skipped skipped_one);
  std::vector<Skipped> listed() const;
  Report report() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Skipped> listed_;
};

}  // namespace penstock::loader
