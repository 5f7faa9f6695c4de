#include "mount/access_times.h"

#include <chrono>

#include "base/thread_pool.h"

namespace penstock::mount {

namespace {

constexpr auto kWriteEvery = std::chrono::seconds(5);
constexpr meta::Time kDay = std::chrono::nanoseconds(std::chrono::hours(24)).count();

meta::Time now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

bool access_is_due(const meta::Inode& inode, meta::Time now, AccessTimes mode) {
  if (mode == AccessTimes::kNever) return false;
  if (mode == AccessTimes::kAlways) return true;
  return inode.atime <= inode.mtime || inode.atime <= inode.ctime || inode.atime + kDay <= now;
}

AccessLog::AccessLog(volume::Volume* volume, AccessTimes mode)
    : volume_(volume), mode_(volume == nullptr ? AccessTimes::kNever : mode) {
  if (mode_ != AccessTimes::kNever) writer_ = std::thread([this] { run(); });
}

AccessLog::~AccessLog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (writer_.joinable()) writer_.join();
}

bool AccessLog::settled(meta::Ino ino) {
  const std::lock_guard lock(mutex_);
  if (mode_ == AccessTimes::kRelative && settled_.contains(ino)) return true;
  if (settled_.size() >= kSettledMax) settled_.clear();
  settled_.insert(ino);
  return false;
}

void AccessLog::note(meta::Ino ino) {
  if (mode_ == AccessTimes::kNever || settled(ino)) return;
  const Result<meta::Inode> inode = volume_->names().inode(ino);
  const meta::Time time = now();
  if (!inode.ok() || !access_is_due(*inode, time, mode_)) return;
  const std::lock_guard lock(mutex_);
  if (noted_.size() < kNotedMax || noted_.contains(ino)) noted_[ino] = time;
}

void AccessLog::forget(meta::Ino ino) {
  if (mode_ == AccessTimes::kNever) return;
  const std::lock_guard lock(mutex_);
  settled_.erase(ino);
  noted_.erase(ino);
}

void AccessLog::show(meta::Inode& inode) {
  if (mode_ == AccessTimes::kNever) return;
  const std::lock_guard lock(mutex_);
  const auto found = noted_.find(inode.ino);
  if (found != noted_.end()) inode.atime = found->second;
}

void AccessLog::run() {
  set_thread_name("mount-atime");
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait_for(lock, kWriteEvery, [this] { return stopping_; });
    const std::unordered_map<meta::Ino, meta::Time> noted = noted_;
    lock.unlock();
    write(noted);
    lock.lock();
    // Only now: until then the volume did not have them. One that was noted again stays.
    for (const auto& [ino, time] : noted) {
      const auto found = noted_.find(ino);
      if (found != noted_.end() && found->second == time) noted_.erase(found);
    }
    if (stopping_) return;
  }
}

void AccessLog::write(std::unordered_map<meta::Ino, meta::Time> noted) {
  for (const auto& [ino, time] : noted) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = noted_.find(ino);
      if (found == noted_.end() || found->second != time) continue;  // Set by somebody meanwhile.
    }
    meta::Changes changes;
    changes.atime = time;
    (void)volume_->change(ino, changes);  // It may be gone by now.
  }
}

}  // namespace penstock::mount
