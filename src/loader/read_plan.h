// From where the fields of a batch lie to the reads that bring them: neighbours are read together,
// and every byte has its place in one stretch of memory, the raw bytes of the batch.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::loader {

// A field of a slot, and where it lies.
struct Wanted {
  uint32_t source = 0;
  uint32_t shard = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  uint32_t slot = 0;
  uint32_t field = 0;
  uint32_t object = 0;  // Of loose files: which one; 0 otherwise. Never read together with another.
};

struct Piece {
  uint32_t source = 0;
  uint32_t shard = 0;
  uint32_t object = 0;
  uint32_t slot = 0;    // Of one of those that want it.
  uint64_t offset = 0;  // In the shard, rounded down.
  uint64_t length = 0;  // To be read.
  uint64_t at = 0;      // In the raw bytes.
};

// What is decoded in one go: slots, all of whose fields lie in its pieces.
struct Unit {
  uint32_t first_piece = 0;
  uint32_t pieces = 0;
  uint32_t first_slot = 0;  // In ReadPlan::slots.
  uint32_t slots = 0;
};

struct ReadRules {
  uint64_t gap_max = 32 * 1024;  // Unwanted bytes that are read along rather than a second read.
  // Neighbours are not read together beyond that. What a worker reads from the page cache is so still in
  // the CPU's when it is decoded.
  uint64_t piece_max = 256 * 1024;
  uint64_t unit_min = 256 * 1024;  // Small pieces share a unit until it has so many bytes.
  uint32_t unit_slots_max = 64;
  uint64_t alignment = 1;  // Of offsets and places, where the shard's size allows.
};

struct ReadPlan {
  std::vector<Piece> pieces;
  std::vector<Unit> units;
  std::vector<uint32_t> slots;  // Each slot that wants anything, once, grouped by unit.
  uint64_t raw_bytes = 0;

  // Where the bytes of each Wanted are in the raw bytes, in the order given.
  std::vector<uint64_t> places;
};

// `shard_bytes(source, shard)`: how large a shard is, so that no read goes beyond its end.
template <typename ShardBytes>
ReadPlan plan_reads(const std::vector<Wanted>& wanted, const ReadRules& rules,
                    const ShardBytes& shard_bytes);

namespace internal {
ReadPlan plan_reads(const std::vector<Wanted>& wanted, const ReadRules& rules,
                    uint64_t (*shard_bytes)(const void*, const Wanted&), const void* context);
}

template <typename ShardBytes>
ReadPlan plan_reads(const std::vector<Wanted>& wanted, const ReadRules& rules,
                    const ShardBytes& shard_bytes) {
  return internal::plan_reads(
      wanted, rules,
      [](const void* context, const Wanted& one) {
        return (*static_cast<const ShardBytes*>(context))(one.source, one.shard);
      },
      &shard_bytes);
}

}  // namespace penstock::loader
