#include "cache/space_watch.h"

namespace penstock::cache {

bool SpaceWatch::refresh(SteadyTime now, bool now_please, TickErrors& errors) {
  if (last_ && !now_please && now - asked_ < std::chrono::seconds(1)) return false;
  asked_ = now;
  const Result<io::SpaceInfo> space = directory_.space();
  if (!space.ok()) {
    errors.note(space.error());
    return false;
  }
  last_ = *space;
  return true;
}

}  // namespace penstock::cache
