#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <random>

#include "penstock/units.h"

namespace penstock::store {

// When to try again: exponential, with full jitter, so that clients that failed together do not
// come back together. And one hold for all requests of a store after the server said SlowDown:
// while it lasts nobody sends, and it doubles as long as the server goes on saying so.
// Threads: all calls from any thread. Times are given, so that tests need no clock.
class S3Backoff {
 public:
  using Time = std::chrono::steady_clock::time_point;

  S3Backoff(Nanoseconds min, Nanoseconds max, uint64_t seed);

  // From 0 to min * 2^(failures - 1), at most max. `failures` counts from 1.
  Nanoseconds delay(uint32_t failures);

  // When a request that is ready `now` may go: `now`, or some time after the hold ends, spread out.
  Time admit(Time now);

  // The server said SlowDown to a request sent at `sent`; it may have named a wait (else 0).
  void slow_down(Time sent, Time now, Nanoseconds asked);
  // A request sent at `sent` was served.
  void served(Time sent);

 private:
  Nanoseconds scaled(uint32_t doublings) const;
  Nanoseconds random_up_to(Nanoseconds limit);

  const Nanoseconds min_;
  const Nanoseconds max_;
  std::mutex mutex_;
  std::mt19937_64 random_;
  uint32_t level_ = 0;  // How often the hold doubled.
  Time hold_begin_{};
  Time hold_end_{};
};

}  // namespace penstock::store
