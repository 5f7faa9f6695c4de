// How the formats of shards are read: each is a state machine that says which bytes it wants next
// and is given them. So one parser serves files, of which only the headers are read, and streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "penstock/result.h"

namespace penstock::data {

// Offsets and sizes are kept in 48 bits.
inline constexpr uint64_t kShardBytesMax = (uint64_t{1} << 48) - 1;

// Its errors say at which offset, but not in which shard.
class ShardParser {
 public:
  struct Wanted {
    uint64_t offset = 0;  // Never before the end of what was wanted last.
    size_t length = 0;    // 1 byte to 1 MiB.
    uint64_t end() const { return offset + length; }
  };

  virtual ~ShardParser() = default;
  // Nothing when the rest of the shard is of no interest.
  virtual std::optional<Wanted> wants() const = 0;
  // Exactly what was wanted. After an error, no more calls.
  virtual Result<void> take(std::span<const std::byte> bytes) = 0;
  // Instead of take(), when the shard has `size` bytes and what is wanted ends behind that: fine
  // only where the format allows an end.
  virtual Result<void> end_at(uint64_t size) = 0;
};

}  // namespace penstock::data
