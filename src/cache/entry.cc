#include "cache/entry.h"

#include <fmt/core.h>

#include <array>
#include <cassert>
#include <cstring>

#include "cache/entry_header.h"
#include "penstock/frame.h"

namespace penstock::cache {

namespace {

// Any two numbers would do; these are part of the format, because names on disk depend on them.
constexpr uint64_t kSeedHigh = 0x70656e73746f636b;
constexpr uint64_t kSeedLow = 0x6361636865206964;
constexpr size_t kIdDigits = 32;

uint64_t hash_text(std::string_view text, uint64_t seed) {
  return codec::hash_bytes(std::as_bytes(std::span(text)), seed);
}

// Hashed apart, so that no part can be taken for the end of the other.
uint64_t half_of_version(const ObjectVersion& version, uint64_t seed) {
  const std::array<uint64_t, 3> parts = {hash_text(version.url, seed),
                                         hash_text(version.etag, seed), version.size};
  return codec::hash_bytes(std::as_bytes(std::span(parts)), seed);
}

// Only as text() writes them: another spelling of the number is another name.
std::optional<uint64_t> parse_hex(std::string_view digits) {
  uint64_t number = 0;
  for (const char c : digits) {
    const bool decimal = c >= '0' && c <= '9';
    if (!decimal && (c < 'a' || c > 'f')) return std::nullopt;
    number = number << 4 | static_cast<uint64_t>(decimal ? c - '0' : c - 'a' + 10);
  }
  return number;
}

}  // namespace

bool can_be_entry(const EntryKey& key) {
  return key.version.url.size() <= kUrlBytesMax && key.version.etag.size() <= kEtagBytesMax &&
         is_range_of(key.version.size, key.offset, key.length);
}

EntryId version_id(const ObjectVersion& version) {
  return {half_of_version(version, kSeedHigh), half_of_version(version, kSeedLow)};
}

EntryId entry_id(const EntryId& version, uint64_t offset, uint32_t length) {
  const std::array<uint64_t, 4> parts = {version.high, version.low, offset, length};
  const auto bytes = std::as_bytes(std::span(parts));
  return {codec::hash_bytes(bytes, kSeedHigh), codec::hash_bytes(bytes, kSeedLow)};
}

std::string EntryName::text() const {
  return fmt::format("{:016x}{:016x}-{:x}", id.high, id.low, blocks);
}

std::optional<EntryName> EntryName::parse(std::string_view text) {
  constexpr size_t kBlockDigitsMax = 8;
  if (text.size() < kIdDigits + 2 || text.size() > kIdDigits + 1 + kBlockDigitsMax ||
      text[kIdDigits] != '-' || text[kIdDigits + 1] == '0') {
    return std::nullopt;
  }
  const std::optional<uint64_t> high = parse_hex(text.substr(0, kIdDigits / 2));
  const std::optional<uint64_t> low = parse_hex(text.substr(kIdDigits / 2, kIdDigits / 2));
  const std::optional<uint64_t> blocks = parse_hex(text.substr(kIdDigits + 1));
  if (!high || !low || !blocks || *blocks > kEntryBlocksMax) return std::nullopt;
  return EntryName{{*high, *low}, static_cast<uint32_t>(*blocks)};
}

EntryName name_of(const EntryKey& key) {
  return name_of(key, version_id(key.version));
}

EntryName name_of(const EntryKey& key, const EntryId& version) {
  return {entry_id(version, key.offset, key.length),
          static_cast<uint32_t>(file_bytes(key) / kBlockBytes)};
}

uint32_t header_bytes(const EntryKey& key) {
  return static_cast<uint32_t>(
      header_bytes_for(key.version.url.size(), key.version.etag.size(), data_blocks(key.length)));
}

uint64_t file_bytes(const EntryKey& key) {
  return header_bytes(key) + uint64_t{data_blocks(key.length)} * kBlockBytes;
}

bool BlockSums::verify(uint32_t first_block, std::span<const std::byte> bytes) const {
  const size_t count = bytes.size() / kBlockBytes;
  if (count == 0 || bytes.size() % kBlockBytes != 0 || first_block > sums_.size() ||
      count > sums_.size() - first_block) {
    return false;
  }
  for (size_t i = 0; i < count; ++i) {
    const uint64_t index = first_block + i;
    if (block_sum(bytes.subspan(i * kBlockBytes, kBlockBytes), seed_, index) != sums_[index]) {
      return false;
    }
  }
  return true;
}

void BlockHashes::copy(std::span<std::byte> to, std::span<const std::byte> data) {
  assert(hashes_.empty() && to.size() == data.size());
  hashes_.reserve(data.size() / kBlockBytes);
  size_t at = 0;
  for (; at + kBlockBytes <= data.size(); at += kBlockBytes) {
    const std::span<const std::byte> block = data.subspan(at, kBlockBytes);
    hashes_.push_back(codec::hash_bytes(block));
    std::memcpy(to.data() + at, block.data(), kBlockBytes);
  }
  if (at < data.size()) std::memcpy(to.data() + at, data.data() + at, data.size() - at);
}

void seal_entry(std::span<std::byte> file, const EntryKey& key, std::span<const uint64_t> known) {
  assert(can_be_entry(key) && file.size() == file_bytes(key));
  const std::span<std::byte> header = file.first(header_bytes(key));
  const std::span<std::byte> data = file.subspan(header.size());
  std::memset(data.data() + key.length, 0, data.size() - key.length);
  write_header(header, key, data, known);
}

Result<BlockSums> read_header(std::span<const std::byte> header, const EntryKey& key) {
  const HeaderFields fields = PENSTOCK_TRY(read_fields(header));
  const auto another = [] {
    return make_error(ErrorCode::kNotFound, "a good header, of another entry of the same id");
  };
  // First, because the header of a longer name or range is not all here.
  if (!fields.may_be(key)) return another();
  const ParsedHeader parsed = PENSTOCK_TRY(parse_header(header, fields));
  if (parsed.url != key.version.url || parsed.etag != key.version.etag) return another();
  return BlockSums(parsed.sums(), parsed.seed);
}

Result<EntryKey> identify_header(std::span<const std::byte> header, BlockSums* sums) {
  const HeaderFields fields = PENSTOCK_TRY(read_fields(header));
  const ParsedHeader parsed = PENSTOCK_TRY(parse_header(header, fields));
  if (sums != nullptr) *sums = BlockSums(parsed.sums(), parsed.seed);
  return EntryKey{{std::string(parsed.url), std::string(parsed.etag), fields.object_size},
                  fields.offset,
                  fields.length};
}

}  // namespace penstock::cache
