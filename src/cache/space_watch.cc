#include "cache/space_watch.h"

namespace penstock::cache {

void SpaceWatch::refresh(SteadyTime now, bool now_please, TickErrors& errors) {
  if (last_ && !now_please && now - asked_ < interval_) return;
  asked_ = now;
  const Result<io::SpaceInfo> space = directory_.space();
  if (!space.ok()) return errors.note(space.error());
  last_ = *space;
  ++answers_;
}

}  // namespace penstock::cache
