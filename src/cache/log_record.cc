#include "cache/log_record.h"

#include <bit>
#include <cstring>

#include "penstock/frame.h"

namespace penstock::cache {

namespace {

static_assert(std::endian::native == std::endian::little, "records are written as they lie");

// As on the drive. Kinds 1 to 7 are those of notes.
constexpr uint8_t kTerms = 8;
constexpr uint8_t kStanding = 9;
constexpr uint8_t kLeft = 10;
constexpr uint8_t kLost = 11;
constexpr uint8_t kTally = 12;

struct RawRecord {
  uint8_t kind = 0;
  uint8_t zero[3] = {};
  uint32_t checksum = 0;
  uint64_t words[3] = {};
};
static_assert(sizeof(RawRecord) == kRecordBytes);

uint32_t checksum_of(RawRecord raw) {
  constexpr uint64_t kSeed = 0x50454e53544c4f47;  // Zeros must not be a record.
  raw.checksum = 0;
  return static_cast<uint32_t>(codec::hash_bytes(std::as_bytes(std::span(&raw, 1)), kSeed));
}

RawRecord raw_of(const Note& note) {
  const uint64_t last = note.changes_files() ? note.bytes / kBlockBytes : note.bytes;
  return {.kind = static_cast<uint8_t>(note.kind), .words = {note.id.high, note.id.low, last}};
}
RawRecord raw_of(const Terms& terms) {
  return {.kind = kTerms, .words = {terms.quota_bytes, terms.floor_bytes, 0}};
}
RawRecord raw_of(const Standing& standing) {
  const uint64_t second = standing.reserved_blocks | uint64_t{standing.adopted} << 32;
  return {.kind = kStanding, .words = {standing.published_bytes, second, standing.ceiling_bytes}};
}
RawRecord raw_of(const Tally& tally) {
  return {.kind = kTally, .words = {tally.hit_bytes, tally.miss_bytes, tally.anew ? 1U : 0U}};
}
RawRecord raw_of(const Left&) {
  return {.kind = kLeft};
}
RawRecord raw_of(const Lost&) {
  return {.kind = kLost};
}
RawRecord raw_of(const Unknown&) {
  return {};
}

std::optional<LogRecord> parse_note(const RawRecord& raw) {
  Note note{.kind = static_cast<Note::Kind>(raw.kind),
            .id = {raw.words[0], raw.words[1]},
            .bytes = raw.words[2]};
  if (!note.changes_files()) return note;
  const uint64_t blocks = raw.words[2];
  if (blocks == 0 || blocks > UINT32_MAX) return std::nullopt;
  note.bytes = blocks * kBlockBytes;
  return note;
}

}  // namespace

void append_record(std::string& out, const LogRecord& record) {
  RawRecord raw = std::visit([](const auto& kind) { return raw_of(kind); }, record);
  raw.checksum = checksum_of(raw);
  out.append(reinterpret_cast<const char*>(&raw), sizeof(raw));
}

void seal_record(std::span<std::byte, kRecordBytes> record) {
  RawRecord raw;
  std::memcpy(&raw, record.data(), sizeof(raw));
  raw.checksum = checksum_of(raw);
  std::memcpy(record.data(), &raw, sizeof(raw));
}

std::optional<LogRecord> parse_record(std::span<const std::byte, kRecordBytes> bytes) {
  RawRecord raw;
  std::memcpy(&raw, bytes.data(), sizeof(raw));
  if (raw.kind == 0 || raw.checksum != checksum_of(raw)) return std::nullopt;
  if (raw.kind < kTerms) return parse_note(raw);
  switch (raw.kind) {
    case kTerms:
      return Terms{raw.words[0], raw.words[1]};
    case kStanding:
      return Standing{.published_bytes = raw.words[0],
                      .reserved_blocks = static_cast<uint32_t>(raw.words[1]),
                      .adopted = static_cast<uint32_t>(raw.words[1] >> 32),
                      .ceiling_bytes = raw.words[2]};
    case kTally:
      return Tally{raw.words[0], raw.words[1], raw.words[2] != 0};
    case kLeft:
      return Left{};
    case kLost:
      return Lost{};
    default:
      return Unknown{};
  }
}

}  // namespace penstock::cache
