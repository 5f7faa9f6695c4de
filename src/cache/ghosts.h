// What is remembered of entries that are not in the cache: since when, and their turns. A table of
// fixed size (4 MiB) in sets of eight, in which the oldest of a set makes way.
//
// One id in 64 lives in places of its own, where it is forgotten 20 times later. So the length of a
// loop is learnt also where the table is far too small for it.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/entry.h"
#include "cache/turn.h"

namespace penstock::cache {

class Ghosts {
 public:
  struct Slot {
    // When its turn began, 40 bits in units of 16 KiB, which may wrap; 24 of the hash of its id, of
    // which one is always set. 0: empty.
    uint64_t since_and_tag = 0;
    Turn turn = {};
    // For how long, at most 2^54 bytes; to the nearest 16 KiB.
    uint64_t age(uint64_t now) const;
  };
  static_assert(sizeof(Slot) == 16);

  Slot* find(const EntryId& id);
  // Makes place for it when it is not there.
  void insert(const EntryId& id, uint64_t since, const Turn& turn, uint64_t now);
  void set_since(Slot& slot, uint64_t since);
  void erase(Slot& slot) { slot = Slot{}; }

  // For snapshots: none, or all of them.
  static constexpr uint64_t kSlots = 1 << 18;
  const std::vector<Slot>& slots() const { return slots_; }
  void set_slot(uint32_t index, const Slot& slot);  // Requires an index below kSlots.
  uint64_t memory_bytes() const { return slots_.size() * sizeof(Slot); }

 private:
  void allocate() { slots_.resize(kSlots); }

  std::vector<Slot> slots_;  // Empty until something is put in.
};

}  // namespace penstock::cache
