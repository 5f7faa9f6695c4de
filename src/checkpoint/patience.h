// Looking again and again for something that another process does: soon at first, then less often.
#pragma once

#include <algorithm>
#include <thread>

#include "penstock/units.h"

namespace penstock::checkpoint {

class Patience {
 public:
  explicit Patience(Deadline deadline) : deadline_(deadline) {}

  // False at the deadline.
  bool wait() {
    const auto now = Clock::now();
    if (now >= deadline_) return false;
    std::this_thread::sleep_until(std::min<Deadline>(deadline_, now + pause_));
    pause_ = std::min(pause_ * 3 / 2, kPauseMax);
    return true;
  }
  Nanoseconds waited() const { return Clock::now() - begun_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr Nanoseconds kPauseMax = std::chrono::milliseconds(50);

  const Deadline deadline_;
  const Clock::time_point begun_ = Clock::now();
  Nanoseconds pause_ = std::chrono::milliseconds(1);
};

}  // namespace penstock::checkpoint
