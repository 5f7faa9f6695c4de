#include "mount/lookups.h"

namespace penstock::mount {

void Lookups::add(meta::Ino ino) {
  Shard& shard = shard_of(ino);
  const std::lock_guard lock(shard.mutex);
  ++shard.known[ino].count;
}

bool Lookups::lost_name(meta::Ino ino) {
  Shard& shard = shard_of(ino);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.known.find(ino);
  if (found == shard.known.end()) return true;
  found->second.nameless = true;
  return false;
}

bool Lookups::forget(meta::Ino ino, uint64_t count) {
  Shard& shard = shard_of(ino);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.known.find(ino);
  if (found == shard.known.end()) return false;
  if (found->second.count > count) {
    found->second.count -= count;
    return false;
  }
  const bool nameless = found->second.nameless;
  shard.known.erase(found);
  return nameless;
}

bool Lookups::knows(meta::Ino ino) const {
  const Shard& shard = shard_of(ino);
  const std::lock_guard lock(shard.mutex);
  return shard.known.contains(ino);
}

std::vector<meta::Ino> Lookups::take_nameless() {
  std::vector<meta::Ino> nameless;
  for (Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    for (const auto& [ino, known] : shard.known) {
      if (known.nameless) nameless.push_back(ino);
    }
    shard.known.clear();
  }
  return nameless;
}

}  // namespace penstock::mount
