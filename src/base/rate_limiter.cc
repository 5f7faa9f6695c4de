#include "base/rate_limiter.h"

#include <algorithm>
#include <condition_variable>

namespace penstock {

RateLimiter::RateLimiter(double per_second, double burst)
    : per_second_(per_second), burst_(burst), available_(burst), updated_(Clock::now()) {}

void RateLimiter::refill(Clock::time_point now) {
  const double seconds = std::chrono::duration<double>(now - updated_).count();
  available_ = std::min(burst_, available_ + seconds * per_second_);
  updated_ = now;
}

// A request waits until the bucket holds it, or holds all it can: the rest becomes debt.
Nanoseconds RateLimiter::wait_for(double units) const {
  const double missing = std::min(units, burst_) - available_;
  return missing <= 0 ? Nanoseconds(0)
                      : Nanoseconds(static_cast<int64_t>(missing / per_second_ * 1e9));
}

Nanoseconds RateLimiter::reserve(double units) {
  if (per_second_ <= 0) return Nanoseconds(0);
  std::lock_guard lock(mutex_);
  refill(Clock::now());
  const Nanoseconds wait = wait_for(units);
  available_ -= units;
  return wait;
}

Result<void> RateLimiter::acquire(double units, Deadline deadline, std::stop_token stop) {
  if (per_second_ <= 0) return {};
  std::unique_lock lock(mutex_);
  const Clock::time_point now = Clock::now();
  refill(now);
  const Nanoseconds wait = wait_for(units);
  if (deadline != kNoDeadline && now + wait > deadline) {
    return make_error(ErrorCode::kTimeout, "the rate limit leaves no room before the deadline",
                      true);
  }
  available_ -= units;
  lock.unlock();
  if (wait.count() == 0) return {};

  std::mutex sleep_mutex;
  std::unique_lock sleep_lock(sleep_mutex);
  std::condition_variable_any sleeper;
  sleeper.wait_for(sleep_lock, stop, wait, [] { return false; });
  if (stop.stop_requested())
    return make_error(ErrorCode::kCancelled, "stopped while waiting for the rate limit");
  return {};
}

}  // namespace penstock
