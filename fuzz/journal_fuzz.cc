// Replays arbitrary bytes as the segments of a journal: never a crash, nothing read outside of
// them, no memory beyond them; and what was replayed is replayed again, and can be added to.
// Checksums keep almost all bytes from being looked at, so they are made right where the input says
// so.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/memory_file_system.h"
#include "volume/journal.h"
#include "volume/journal_format.h"

namespace {

using namespace penstock;
using namespace penstock::volume;
using Bytes = std::vector<std::byte>;

constexpr const char* kDirectory = "/journal";
constexpr size_t kSegmentsMax = 4;

// Aborts, so that the fuzzer keeps the input.
void require(bool condition) {
  if (!condition) std::abort();
}

// Numbers and bytes from the input, zeros when it has ended.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(data, size) {}
  uint8_t byte() {
    if (rest_.empty()) return 0;
    const uint8_t value = rest_.front();
    rest_ = rest_.subspan(1);
    return value;
  }
  uint64_t small() { return byte() % 16; }
  uint64_t number() {
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }
  bool more() const { return !rest_.empty(); }

 private:
  std::span<const uint8_t> rest_;
};

JournalOptions fuzz_options() {
  JournalOptions options;
  options.segment_bytes = kSegmentBytesMin;
  options.limit_bytes = 64 * kSegmentBytesMin;
  options.spare_bytes = 2 * kSegmentBytesMin;
  options.now_ns = [] { return int64_t{1}; };
  return options;
}

// A record as the input says: mostly one that follows, sometimes with absurd numbers or lengths, or
// with a byte changed after the checksum was made.
uint64_t put_record(Input& input, std::span<std::byte> file, uint64_t offset, uint64_t& sequence,
                    const SegmentIdentity& identity) {
  const uint8_t kind = input.byte();
  const Bytes record(input.small(), std::byte{kind});
  const size_t content_bytes = kind % 8 == 7 ? input.byte() * 200 : input.small();
  const Bytes content(content_bytes, std::byte{input.byte()});
  const uint64_t total = total_bytes(record.size(), content.size());
  if (total > file.size() - offset) return file.size();
  const auto whole = file.subspan(offset, total);
  RecordHeader header = write_body(whole, record, content);
  header.sequence = kind & 8 ? input.number() : sequence + 1;
  header.synced = kind & 16 ? input.small() : 0;
  if (kind & 32) header.record_bytes = static_cast<uint32_t>(input.number());
  if (kind & 64) header.content_bytes = static_cast<uint32_t>(input.number());
  write_record_header(whole, header, identity.seed(offset));
  if (kind & 128) whole[input.byte() % total] ^= static_cast<std::byte>(input.byte());
  sequence = header.sequence;
  return offset + total + (kind % 32 == 3 ? 8 : 0);
}

void put_segment(Input& input, io::FileSystem& fs, uint64_t number, uint64_t& sequence) {
  const uint8_t kind = input.byte();
  SegmentHeader header;
  header.number = number;
  header.bytes = kind & 1 ? input.number() : kSegmentBytesMin;
  header.first = kind & 2 ? input.small() : sequence + 1;
  header.synced = kind & 4 ? input.small() : 0;
  header.salt = kind & 8 ? input.number() : 0;
  header.version = kind & 16 ? input.byte() : kJournalVersion;
  Bytes file(kind & 32 ? kSegmentBytesMin / 4 + input.byte() : kSegmentBytesMin);
  write_segment_header(file, header);
  if (kind & 64) file[input.byte() % kSegmentFieldsBytes] ^= static_cast<std::byte>(input.byte());
  const SegmentIdentity identity{header.volume, header.number, header.salt};
  uint64_t offset = kSegmentHeaderBytes;
  const uint64_t records = input.small();
  for (uint64_t i = 0; i < records && offset < file.size(); ++i) {
    offset = put_record(input, file, offset, sequence, identity);
  }
  // And bytes as they come.
  for (size_t raw = input.byte(); raw > 0 && input.more() && offset < file.size(); --raw) {
    file[offset++] = std::byte{input.byte()};
  }
  const auto opened =
      fs.open(std::string(kDirectory) + "/" + journal_file_name(kSegmentPrefix, number),
              {.access = io::Access::kWrite, .create = io::Create::kIfMissing});
  require(opened.ok() && (*opened)->write(0, file).ok());
}

// The sum of all that was visited; nothing when it failed.
std::optional<uint64_t> replay(Journal& journal, uint64_t committed) {
  uint64_t sum = 0;
  uint64_t last = committed;
  const Result<void> replayed =
      journal.replay(committed,
                     [&](const JournalPlace& place, std::span<const std::byte> record,
                         std::span<const std::byte> content) -> Result<void> {
                       require(place.sequence == ++last);
                       require(record.size() + content.size() < place.bytes);
                       for (const auto part : {record, content}) {
                         for (const std::byte byte : part)
                           sum = sum * 31 + std::to_integer<uint64_t>(byte);
                       }
                       return {};
                     });
  if (replayed.ok()) {
    require(journal.usage().last == last);
    return sum;
  }
  require(replayed.error().code == ErrorCode::kCorrupt);
  return std::nullopt;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  io::MemoryFileSystem fs;
  require(fs.make_directory(kDirectory).ok());
  const uint64_t committed = input.small();
  uint64_t sequence = input.small();
  const uint64_t segments = 1 + input.byte() % kSegmentsMax;
  for (uint64_t number = 1; number <= segments; ++number) {
    put_segment(input, fs, number, sequence);
  }
  const auto first = Journal::open(fs, kDirectory, fuzz_options());
  if (!first.ok()) {
    require(first.error().code == ErrorCode::kUnsupported);
    return 0;
  }
  const auto sum = replay(**first, committed);
  if (!sum) return 0;
  const auto second = Journal::open(fs, kDirectory, fuzz_options());
  require(second.ok() && replay(**second, committed) == sum);
  const uint64_t last = (*second)->usage().last;
  if (last < UINT64_MAX - 1) {
    require((*second)->append({}).ok());
    const auto third = Journal::open(fs, kDirectory, fuzz_options());
    require(third.ok() && replay(**third, committed));
    require((*third)->usage().last == last + 1);
  }
  return 0;
}
