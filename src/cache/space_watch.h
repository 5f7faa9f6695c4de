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
  explicit SpaceWatch(CacheDirectory& directory) : directory_(directory) {}

  // Asks when the last answer is a second old, or with `now_please`. True: it is news.
  bool refresh(SteadyTime now, bool now_please, TickErrors& errors);
  // Nothing while it was never answered.
  const std::optional<io::SpaceInfo>& last() const { return last_; }

 private:
  CacheDirectory& directory_;
  std::optional<io::SpaceInfo> last_;
  SteadyTime asked_{};
};

}  // namespace penstock::cache
