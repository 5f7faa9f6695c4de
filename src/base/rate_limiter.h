#pragma once

#include <cstdint>
#include <mutex>
#include <stop_token>

#include "penstock/result.h"
#include "penstock/units.h"

namespace penstock {

// A token bucket: over any stretch of time at most rate × time + burst units pass. A request larger
// than the burst passes when the bucket is full and leaves it in debt, so that no size is
// impossible.
// Threads: all calls from any thread; waiters pass in the order of their reservations.
class RateLimiter {
 public:
  // `per_second` units a second; 0 means no limit. `burst` units may pass at once after idling.
  RateLimiter(double per_second, double burst);

  // Takes `units` now and returns how long the caller must wait before using them: for code that
  // must not block.
  Nanoseconds reserve(double units);

  // reserve() and the wait. kTimeout when the wait would pass the deadline (nothing is taken then),
  // kCancelled on stop.
  Result<void> acquire(double units, Deadline deadline = kNoDeadline, std::stop_token stop = {});

 private:
  using Clock = std::chrono::steady_clock;
  void refill(Clock::time_point now);
  Nanoseconds wait_for(double units) const;

  const double per_second_;
  const double burst_;
  std::mutex mutex_;
  double available_;
  Clock::time_point updated_;
};

}  // namespace penstock
