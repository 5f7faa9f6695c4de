#include "data/open_files.h"

#include <sys/resource.h>

#include <algorithm>

namespace penstock::data {

io::File& OpenFiles::Use::file() const {
  return *entry_->file;
}

size_t OpenFiles::default_limit() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 64;
  return std::clamp<size_t>(limit.rlim_cur / 4, 8, 512);
}

OpenFiles::~OpenFiles() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return uses_ == 0; });
}

OpenFiles::Entry* OpenFiles::find(std::unique_lock<std::mutex>&, uint32_t number) {
  const auto at = by_number_.find(number);
  if (at == by_number_.end()) return nullptr;
  if (at->second != entries_.begin()) entries_.splice(entries_.begin(), entries_, at->second);
  Entry& entry = *at->second;
  ++entry.uses;
  ++uses_;
  return &entry;
}

// Those in use stay, so that there may be more than the limit for a while.
void OpenFiles::evict(std::unique_lock<std::mutex>&, Entries& evicted) {
  for (auto at = entries_.end(); entries_.size() > limit_ && at != entries_.begin();) {
    --at;
    if (at->uses > 0) continue;
    const auto victim = at++;
    by_number_.erase(victim->number);
    evicted.splice(evicted.end(), entries_, victim);
  }
}

Result<OpenFiles::Use> OpenFiles::use(uint32_t number) {
  Entries closed;  // Outlives the lock: closing takes its time.
  std::unique_lock lock(mutex_);
  if (Entry* const entry = find(lock, number)) return Use(this, entry);
  lock.unlock();
  Entries opened;
  opened.push_back({number, PENSTOCK_TRY(open_(number)), 0});
  lock.lock();
  // Another may have been faster; then ours is closed.
  if (Entry* const entry = find(lock, number)) {
    closed.splice(closed.end(), opened);
    lock.unlock();
    return Use(this, entry);
  }
  entries_.splice(entries_.begin(), opened);
  by_number_[number] = entries_.begin();
  Entry* const entry = find(lock, number);
  evict(lock, closed);
  lock.unlock();
  return Use(this, entry);
}

void OpenFiles::release(Entry& entry) {
  std::lock_guard lock(mutex_);
  --entry.uses;
  if (--uses_ == 0) idle_.notify_all();
}

}  // namespace penstock::data
