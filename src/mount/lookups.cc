#include "mount/lookups.h"

namespace penstock::mount {

bool Lookups::add(meta::Ino ino) {
  Shard& shard = shard_of(ino);
  const std::lock_guard lock(shard.mutex);
  return ++shard.known[ino] == 1;
}

bool Lookups::forget(meta::Ino ino, uint64_t count) {
  Shard& shard = shard_of(ino);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.known.find(ino);
  if (found == shard.known.end()) return false;
  if (found->second > count) {
    found->second -= count;
    return false;
  }
  shard.known.erase(found);
  return true;
}

bool Lookups::knows(meta::Ino ino) const {
  const Shard& shard = shard_of(ino);
  const std::lock_guard lock(shard.mutex);
  return shard.known.contains(ino);
}

std::vector<meta::Ino> Lookups::take_all() {
  std::vector<meta::Ino> all;
  for (Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    for (const auto& [ino, count] : shard.known) all.push_back(ino);
    shard.known.clear();
  }
  return all;
}

}  // namespace penstock::mount
