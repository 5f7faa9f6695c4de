// Keeps the log readable while the same thing goes wrong all the time: so many lines of a kind at
// once, then one every so often, which can say how many were left out.
// Threads: all calls from any thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include "penstock/units.h"

namespace penstock {

class LineLimit {
 public:
  using Clock = std::chrono::steady_clock;

  LineLimit(uint32_t at_once, Nanoseconds every)
      : every_(every), saved_max_(at_once * every), saved_(saved_max_) {}

  // Where a line may be written now: how many were left out since the last one. Nothing where this
  // one is to be left out.
  std::optional<uint64_t> take(Clock::time_point now = Clock::now()) {
    const std::lock_guard lock(mutex_);
    if (!last_) last_ = now;
    if (now > *last_) {
      // Compared first: a time that was long ago must not overflow.
      const Nanoseconds passed = now - *last_;
      saved_ = passed >= saved_max_ ? saved_max_ : std::min(saved_ + passed, saved_max_);
      last_ = now;
    }
    if (saved_ < every_) {
      ++left_out_;
      return std::nullopt;
    }
    saved_ -= every_;
    return std::exchange(left_out_, 0);
  }

 private:
  const Nanoseconds every_;
  const Nanoseconds saved_max_;
  std::mutex mutex_;
  Nanoseconds saved_;  // Of which each line takes its share.
  std::optional<Clock::time_point> last_;
  uint64_t left_out_ = 0;
};

}  // namespace penstock
