// Which inodes the kernel knows, and how often it was told of each: what has no name any more may go
// only when the kernel has forgotten it. An open file is known, so opens need no count of their own.
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
  // The kernel is told of it once more. Before the reply, so that it cannot be forgotten in between.
  void add(meta::Ino ino);
  // It lost its last name. True when the kernel does not know it (any more): nobody has it open.
  bool lost_name(meta::Ino ino);
  // The kernel takes back so many. True when it was the last of them, of one without a name.
  bool forget(meta::Ino ino, uint64_t count);
  bool knows(meta::Ino ino) const;
  // All without a name, and forgets everything: at the end of a mount the kernel says nothing.
  std::vector<meta::Ino> take_nameless();

 private:
  struct Known {
    uint64_t count = 0;
    bool nameless = false;
  };
  struct Shard {
    mutable std::mutex mutex;
    std::unordered_map<meta::Ino, Known> known;
  };
  // So many threads at once seldom want the same one.
  static constexpr size_t kShards = 64;
  Shard& shard_of(meta::Ino ino) { return shards_[ino % kShards]; }
  const Shard& shard_of(meta::Ino ino) const { return shards_[ino % kShards]; }

  std::array<Shard, kShards> shards_;
};

}  // namespace penstock::mount
