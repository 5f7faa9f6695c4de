// The entries of a cache in memory: found by id, and picked at random. 48 bytes each, and 6 to 9
// for finding them.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cache/entry.h"
#include "cache/turn.h"

namespace penstock::cache {

struct Entry {
  enum Flag : uint8_t {
    kExpected = 1,   // A reader said that it will come for it.
    kFinished = 2,   // The last reader is done with it, for good,
    kAgain = 4,      // or until its next epoch.
    kConfirmed = 8,  // Seen since begin_scan().
    kUnused = 16,    // Never read, as far as is known: no turn has begun.
  };

  EntryId id;
  uint64_t since = 0;  // Clock at which the turn under way began,
  uint64_t last = 0;   // and of the last use.
  Turn turn = {};
  uint32_t blocks = 0;
  uint8_t flags = 0;

  // What readers said last.
  static constexpr uint8_t kSaid = kExpected | kFinished | kAgain;
  void say(Flag flag) { flags = static_cast<uint8_t>((flags & ~kSaid) | flag); }
  bool has(uint8_t flag) const { return (flags & flag) != 0; }
  EntryName name() const { return {id, blocks}; }
};
static_assert(sizeof(Entry) == 48);

// Spreads the bits of ids, which are hashes, but need not be in tests.
inline uint64_t mix(const EntryId& id) {
  uint64_t x = (id.high ^ (id.high >> 32)) * 0xD6E8FEB86659FD93U + id.low;
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93U;
  return x ^ (x >> 32);
}

class EntryTable {
 public:
  // Null when it is not there. Pointers hold until the next insert or erase.
  Entry* find(const EntryId& id);
  const Entry* find(const EntryId& id) const;
  // Null when it is there already.
  Entry* insert(const EntryId& id);
  void erase(Entry& entry);  // Moves the last one to its place.
  // Saves growing step by step to so many.
  void reserve(uint64_t entries);

  uint64_t size() const { return size_; }
  // In no order; `index` below size().
  Entry& at(uint64_t index) { return chunks_[index / kChunk][index % kChunk]; }
  const Entry& at(uint64_t index) const { return chunks_[index / kChunk][index % kChunk]; }
  uint64_t memory_bytes() const;

 private:
  static constexpr uint64_t kChunk = 4096;
  static uint8_t tag_of(uint64_t hash) { return static_cast<uint8_t>(hash % 255 + 1); }

  uint64_t home_of(uint64_t hash) const { return (hash >> 32) * tags_.size() >> 32; }
  uint64_t next(uint64_t place) const { return place + 1 == tags_.size() ? 0 : place + 1; }
  uint64_t place_of(const EntryId& id) const;  // tags_.size() when it is not there.
  void put(uint64_t hash, uint64_t index);
  void rebuild(uint64_t places);

  // Chunks, so that growing copies nothing and is never twice as large.
  std::vector<std::unique_ptr<Entry[]>> chunks_;
  uint64_t size_ = 0;
  // Linear probing: 0 for an empty place, else bits of the hash, which spare looking at the entry.
  std::vector<uint8_t> tags_;
  std::vector<uint32_t> indices_;
};

}  // namespace penstock::cache
