// Knows how full the drive is, without asking too often.
// Threads: one at a time.
#pragma once

#include <optional>

#include "cache/directory.h"
#include "cache/leases.h"
#include "cache/roll.h"

namespace penstock::cache {

class SpaceWatch {
 public:
  SpaceWatch(CacheDirectory& directory, Nanoseconds interval)
      : directory_(directory), interval_(interval) {}

  // Asks when the last answer is older than the interval, or with `now_please`.
  void refresh(SteadyTime now, bool now_please, TickErrors& errors);
  // Nothing while it was never answered.
  const std::optional<io::SpaceInfo>& last() const { return last_; }
  uint64_t answers() const { return answers_; }  // How many there were.

 private:
  CacheDirectory& directory_;
  const Nanoseconds interval_;
  std::optional<io::SpaceInfo> last_;
  uint64_t answers_ = 0;
  SteadyTime asked_{};
};

}  // namespace penstock::cache
