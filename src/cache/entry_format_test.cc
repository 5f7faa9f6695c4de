// Pins the bytes: entries that any version wrote must stay readable, and the document must tell the
// truth.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cache/entry.h"
#include "cache/entry_test_data.h"
#include "penstock/frame.h"

namespace penstock::cache {
namespace {

using codec::hash_bytes;
using ::testing::HasSubstr;

const EntryKey kExample{{"s3://bucket/shard-0.tar", "\"9b2cf5\"", 8}, 0, 8};

std::span<const std::byte> text_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

Bytes example_file() {
  Bytes file(file_bytes(kExample));
  std::ranges::copy(text_bytes("penstock"), file.begin() + header_bytes(kExample));
  seal_entry(file, kExample);
  return file;
}

std::string read_document() {
  std::ifstream in(PENSTOCK_SOURCE_DIR "/docs/formats/cache.md");
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// The bytes of the fenced dump. Its lines are "offset  bytes  remark", two spaces between the parts;
// each offset must fit what came before it, unless that was a line of one "*": zeros up to it.
Bytes read_dump(const std::string& document) {
  const size_t from = document.find("```text\n");
  const size_t end = document.find("```", from + 3);
  EXPECT_NE(end, std::string::npos);
  std::istringstream lines(document.substr(from + 8, end - from - 8));
  Bytes bytes;
  bool zeros = false;
  for (std::string line; std::getline(lines, line);) {
    if (line == "*") {
      zeros = true;
      continue;
    }
    const size_t offset = std::stoul(line.substr(0, 4), nullptr, 16);
    if (std::exchange(zeros, false)) bytes.resize(offset);
    EXPECT_EQ(bytes.size(), offset) << line;
    const size_t length = std::min(line.find("  ", 6), line.size());
    std::istringstream pairs(line.size() > 6 ? line.substr(6, length - 6) : "");
    for (std::string pair; pairs >> pair;) {
      bytes.push_back(static_cast<std::byte>(std::stoul(pair, nullptr, 16)));
    }
  }
  return bytes;
}

// Little-endian numbers of 8 bytes, one after the other.
Bytes numbers(std::initializer_list<uint64_t> values) {
  Bytes bytes;
  for (uint64_t value : values) {
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<std::byte>(value >> (8 * i) & 0xff));
  }
  return bytes;
}

uint64_t number_at(const Bytes& file, size_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value |= std::to_integer<uint64_t>(file[at + i]) << (8 * i);
  return value;
}

TEST(EntryFormat, DocumentedExampleIsWhatWeWriteAndRead) {
  const Bytes dump = read_dump(read_document());
  EXPECT_EQ(dump, example_file());
  ASSERT_EQ(dump.size(), file_bytes(kExample));
  EXPECT_EQ(*identify_header(dump), kExample);
  const Result<BlockSums> sums = read_header(header_of(dump, kExample), kExample);
  ASSERT_TRUE(sums.ok()) << sums.error().to_string();
  EXPECT_TRUE(sums->verify(0, data_of(dump, kExample)));
}

// The ids as the document defines them, computed here without the entry's help.
TEST(EntryFormat, DocumentedNameRuleHolds) {
  const std::string document = read_document();
  const auto half = [](uint64_t seed) {
    return hash_bytes(numbers({hash_bytes(text_bytes(kExample.version.url), seed),
                               hash_bytes(text_bytes(kExample.version.etag), seed), 8}),
                      seed);
  };
  const uint64_t high = half(0x70656e73746f636b);
  const uint64_t low = half(0x6361636865206964);
  EXPECT_EQ(version_id(kExample.version), (EntryId{high, low}));
  EXPECT_THAT(document, HasSubstr(fmt::format("`{:#018x}` and `{:#018x}`", high, low)));
  const Bytes parts = numbers({high, low, 0, 8});
  const std::string name = fmt::format("{:016x}{:016x}-2", hash_bytes(parts, 0x70656e73746f636b),
                                       hash_bytes(parts, 0x6361636865206964));
  EXPECT_EQ(name_of(kExample).text(), name);
  EXPECT_THAT(document, HasSubstr(fmt::format("`entries/{}/{}`", name.substr(0, 2), name)));
}

TEST(EntryFormat, DocumentedChecksumRulesHold) {
  const std::string document = read_document();
  const Bytes file = example_file();
  const auto part = [&](size_t from, size_t end) {
    return std::span(file).subspan(from, end - from);
  };
  const uint64_t fields = hash_bytes(part(0, 48));
  EXPECT_EQ(number_at(file, 48), fields);
  EXPECT_EQ(number_at(file, 4088), hash_bytes(part(56, 4088), fields));
  const uint64_t seed = hash_bytes(part(56, 56 + 23 + 8), hash_bytes(part(20, 48)));
  EXPECT_EQ(number_at(file, 88), hash_bytes(part(4096, 8192)) ^ seed);
  EXPECT_THAT(document, HasSubstr(fmt::format("is `{:#018x}`", seed)));

  const EntryKey longer = test_key(3 * kBlockBytes);
  const Bytes blocks = make_entry(longer);
  const size_t names = longer.version.url.size() + longer.version.etag.size();
  const auto of_longer = [&](size_t from, size_t size) {
    return std::span(blocks).subspan(from, size);
  };
  const uint64_t longer_seed = hash_bytes(of_longer(56, names), hash_bytes(of_longer(20, 28)));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(number_at(blocks, (56 + names + 7) / 8 * 8 + 8 * i),
              hash_bytes(of_longer(4096 * (i + 1), 4096)) ^ (longer_seed + i));
  }
}

TEST(EntryFormat, DocumentedSizesHold) {
  EXPECT_EQ(header_bytes(test_key(4 << 20)), 12'288u);
  EXPECT_EQ(header_bytes(test_key(1 << 20)), 4096u);
  EXPECT_EQ(kHeaderBytesMax, 65'536u);
  EXPECT_EQ(kEntryBlocksMax, 4112u);
  EXPECT_EQ(kUrlBytesMax, 5120u);
  EXPECT_EQ(kEtagBytesMax, 1024u);
  EXPECT_EQ(kEntryLengthMax, 16'777'216u);
}

}  // namespace
}  // namespace penstock::cache
