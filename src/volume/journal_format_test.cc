// The bytes are those of docs/formats/journal.md.
#include "volume/journal_format.h"

#include <fstream>
#include <sstream>

#include "io/memory_file_system.h"
#include "volume/journal_test_support.h"

namespace penstock::volume {
namespace {

using ::testing::HasSubstr;

SegmentHeader example_segment() {
  SegmentHeader header;
  header.volume = small_options().volume;
  header.number = 0x2a;
  header.salt = 0x1122334455667788;
  header.bytes = 64 * kMiB;
  header.first = 1000;
  header.synced = 990;
  header.time_ns = 1'769'860'800'000'000'000;
  return header;
}

Bytes example_record() {
  const Bytes record = bytes_of("write");
  const Bytes content = bytes_of("penstock");
  Bytes whole(total_bytes(record.size(), content.size()));
  RecordHeader header = write_body(whole, record, content);
  header.sequence = 1000;
  header.synced = 997;
  header.time_ns = 1'769'860'800'500'000'000;
  const SegmentHeader segment = example_segment();
  write_record_header(whole, header,
                      SegmentIdentity{segment.volume, segment.number, segment.salt}.seed(4096));
  return whole;
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x} ", std::to_integer<int>(byte));
  return text;
}

// The bytes of the example in the page whose first line begins with `offset`: "OFFSET  BYTES
// words".
std::string example_in_docs(const std::string& heading) {
  std::ifstream file(std::string(PENSTOCK_SOURCE_DIR) + "/docs/formats/journal.md");
  std::stringstream text;
  text << file.rdbuf();
  std::istringstream lines(
      text.str().substr(std::min(text.str().find(heading), text.str().size())));
  std::string bytes;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      if (inside) break;
      inside = true;
    } else if (inside && line.size() > 6) {
      for (size_t at = 6; at + 1 < line.size() && line[at] != ' '; at += 3) {
        bytes += line.substr(at, 2) + " ";
      }
    }
  }
  return bytes;
}

TEST(JournalFormat, IsThatOfTheDocumentation) {
  Bytes front(kSegmentHeaderBytes);
  write_segment_header(front, example_segment());
  EXPECT_EQ(hex(std::span(front).first(kSegmentFieldsBytes)), example_in_docs("### The segment"));
  EXPECT_EQ(hex(example_record()), example_in_docs("### The record"));
}

TEST(JournalFormat, SegmentHeadersComeBack) {
  Bytes front(kSegmentHeaderBytes);
  write_segment_header(front, example_segment());
  const auto header = parse_segment_header(front);
  ASSERT_THAT(header, IsOk());
  EXPECT_EQ(header->number, 0x2au);
  EXPECT_EQ(header->first, 1000u);
  EXPECT_EQ(header->synced, 990u);
  EXPECT_THAT(parse_segment_header(std::span(front).first(95)), FailsWith(ErrorCode::kCorrupt));
}

TEST(JournalFormat, NewerOnesAreRefusedWithAWord) {
  const std::string path = kJournalPath + "/segment-000000000000002a";
  for (const int what : {0, 1, 2, 3}) {
    io::MemoryFileSystem fs;
    SegmentHeader header = example_segment();
    if (what == 0) header.version = 2;
    if (what == 1) header.incompatible = 4;
    if (what == 2) header.read_only = 1;
    if (what == 3) header.compatible = 1;
    Bytes front(kSegmentHeaderBytes);
    write_segment_header(front, header);
    ASSERT_THAT(io::make_directories(fs, kJournalPath), IsOk());
    {
      const auto file =
          fs.open(path, {.access = io::Access::kWrite, .create = io::Create::kIfMissing});
      ASSERT_THAT((*file)->write(0, front), IsOk());
    }
    const auto opened = Journal::open(fs, kJournalPath, small_options());
    if (what == 3) {
      EXPECT_THAT(opened, IsOk());
      continue;
    }
    ASSERT_THAT(opened, FailsWith(ErrorCode::kUnsupported));
    EXPECT_THAT(opened.error().detail, HasSubstr("newer version of Penstock"));
    EXPECT_THAT(opened.error().detail, HasSubstr(path));
  }
}

TEST(JournalFormat, HeadersThatMakeNoSenseAreDamage) {
  Bytes front(kSegmentHeaderBytes);
  const auto refused = [&](auto change) {
    SegmentHeader header = example_segment();
    change(header);
    write_segment_header(front, header);
    EXPECT_THAT(parse_segment_header(front), FailsWith(ErrorCode::kCorrupt));
  };
  refused([](SegmentHeader& header) { header.version = 0; });
  refused([](SegmentHeader& header) { header.first = 0; });
  refused([](SegmentHeader& header) { header.synced = header.first; });
  refused([](SegmentHeader& header) { header.bytes += 1; });
  refused([](SegmentHeader& header) { header.bytes = 4096; });
  refused([](SegmentHeader& header) { header.bytes = 2 * kTiB; });
  refused([](SegmentHeader& header) { header.magic[0] = 'X'; });
}

TEST(JournalFormat, ARecordFitsItsPlaceOnly) {
  const Bytes whole = example_record();
  const SegmentHeader segment = example_segment();
  SegmentIdentity identity{segment.volume, segment.number, segment.salt};
  const auto header = parse_record_header(whole, identity.seed(4096));
  ASSERT_TRUE(header);
  const auto view = verify_body(whole, *header);
  ASSERT_TRUE(view);
  EXPECT_TRUE(std::ranges::equal(view->record, bytes_of("write")));
  EXPECT_TRUE(std::ranges::equal(view->content, bytes_of("penstock")));
  EXPECT_FALSE(parse_record_header(whole, identity.seed(4104)));
  ++identity.number;
  EXPECT_FALSE(parse_record_header(whole, identity.seed(4096)));
  --identity.number;
  ++identity.salt;
  EXPECT_FALSE(parse_record_header(whole, identity.seed(4096)));
  --identity.salt;
  identity.volume[0] = std::byte{1};
  EXPECT_FALSE(parse_record_header(whole, identity.seed(4096)));
  EXPECT_FALSE(parse_record_header(std::span(whole).first(63), identity.seed(4096)));
}

TEST(JournalFormat, Names) {
  EXPECT_EQ(journal_file_name(kSegmentPrefix, 42), "segment-000000000000002a");
  EXPECT_EQ(parse_journal_file_name(kSegmentPrefix, "segment-000000000000002a"), 42u);
  EXPECT_EQ(parse_journal_file_name(kSegmentPrefix, "segment-ffffffffffffffff"), UINT64_MAX);
  for (const char* name : {"segment-", "segment-2a", "segment-000000000000002A",
                           "segment-000000000000002a0", "spare-000000000000002a", ""}) {
    EXPECT_FALSE(parse_journal_file_name(kSegmentPrefix, name)) << name;
  }
}

}  // namespace
}  // namespace penstock::volume
