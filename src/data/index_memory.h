#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "penstock/data.h"

namespace penstock::data {

// The indexes of shards that are in memory. Above a limit, those not used for longest go.
//
// Finding one takes no lock: a reader says that it is looking before it takes the pointer, and who
// takes an index away waits for those that are looking before it lets go of it.
//
// Threads: all calls from any thread.
class IndexMemory {
 public:
  using Ref = std::shared_ptr<const ShardIndex>;

  IndexMemory(size_t shards, uint64_t limit_bytes) : limit_bytes_(limit_bytes), slots_(shards) {}
  ~IndexMemory();

  // Null when it is not here.
  Ref find(uint32_t shard);
  // Answers the one that is here afterwards: somebody else may have been faster. `stays`: it can be had
  // from nowhere else, and counts for nothing.
  Ref add(uint32_t shard, Ref index, bool stays);

  uint64_t bytes() const;

 private:
  struct alignas(64) Slot {
    std::atomic<const Ref*> index = nullptr;
    std::atomic<uint32_t> readers = 0;
    std::atomic<bool> used = false;  // Since the hand came by.
    bool stays = false;
  };

  void make_room(std::unique_lock<std::mutex>& held, const Slot& keep);
  void take_away(Slot& slot);

  const uint64_t limit_bytes_;
  std::vector<Slot> slots_;
  mutable std::mutex mutex_;  // Of what follows, and of changes to slots.
  uint64_t bytes_ = 0;
  size_t hand_ = 0;
};

}  // namespace penstock::data
