// Which inodes the kernel knows, and how often it was told of each. What it knows it may ask for by number,
// whether it has a name or not: an open file is known, so opens need no count of their own.
// Threads: all calls from any thread.
#pragma once

#include <array>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "penstock/meta.h"

namespace penstock::mount {

class Lookups {
 public:
  // The kernel is told of it once more: before the reply. True when it did not know it.
  bool add(meta::Ino ino);
  // The kernel takes back so many. True when it knows it no more.
  bool forget(meta::Ino ino, uint64_t count);
  bool knows(meta::Ino ino) const;
  // All that it knows, and forgets them: at the end of a mount the kernel says nothing.
  std::vector<meta::Ino> take_all();

 private:
  struct Shard {
    mutable std::mutex mutex;
    std::unordered_map<meta::Ino, uint64_t> known;
  };
  // So many threads at once seldom want the same one.
  static constexpr size_t kShards = 64;
  Shard& shard_of(meta::Ino ino) { return shards_[ino % kShards]; }
  const Shard& shard_of(meta::Ino ino) const { return shards_[ino % kShards]; }

  std::array<Shard, kShards> shards_;
};

}  // namespace penstock::mount
