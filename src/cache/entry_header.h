// The bytes in front of an entry's data. docs/formats/cache.md is the specification.
// Threads: all functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "cache/entry.h"
#include "penstock/result.h"

namespace penstock::cache {

inline constexpr uint32_t kEntryVersion = 1;

// The front of a header, as it lies on disk.
struct HeaderFields {
  char magic[4];
  uint32_t version;
  uint32_t header_bytes;
  uint32_t incompatible;  // Features. Unknown ones: not to be read.
  uint32_t compatible;    // Unknown ones can be ignored.
  // From here to the end of the etag is who the entry is.
  uint32_t url_bytes;
  uint32_t etag_bytes;
  uint32_t length;
  uint64_t offset;
  uint64_t object_size;
  uint64_t checksum;  // Of the fields before it.

  // False when they contradict that this is the header of `key`.
  bool may_be(const EntryKey& key) const;
};
inline constexpr size_t kFieldsBytes = 56;
static_assert(sizeof(HeaderFields) == kFieldsBytes);

// A header that is whole and makes sense. Views into it.
struct ParsedHeader {
  std::string_view url;
  std::string_view etag;
  std::span<const std::byte> sum_bytes;
  uint64_t seed = 0;  // Of the blocks' checksums.
  std::vector<uint64_t> sums() const;
};

inline uint32_t data_blocks(uint32_t length) {
  return length / kBlockBytes + (length % kBlockBytes != 0 ? 1 : 0);
}
bool is_range_of(uint64_t object_size, uint64_t offset, uint32_t length);
uint64_t header_bytes_for(uint64_t url_bytes, uint64_t etag_bytes, uint64_t blocks);
uint64_t block_sum(std::span<const std::byte> block, uint64_t seed, uint64_t index);

// The checksum of a block from its hash.
inline uint64_t sum_of_hash(uint64_t hash, uint64_t seed, uint64_t index) {
  return hash ^ (seed + index);
}

// Requires `header` of header_bytes(key), and `data` of whole blocks, padded. The hashes of the first
// ones may be known already.
void write_header(std::span<std::byte> header, const EntryKey& key, std::span<const std::byte> data,
                  std::span<const uint64_t> known = {});

// The fields at the front of `header`: undamaged, of a version that we read, and making sense; what
// follows them was not looked at. kCorrupt, kUnsupported.
Result<HeaderFields> read_fields(std::span<const std::byte> header);
// The rest, with what read_fields gave. kCorrupt.
Result<ParsedHeader> parse_header(std::span<const std::byte> header, const HeaderFields& fields);

// Makes the checksums of a header right, as far as its fields let them be found: after writing one,
// and after changing one as a hostile writer would. Requires whole fields.
void seal_header(std::span<std::byte> header);

}  // namespace penstock::cache
