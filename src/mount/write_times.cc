#include "mount/write_times.h"

#include <vector>

#include "base/thread_pool.h"

namespace penstock::mount {

namespace {

// The kernel's word comes soon after the writes, if it does.
constexpr auto kLookEvery = std::chrono::seconds(3);

}  // namespace

WriteTimes::WriteTimes(volume::Volume& volume) : volume_(volume), restorer_([this] { run(); }) {}

WriteTimes::~WriteTimes() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  restorer_.join();
}

void WriteTimes::begin(meta::Ino ino) {
  const std::lock_guard lock(mutex_);
  auto found = kept_.find(ino);
  if (found == kept_.end()) {
    const Result<meta::Inode> inode = volume_.names().inode(ino);
    if (!inode.ok()) return;
    found = kept_.emplace(ino, Kept{.time = inode->mtime}).first;
  }
  ++found->second.writes;
  found->second.idle = false;
}

void WriteTimes::end(meta::Ino ino) {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(ino);
  if (found != kept_.end() && found->second.writes > 0) --found->second.writes;
}

Result<meta::Inode> WriteTimes::set(meta::Ino ino, meta::Time time,
                                    const std::function<Result<meta::Inode>()>& change) {
  const std::lock_guard lock(mutex_);
  Result<meta::Inode> changed = change();
  const auto found = kept_.find(ino);
  if (!changed.ok() || found == kept_.end()) return changed;
  if (found->second.writes == 0) {
    kept_.erase(found);
  } else {
    found->second.time = time;
  }
  return changed;
}

void WriteTimes::show(meta::Inode& inode) {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(inode.ino);
  if (found != kept_.end()) inode.mtime = found->second.time;
}

void WriteTimes::restore(bool all) {
  std::vector<meta::Ino> due;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [ino, kept] : kept_) {
      if (all || (kept.idle && kept.writes == 0)) due.push_back(ino);
      kept.idle = true;
    }
  }
  for (const meta::Ino ino : due) {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.find(ino);
    if (found == kept_.end() || found->second.writes > 0) continue;
    meta::Changes changes;
    changes.mtime = found->second.time;
    (void)volume_.change(ino, changes);  // It may be gone.
    kept_.erase(found);
  }
}

void WriteTimes::run() {
  set_thread_name("mount-mtime");
  std::unique_lock lock(mutex_);
  bool last = false;
  while (!last) {
    wake_.wait_for(lock, kLookEvery, [this] { return stopping_; });
    last = stopping_;
    lock.unlock();
    restore(last);
    lock.lock();
  }
}

}  // namespace penstock::mount
