// Tells the kernel to forget what others changed behind its back, through the control socket of the
// volume.
//
// The kernel answers such a notice only once nobody uses what it is about, and may send dirty pages
// first: whoever notifies must not be one that the kernel waits for. So this runs on threads of the
// control socket, which hold no lock, and never in the answer to a request.
// Threads: all calls from any thread.
#pragma once

#include <atomic>
#include <memory>

#include "mount/fuse.h"
#include "mount/lookups.h"
#include "volume/change_feed.h"

namespace penstock::mount {

class Invalidation final : public volume::ChangeListener {
 public:
  // `lookups` outlives it.
  Invalidation(std::shared_ptr<volume::ChangeFeed> feed, const volume::VolumeUuid& volume,
               const Lookups& lookups);
  ~Invalidation() override;

  // From here on there is a kernel to be told.
  void start(fuse_session* session) { session_ = session; }
  // No notice begins any more. One under way may go on, inside the kernel, until the session is
  // unmounted: that comes next, then the end of this, and then that of the session.
  void stop();

  void changed(const volume::VolumeUuid& volume, std::span<const volume::Change> changes) override;

 private:
  void tell(fuse_session* session, const volume::Change& change) const;
  bool knows(meta::Ino ino) const { return ino == meta::kRoot || lookups_.knows(ino); }

  const std::shared_ptr<volume::ChangeFeed> feed_;
  const volume::VolumeUuid volume_;
  const Lookups& lookups_;
  std::atomic<fuse_session*> session_ = nullptr;
  std::atomic<int> under_way_ = 0;
};

}  // namespace penstock::mount
