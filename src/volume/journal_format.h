// The bytes of a journal. docs/formats/journal.md is the specification.
// Threads: all functions are pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "penstock/result.h"
#include "penstock/units.h"
#include "volume/uuid.h"

namespace penstock::volume {

inline constexpr uint32_t kJournalVersion = 1;
inline constexpr uint64_t kSegmentHeaderBytes = 4096;  // Records begin behind it.
inline constexpr uint64_t kSegmentFieldsBytes = 96;    // The part of it that means something.
inline constexpr uint64_t kSegmentBytesMin = 64 * kKiB;
inline constexpr uint64_t kSegmentBytesMax = kTiB;
inline constexpr uint64_t kPageBytes = 4096;
inline constexpr size_t kRecordHeaderBytes = 64;
inline constexpr size_t kRecordAlignment = 8;
// Content is verified in pieces, so that reading a little of it costs little.
inline constexpr size_t kPieceBytes = 64 * kKiB;
inline constexpr size_t kSumBytes = sizeof(uint64_t);

// The front of a segment, as it lies on the drive.
struct SegmentHeader {
  char magic[4] = {'P', 'S', 'J', 'S'};
  uint32_t version = kJournalVersion;
  uint32_t incompatible = 0;  // Features. Unknown ones: not to be touched.
  uint32_t read_only = 0;     // Unknown ones: may be read, not written.
  uint32_t compatible = 0;    // Unknown ones can be ignored.
  uint32_t reserved = 0;
  VolumeUuid volume{};
  uint64_t number = 0;
  uint64_t salt = 0;      // Random: nobody could have put a record that fits here before.
  uint64_t bytes = 0;     // Of the segment.
  uint64_t first = 0;     // Sequence of its first record, there or to come.
  uint64_t synced = 0;    // What was durable when the segment came into use.
  int64_t time_ns = 0;    // When that was.
  uint64_t checksum = 0;  // Of the fields before it.
};
static_assert(sizeof(SegmentHeader) == kSegmentFieldsBytes);

// The front of a record, as it lies on the drive. Behind it: a checksum for each piece of the
// content, the record, the content, zeros up to a multiple of 8.
struct RecordHeader {
  char magic[4] = {'P', 'S', 'J', 'R'};
  uint32_t record_bytes = 0;
  uint32_t content_bytes = 0;
  uint32_t reserved = 0;
  uint64_t sequence = 0;
  uint64_t synced = 0;       // Up to here all was durable when this was appended.
  int64_t time_ns = 0;       // When that was, since the epoch.
  uint64_t record_sum = 0;   // Of the record.
  uint64_t content_sum = 0;  // Of the checksums of the content's pieces.
  uint64_t checksum = 0;     // Of the fields before it, seeded with where the record lies.

  uint64_t sums_bytes() const;
  uint64_t record_at() const { return kRecordHeaderBytes + sums_bytes(); }  // In the whole record.
  uint64_t content_at() const { return record_at() + record_bytes; }
  uint64_t total_bytes() const;  // Of the whole record.
};
static_assert(sizeof(RecordHeader) == kRecordHeaderBytes);

// Who a segment is, for the checksums of the records in it.
struct SegmentIdentity {
  VolumeUuid volume{};
  uint64_t number = 0;
  uint64_t salt = 0;
  uint64_t seed(uint64_t offset) const;
};

// Of a record that the journal takes.
inline constexpr size_t kBodyBytesMax = 2 * kMiB;
uint64_t total_bytes(size_t record_bytes, size_t content_bytes);
inline constexpr uint64_t kTotalBytesMax = kRecordHeaderBytes +
                                           kBodyBytesMax / kPieceBytes * kSumBytes + kSumBytes +
                                           kBodyBytesMax + kRecordAlignment;

// A header ready to be written: kSegmentHeaderBytes to the front of `out`.
void write_segment_header(std::span<std::byte> out, const SegmentHeader& header);
// kCorrupt: damaged, or none. kUnsupported: undamaged, and made by something newer.
Result<SegmentHeader> parse_segment_header(std::span<const std::byte> bytes);

// Writes all of a record but its header, whose lengths and sums are set, to its place in `out` of
// total_bytes(), padding included. This is most of the work, and depends on no place: it is done
// before a writer's turn comes.
RecordHeader write_body(std::span<std::byte> out, std::span<const std::byte> record,
                        std::span<const std::byte> content);
// The header to the front of `out`, with its checksum.
void write_record_header(std::span<std::byte> out, RecordHeader header, uint64_t seed);
// The header of a record with this seed, undamaged and making sense. What follows was not looked
// at.
std::optional<RecordHeader> parse_record_header(std::span<const std::byte> bytes, uint64_t seed);

// A whole record, its header included.
struct RecordView {
  std::span<const std::byte> record;
  std::span<const std::byte> content;
};
// Nothing when any byte of it is damaged. Requires `whole` of header.total_bytes().
std::optional<RecordView> verify_body(std::span<const std::byte> whole, const RecordHeader& header);
// Whether `sums`, as they lie behind the header, are those that it says.
bool verify_sums(std::span<const std::byte> sums, const RecordHeader& header);
// Whether this is the piece of that index. Requires verified sums.
bool verify_piece(std::span<const std::byte> piece, std::span<const std::byte> sums, size_t index);

// "segment-000000000000002a". A spare keeps the number that it had; one that is being made has the
// number that it will get.
inline constexpr std::string_view kSegmentPrefix = "segment-";
inline constexpr std::string_view kSparePrefix = "spare-";
inline constexpr std::string_view kUnfinishedPrefix = "unfinished-";
std::string journal_file_name(std::string_view prefix, uint64_t number);
std::optional<uint64_t> parse_journal_file_name(std::string_view prefix, std::string_view name);

}  // namespace penstock::volume
