#include "volume/journal_format.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

#include "penstock/frame.h"

namespace penstock::volume {

namespace {

static_assert(std::endian::native == std::endian::little, "headers are written as they lie");

constexpr std::string_view kSegmentMagic = "PSJS";
constexpr std::string_view kRecordMagic = "PSJR";
constexpr size_t kNumberDigits = 16;

template <typename Header>
Header copy_header(std::span<const std::byte> bytes) {
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  return header;
}

template <typename Header>
std::span<const std::byte> fields_of(const Header& header) {
  return std::as_bytes(std::span(&header, 1)).first(offsetof(Header, checksum));
}

uint64_t pieces_of(uint64_t content_bytes) {
  return (content_bytes + kPieceBytes - 1) / kPieceBytes;
}

uint64_t sum_of(std::span<const std::byte> bytes) {
  return codec::hash_bytes(bytes);
}

Error corrupt(std::string detail) {
  return make_error(ErrorCode::kCorrupt, std::move(detail));
}

Result<void> check_support(const SegmentHeader& header) {
  if (header.version == 0) return corrupt("a journal of format 0, which never was");
  if (header.version == kJournalVersion && header.incompatible == 0 && header.read_only == 0) {
    return {};
  }
  return make_error(
      ErrorCode::kUnsupported,
      fmt::format(
          "written by a newer version of Penstock (format {}, features {:#x} and {:#x}); this one "
          "knows format {}: use the newer one until the journal is empty",
          header.version, header.incompatible, header.read_only, kJournalVersion));
}

Result<void> check_sense(const SegmentHeader& header) {
  if (header.bytes < kSegmentBytesMin || header.bytes > kSegmentBytesMax ||
      header.bytes % kPageBytes != 0) {
    return corrupt(fmt::format("a segment of {} bytes", header.bytes));
  }
  if (header.first == 0 || header.synced >= header.first) {
    return corrupt(fmt::format("a segment that begins with record {}, when {} were synced",
                               header.first, header.synced));
  }
  return {};
}

}  // namespace

uint64_t RecordHeader::sums_bytes() const {
  return pieces_of(content_bytes) * kSumBytes;
}

uint64_t RecordHeader::total_bytes() const {
  return volume::total_bytes(record_bytes, content_bytes);
}

uint64_t total_bytes(size_t record_bytes, size_t content_bytes) {
  const uint64_t bytes = kRecordHeaderBytes + pieces_of(content_bytes) * kSumBytes +
                         uint64_t{record_bytes} + content_bytes;
  return (bytes + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
}

uint64_t SegmentIdentity::seed(uint64_t offset) const {
  std::array<std::byte, sizeof(VolumeUuid) + 3 * sizeof(uint64_t)> bytes;
  const std::array<uint64_t, 3> numbers = {number, salt, offset};
  std::memcpy(bytes.data(), volume.data(), volume.size());
  std::memcpy(bytes.data() + volume.size(), numbers.data(), sizeof(numbers));
  return codec::hash_bytes(bytes);
}

void write_segment_header(std::span<std::byte> out, const SegmentHeader& header) {
  assert(out.size() >= kSegmentHeaderBytes);
  SegmentHeader sealed = header;
  sealed.checksum = codec::hash_bytes(fields_of(sealed));
  std::ranges::fill(out.first(kSegmentHeaderBytes), std::byte{0});
  std::memcpy(out.data(), &sealed, sizeof(sealed));
}

Result<SegmentHeader> parse_segment_header(std::span<const std::byte> bytes) {
  if (bytes.size() < kSegmentFieldsBytes) return corrupt("cut off in its header");
  const auto header = copy_header<SegmentHeader>(bytes);
  if (std::string_view(header.magic, kSegmentMagic.size()) != kSegmentMagic) {
    return corrupt("not a segment of a journal: it does not begin with PSJS");
  }
  // Before the version, so that damage is never taken for something newer.
  if (header.checksum != codec::hash_bytes(fields_of(header))) {
    return corrupt("damaged in its header");
  }
  PENSTOCK_TRY(check_support(header));
  PENSTOCK_TRY(check_sense(header));
  return header;
}

RecordHeader write_body(std::span<std::byte> out, std::span<const std::byte> record,
                        std::span<const std::byte> content) {
  RecordHeader header;
  header.record_bytes = static_cast<uint32_t>(record.size());
  header.content_bytes = static_cast<uint32_t>(content.size());
  assert(out.size() == header.total_bytes());
  std::ranges::copy(record, out.begin() + static_cast<ptrdiff_t>(header.record_at()));
  header.record_sum = sum_of(record);
  const auto copy = out.subspan(header.content_at(), content.size());
  for (size_t at = 0, index = 0; at < content.size(); at += kPieceBytes, ++index) {
    const size_t bytes = std::min(kPieceBytes, content.size() - at);
    std::memcpy(copy.data() + at, content.data() + at, bytes);
    const uint64_t sum = sum_of(copy.subspan(at, bytes));  // While it is in the CPU's cache.
    std::memcpy(out.data() + kRecordHeaderBytes + index * kSumBytes, &sum, kSumBytes);
  }
  header.content_sum = sum_of(out.subspan(kRecordHeaderBytes, header.sums_bytes()));
  std::ranges::fill(out.subspan(header.content_at() + content.size()), std::byte{0});
  return header;
}

void write_record_header(std::span<std::byte> out, RecordHeader header, uint64_t seed) {
  header.checksum = codec::hash_bytes(fields_of(header), seed);
  std::memcpy(out.data(), &header, sizeof(header));
}

std::optional<RecordHeader> parse_record_header(std::span<const std::byte> bytes, uint64_t seed) {
  if (bytes.size() < kRecordHeaderBytes) return std::nullopt;
  const auto header = copy_header<RecordHeader>(bytes);
  const bool sound = std::string_view(header.magic, kRecordMagic.size()) == kRecordMagic &&
                     uint64_t{header.record_bytes} + header.content_bytes <= kBodyBytesMax &&
                     header.reserved == 0 && header.synced < header.sequence;
  if (!sound || header.checksum != codec::hash_bytes(fields_of(header), seed)) return std::nullopt;
  return header;
}

bool verify_sums(std::span<const std::byte> sums, const RecordHeader& header) {
  return sums.size() == header.sums_bytes() && sum_of(sums) == header.content_sum;
}

bool verify_piece(std::span<const std::byte> piece, std::span<const std::byte> sums, size_t index) {
  uint64_t expected = 0;
  std::memcpy(&expected, sums.subspan(index * kSumBytes, kSumBytes).data(), kSumBytes);
  return sum_of(piece) == expected;
}

std::optional<RecordView> verify_body(std::span<const std::byte> whole,
                                      const RecordHeader& header) {
  assert(whole.size() == header.total_bytes());
  const auto sums = whole.subspan(kRecordHeaderBytes, header.sums_bytes());
  const RecordView view{whole.subspan(header.record_at(), header.record_bytes),
                        whole.subspan(header.content_at(), header.content_bytes)};
  if (sum_of(view.record) != header.record_sum || !verify_sums(sums, header)) return std::nullopt;
  for (size_t at = 0, index = 0; at < view.content.size(); at += kPieceBytes, ++index) {
    const auto piece = view.content.subspan(at, std::min(kPieceBytes, view.content.size() - at));
    if (!verify_piece(piece, sums, index)) return std::nullopt;
  }
  return view;
}

std::string journal_file_name(std::string_view prefix, uint64_t number) {
  return fmt::format("{}{:016x}", prefix, number);
}

std::optional<uint64_t> parse_journal_file_name(std::string_view prefix, std::string_view name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  if (name.size() != kNumberDigits) return std::nullopt;
  uint64_t number = 0;
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit && !(c >= 'a' && c <= 'f')) return std::nullopt;
    number = number << 4 | static_cast<uint64_t>(digit ? c - '0' : c - 'a' + 10);
  }
  return number;
}

}  // namespace penstock::volume
