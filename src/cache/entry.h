// An entry of the cache: a range of one version of an object, in a file of its own.
// docs/formats/cache.md gives the bytes and the layout of a cache directory.
//
//   | header, whole blocks: who this is, a checksum per data block, its own checksum | data, padded |
//
// The length of the header follows from who the entry is, so that a reader who knows what it wants
// can ask for header and data in one submission.
// Threads: all functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/result.h"

namespace penstock::cache {

// What checksums cover, what reads are rounded to, and what direct I/O is aligned to.
inline constexpr uint32_t kBlockBytes = 4096;

inline constexpr uint32_t kUrlBytesMax = 5 * 1024;  // 4 KiB for the source, 1 KiB for the key.
inline constexpr uint32_t kEtagBytesMax = 1024;
inline constexpr uint32_t kEntryLengthMax = 16 * 1024 * 1024;
inline constexpr uint32_t kHeaderBytesMax = 64 * 1024;
inline constexpr uint32_t kEntryBlocksMax = (kHeaderBytesMax + kEntryLengthMax) / kBlockBytes;

// Which bytes: the source's identity followed by the key, and the version.
struct ObjectVersion {
  std::string url;
  std::string etag;
  uint64_t size = 0;
  bool operator==(const ObjectVersion&) const = default;
};

// 128 bits of hash. Not trusted for identity: the header has the whole truth.
struct EntryId {
  uint64_t high = 0;
  uint64_t low = 0;
  auto operator<=>(const EntryId&) const = default;
};
struct EntryIdHash {
  size_t operator()(const EntryId& id) const { return id.low ^ id.high; }  // Hashes themselves.
};

struct EntryKey {
  ObjectVersion version;
  uint64_t offset = 0;  // In the object; a multiple of kBlockBytes.
  uint32_t length = 0;  // 1 byte to 16 MiB.
  bool operator==(const EntryKey&) const = default;
};

// Whether there can be such an entry: names within the bounds above, an aligned offset, 1 byte to
// 16 MiB, all inside the object. What cannot be one is read from the source, every time.
bool can_be_entry(const EntryKey& key);

EntryId version_id(const ObjectVersion& version);
// The same without hashing the strings again.
EntryId entry_id(const EntryId& version, uint64_t offset, uint32_t length);

// The name of an entry's file, from which the evictor learns its size without asking for it:
// 32 hex digits, '-', the blocks of the file in hex.
struct EntryName {
  EntryId id;
  uint32_t blocks = 0;
  bool operator==(const EntryName&) const = default;
  uint64_t file_bytes() const { return uint64_t{blocks} * kBlockBytes; }
  std::string text() const;
  // Nothing when `text` is not exactly what text() gives for a name of 1 to kEntryBlocksMax blocks:
  // what is planted cannot claim to be huge.
  static std::optional<EntryName> parse(std::string_view text);
};
EntryName name_of(const EntryKey& key);
EntryName name_of(const EntryKey& key, const EntryId& version);  // With version_id(key.version).

// Whole blocks, at most kHeaderBytesMax where can_be_entry().
uint32_t header_bytes(const EntryKey& key);
// Header and padded data.
uint64_t file_bytes(const EntryKey& key);

// The checksums of an entry's blocks, seeded with who it is and where each block belongs.
class BlockSums {
 public:
  BlockSums() = default;
  // True when `bytes` are the blocks from `first_block` on: one or more whole blocks, of which the
  // last of the entry is padded with zeros.
  bool verify(uint32_t first_block, std::span<const std::byte> bytes) const;
  uint32_t blocks() const { return static_cast<uint32_t>(sums_.size()); }

 private:
  friend Result<BlockSums> read_header(std::span<const std::byte>, const EntryKey&);
  friend Result<EntryKey> identify_header(std::span<const std::byte>, BlockSums*);
  BlockSums(std::vector<uint64_t> sums, uint64_t seed) : sums_(std::move(sums)), seed_(seed) {}

  std::vector<uint64_t> sums_;
  uint64_t seed_ = 0;
};

// The hashes of an entry's whole blocks, made by who passes over its bytes anyway: to read them once more
// for a checksum costs as much as to copy them.
class BlockHashes {
 public:
  // Copies all of an entry's data, and hashes it on the way. Once.
  void copy(std::span<std::byte> to, std::span<const std::byte> data);
  // From the first block on. Empty when nobody copied it.
  std::span<const uint64_t> known() const { return hashes_; }

 private:
  std::vector<uint64_t> hashes_;
};

// Makes `file`, of exactly file_bytes(key), the entry: the data lies at header_bytes(key) already;
// the header is written in front of it and the padding behind it. `known` are hashes of its first
// blocks. Requires can_be_entry(key).
void seal_entry(std::span<std::byte> file, const EntryKey& key,
                std::span<const uint64_t> known = {});

// The checksums of the entry `key` from its header (header_bytes(key) of them). kNotFound: a good
// header, of another entry (a collision of ids). kUnsupported: of a newer version. kCorrupt: none,
// or a damaged one, or not all of it.
Result<BlockSums> read_header(std::span<const std::byte> header, const EntryKey& key);

// For tools that do not know what they look at: who the entry is. `header` is the front of the file,
// at least one block and as many as there are up to kHeaderBytesMax. Errors as above.
Result<EntryKey> identify_header(std::span<const std::byte> header, BlockSums* sums = nullptr);

}  // namespace penstock::cache
