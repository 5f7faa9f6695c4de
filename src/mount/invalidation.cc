#include "mount/invalidation.h"

#include <chrono>
#include <thread>

#include "penstock/units.h"

namespace penstock::mount {

namespace {

// By then a notice that has begun is inside the kernel.
constexpr auto kStopPatience = std::chrono::seconds(1);
constexpr auto kStopPause = std::chrono::milliseconds(1);

constexpr off_t kOnlyAttributes = -1;
constexpr off_t kContentToo = 0;

}  // namespace

Invalidation::Invalidation(std::shared_ptr<volume::ChangeFeed> feed,
                           const volume::VolumeUuid& volume, const Lookups& lookups)
    : feed_(std::move(feed)), volume_(volume), lookups_(lookups) {
  feed_->add(this);
}

Invalidation::~Invalidation() {
  feed_->remove(this);
}

void Invalidation::changed(const volume::VolumeUuid& volume,
                           std::span<const volume::Change> changes) {
  if (volume != volume_) return;
  ++under_way_;
  for (const volume::Change& change : changes) {
    fuse_session* const session = session_;
    if (session != nullptr) tell(session, change);
  }
  --under_way_;
}

void Invalidation::stop() {
  session_ = nullptr;
  const Deadline deadline = deadline_in(kStopPatience);
  while (under_way_ > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kStopPause);
  }
}

// Errors say that the kernel does not know it, or is gone: both are fine.
void Invalidation::tell(fuse_session* session, const volume::Change& change) const {
  if (change.directory != 0 && knows(change.directory)) {
    // The name, also where the kernel remembers that there is none; then the directory, whose listing
    // the kernel keeps as pages of it.
    fuse_lowlevel_notify_inval_entry(session, change.directory, change.name.data(),
                                     change.name.size());
    fuse_lowlevel_notify_inval_inode(session, change.directory, kContentToo, 0);
  }
  if (change.ino != 0 && knows(change.ino)) {
    fuse_lowlevel_notify_inval_inode(session, change.ino,
                                     change.content ? kContentToo : kOnlyAttributes, 0);
  }
}

}  // namespace penstock::mount
