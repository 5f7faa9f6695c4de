#include "store/directory_sync.h"

#include <utility>

namespace penstock::store {

namespace {

constexpr size_t kRememberedMax = 4096;

}  // namespace

void DirectorySync::changed(const std::string& directory) {
  std::lock_guard lock(mutex_);
  if (changed_.size() >= kRememberedMax) too_many_ = true;
  if (!too_many_) changed_.insert(directory);
}

std::set<std::string> DirectorySync::with_parents(const std::set<std::string>& directories) const {
  std::set<std::string> all;
  for (const std::string& directory : directories) {
    all.insert(directory);
    std::string at = directory;
    while (at.size() > root_.size() && !durable_.contains(at)) {
      at = io::parent_path(at);
      all.insert(at);
    }
  }
  return all;
}

Result<void> DirectorySync::sync_each(const std::set<std::string>& directories) {
  std::set<std::string> seen;
  for (const std::string& directory : directories) {  // Parents sort before what is below them.
    const Result<void> synced = fs_.sync_directory(directory);
    if (synced.ok()) seen.insert(directory);
    // One that went away has no names left to keep; its own going is noted for its parent.
    if (!synced.ok() && synced.error().code != ErrorCode::kNotFound) return synced;
  }
  if (directories_stay_ && durable_.size() < kRememberedMax) durable_.merge(seen);
  return {};
}

Result<void> DirectorySync::sync(bool files_too) {
  std::set<std::string> directories;
  bool everything = false;
  {
    std::lock_guard lock(mutex_);
    directories.swap(changed_);
    everything = std::exchange(too_many_, false);
  }
  if (directories.empty()) return {};
  const std::set<std::string> all = with_parents(directories);
  everything = everything || files_too || all.size() > kSyncedOneByOneMax;
  Result<void> synced = everything ? fs_.sync_file_system(root_) : sync_each(all);
  if (!synced.ok()) {
    std::lock_guard lock(mutex_);
    changed_.merge(directories);
    too_many_ = too_many_ || everything;
  }
  return synced;
}

}  // namespace penstock::store
