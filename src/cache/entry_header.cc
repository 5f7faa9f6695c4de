#include "cache/entry_header.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "penstock/frame.h"

namespace penstock::cache {

namespace {

static_assert(std::endian::native == std::endian::little, "headers are written as they lie");

constexpr std::string_view kMagic = "PSCE";
constexpr size_t kSumBytes = sizeof(uint64_t);
constexpr size_t kIdentityAt = offsetof(HeaderFields, url_bytes);
constexpr size_t kIdentityEnd = offsetof(HeaderFields, checksum);

uint64_t round_up(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

uint64_t sums_at(uint64_t url_bytes, uint64_t etag_bytes) {
  return round_up(kFieldsBytes + url_bytes + etag_bytes, kSumBytes);
}

Error corrupt(std::string detail) {
  return make_error(ErrorCode::kCorrupt, std::move(detail));
}

uint64_t fields_checksum(std::span<const std::byte> header) {
  return codec::hash_bytes(header.first(offsetof(HeaderFields, checksum)));
}

// Seeded with the checksum of the fields, so that no two halves of different headers fit together.
uint64_t rest_checksum(std::span<const std::byte> header, const HeaderFields& fields) {
  const size_t end = fields.header_bytes - kSumBytes;
  return codec::hash_bytes(header.subspan(kFieldsBytes, end - kFieldsBytes), fields.checksum);
}

// The names, seeded with the numbers of the identity.
uint64_t data_seed(std::span<const std::byte> header, const HeaderFields& fields) {
  const uint64_t numbers =
      codec::hash_bytes(header.subspan(kIdentityAt, kIdentityEnd - kIdentityAt));
  return codec::hash_bytes(header.subspan(kFieldsBytes, fields.url_bytes + fields.etag_bytes),
                           numbers);
}

HeaderFields copy_fields(std::span<const std::byte> header) {
  HeaderFields fields;
  std::memcpy(&fields, header.data(), kFieldsBytes);
  return fields;
}

Result<void> check_support(const HeaderFields& fields) {
  if (fields.version == 0) return corrupt("header of a cache entry of format 0, which never was");
  if (fields.version == kEntryVersion && fields.incompatible == 0) return {};
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("cache entry made by a newer version of Penstock (format {}, "
                                "features {:#x}); this one knows format {}",
                                fields.version, fields.incompatible, kEntryVersion));
}

Result<void> check_sense(const HeaderFields& fields) {
  if (fields.url_bytes > kUrlBytesMax || fields.etag_bytes > kEtagBytesMax) {
    return corrupt(
        fmt::format("cache entry with names of {} and {} bytes; at most {} and {} are "
                    "allowed",
                    fields.url_bytes, fields.etag_bytes, kUrlBytesMax, kEtagBytesMax));
  }
  if (!is_range_of(fields.object_size, fields.offset, fields.length)) {
    return corrupt(fmt::format("cache entry of {} bytes from {} of an object of {}", fields.length,
                               fields.offset, fields.object_size));
  }
  const uint64_t expected =
      header_bytes_for(fields.url_bytes, fields.etag_bytes, data_blocks(fields.length));
  if (fields.header_bytes != expected) {
    return corrupt(fmt::format("cache entry with a header of {} bytes instead of {}",
                               fields.header_bytes, expected));
  }
  return {};
}

bool all_zero(std::span<const std::byte> bytes) {
  // Every byte is like the one before it, compared many at a time.
  return bytes.empty() || (bytes[0] == std::byte{0} &&
                           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace

bool HeaderFields::may_be(const EntryKey& key) const {
  return url_bytes == key.version.url.size() && etag_bytes == key.version.etag.size() &&
         length == key.length && offset == key.offset && object_size == key.version.size;
}

std::vector<uint64_t> ParsedHeader::sums() const {
  std::vector<uint64_t> sums(sum_bytes.size() / kSumBytes);
  std::memcpy(sums.data(), sum_bytes.data(), sum_bytes.size());
  return sums;
}

bool is_range_of(uint64_t object_size, uint64_t offset, uint32_t length) {
  return length >= 1 && length <= kEntryLengthMax && offset % kBlockBytes == 0 &&
         offset <= object_size && length <= object_size - offset;
}

uint64_t header_bytes_for(uint64_t url_bytes, uint64_t etag_bytes, uint64_t blocks) {
  return round_up(sums_at(url_bytes, etag_bytes) + (blocks + 1) * kSumBytes, kBlockBytes);
}
static_assert(kFieldsBytes + kUrlBytesMax + kEtagBytesMax + kSumBytes +
                  (kEntryLengthMax / kBlockBytes + 1) * kSumBytes <=
              kHeaderBytesMax);

uint64_t block_sum(std::span<const std::byte> block, uint64_t seed, uint64_t index) {
  // Not as the seed of the hash: that costs a third of its time again, for every block.
  return sum_of_hash(codec::hash_bytes(block), seed, index);
}

void seal_header(std::span<std::byte> header) {
  const uint64_t first = fields_checksum(header);
  std::memcpy(header.data() + offsetof(HeaderFields, checksum), &first, sizeof(first));
  const HeaderFields fields = copy_fields(header);
  if (fields.header_bytes < kBlockBytes || fields.header_bytes > header.size()) return;
  const uint64_t rest = rest_checksum(header, fields);
  std::memcpy(header.data() + fields.header_bytes - kSumBytes, &rest, sizeof(rest));
}

void write_header(std::span<std::byte> header, const EntryKey& key, std::span<const std::byte> data,
                  std::span<const uint64_t> known) {
  const ObjectVersion& version = key.version;
  HeaderFields fields{.magic = {},
                      .version = kEntryVersion,
                      .header_bytes = static_cast<uint32_t>(header.size()),
                      .incompatible = 0,
                      .compatible = 0,
                      .url_bytes = static_cast<uint32_t>(version.url.size()),
                      .etag_bytes = static_cast<uint32_t>(version.etag.size()),
                      .length = key.length,
                      .offset = key.offset,
                      .object_size = version.size,
                      .checksum = 0};
  std::ranges::copy(kMagic, fields.magic);
  std::ranges::fill(header, std::byte{0});
  std::memcpy(header.data(), &fields, kFieldsBytes);
  std::byte* names = header.data() + kFieldsBytes;
  std::ranges::copy(std::as_bytes(std::span(version.url)), names);
  std::ranges::copy(std::as_bytes(std::span(version.etag)), names + version.url.size());

  const uint64_t seed = data_seed(header, fields);
  std::byte* sums = header.data() + sums_at(fields.url_bytes, fields.etag_bytes);
  for (uint64_t i = 0; i < data.size() / kBlockBytes; ++i) {
    const uint64_t sum = i < known.size()
                             ? sum_of_hash(known[i], seed, i)
                             : block_sum(data.subspan(i * kBlockBytes, kBlockBytes), seed, i);
    std::memcpy(sums + i * kSumBytes, &sum, kSumBytes);
  }
  seal_header(header);
}

Result<HeaderFields> read_fields(std::span<const std::byte> header) {
  if (header.size() < kBlockBytes) {
    return corrupt(fmt::format("{} bytes where the header of a cache entry has at least {}",
                               header.size(), kBlockBytes));
  }
  const HeaderFields fields = copy_fields(header);
  if (std::string_view(fields.magic, kMagic.size()) != kMagic) {
    return corrupt("not a cache entry: it does not begin with PSCE");
  }
  // Before the version, so that damage is never taken for something newer.
  if (fields.checksum != fields_checksum(header)) {
    return corrupt("the header of a cache entry is damaged in its fields");
  }
  PENSTOCK_TRY(check_support(fields));
  PENSTOCK_TRY(check_sense(fields));
  return fields;
}

Result<ParsedHeader> parse_header(std::span<const std::byte> header, const HeaderFields& fields) {
  if (fields.header_bytes > header.size()) {
    return corrupt(fmt::format("{} bytes left of the header of a cache entry, which has {}",
                               header.size(), fields.header_bytes));
  }
  header = header.first(fields.header_bytes);
  uint64_t stored = 0;
  std::memcpy(&stored, header.last(kSumBytes).data(), kSumBytes);
  if (stored != rest_checksum(header, fields)) {
    return corrupt("the header of a cache entry is damaged");
  }
  const auto* names = reinterpret_cast<const char*>(header.data()) + kFieldsBytes;
  const size_t names_end = kFieldsBytes + fields.url_bytes + fields.etag_bytes;
  const size_t sums_begin = sums_at(fields.url_bytes, fields.etag_bytes);
  const size_t sums_end = sums_begin + data_blocks(fields.length) * kSumBytes;
  const auto spare = header.subspan(sums_end, header.size() - kSumBytes - sums_end);
  // A feature that may be ignored can use the room that is left over.
  if (fields.compatible == 0 &&
      !(all_zero(header.subspan(names_end, sums_begin - names_end)) && all_zero(spare))) {
    return corrupt("header of a cache entry with bytes in use that mean nothing");
  }
  return ParsedHeader{{names, fields.url_bytes},
                      {names + fields.url_bytes, fields.etag_bytes},
                      header.subspan(sums_begin, sums_end - sums_begin),
                      data_seed(header, fields)};
}

}  // namespace penstock::cache
