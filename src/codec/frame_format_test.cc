// Pins the bytes: frames written by any version must stay readable, and the document must tell the
// truth.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "codec/test_data.h"

namespace penstock::codec {
namespace {

using ::testing::HasSubstr;

constexpr CodecSpec kNone{Codec::kNone, 0};

Bytes from_hex(const std::string& text) {
  std::istringstream in(text);
  Bytes bytes;
  for (std::string pair; in >> pair;) {
    bytes.push_back(static_cast<std::byte>(std::stoul(pair, nullptr, 16)));
  }
  return bytes;
}

Bytes decoded(const Bytes& frame, size_t raw_bytes) {
  Bytes out(raw_bytes);
  const Result<FrameHeader> header = decode_frame(frame, out, test_identity());
  EXPECT_TRUE(header.ok()) << header.error().to_string();
  return out;
}

std::string read_document() {
  std::ifstream in(PENSTOCK_SOURCE_DIR "/docs/formats/frame.md");
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// The bytes of the fenced dump below `heading`. Its lines are "offset  bytes  remark", two spaces
// between the parts; each offset must fit what came before it.
Bytes dump_below(const std::string& document, const std::string& heading) {
  const size_t from = document.find("```text\n", document.find(heading));
  const size_t end = document.find("```", from + 3);
  EXPECT_NE(end, std::string::npos) << heading;
  std::istringstream lines(document.substr(from + 8, end - from - 8));
  Bytes bytes;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_EQ(line.substr(0, 4), fmt::format("{:02x}  ", bytes.size()));
    const size_t length = std::min(line.find("  ", 4), line.size()) - 4;
    const Bytes part = from_hex(line.substr(4, length));
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

TEST(FrameFormat, GoldenRawFrame) {
  const Bytes golden = from_hex(
      "50 53 46 52 01 00 00 00 00 00 00 00 08 00 00 00 08 00 00 00 00 00 00 00 00 00 00 00 00 00 "
      "00 00 cd e1 93 53 50 a9 c2 11 70 65 6e 73 74 6f 63 6b");
  EXPECT_EQ(make_frame(bytes_of("penstock"), kNone), golden);
  EXPECT_EQ(decoded(golden, 8), bytes_of("penstock"));
}

// Compressors may find a shorter form some day; what they wrote must stay readable.
TEST(FrameFormat, GoldenCompressedFramesDecode) {
  const Bytes lz4 = from_hex(
      "50 53 46 52 01 01 00 00 00 00 00 00 40 00 00 00 0b 00 00 00 00 00 00 00 00 00 00 00 00 00 "
      "00 00 2e ae 31 bf 5f 2c 60 9e 1f 61 01 00 27 50 61 61 61 61 61");
  EXPECT_EQ(decoded(lz4, 64), Bytes(64, std::byte{'a'}));
  const Bytes zstd = from_hex(
      "50 53 46 52 01 02 00 00 00 00 00 00 40 00 00 00 11 00 00 00 00 00 00 00 00 00 00 00 00 00 "
      "00 00 e7 a3 94 cc d7 6b b3 d3 28 b5 2f fd 20 40 45 00 00 10 61 61 01 00 93 00 16");
  EXPECT_EQ(decoded(zstd, 64), Bytes(64, std::byte{'a'}));
}

TEST(FrameFormat, DocumentedRawExampleIsWhatWeWrite) {
  const Bytes dump = dump_below(read_document(), "### Stored raw");
  EXPECT_EQ(make_frame(bytes_of("penstock"), kNone), dump);
}

TEST(FrameFormat, DocumentedCompressedExampleIsWhatWeRead) {
  const Bytes dump = dump_below(read_document(), "### Compressed");
  ASSERT_GT(dump.size(), kFrameHeaderBytes);
  EXPECT_EQ(decoded(dump, 64), Bytes(64, std::byte{'a'}));
  EXPECT_EQ(read_frame_header(dump)->codec, Codec::kLz4);
  EXPECT_EQ(read_frame_header(dump)->frame_bytes(), dump.size());
}

// The seed and the checksum as the document defines them, computed here without the codec's help.
TEST(FrameFormat, DocumentedChecksumRuleHolds) {
  const std::string document = read_document();
  const Bytes identity = from_hex(
      "00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 18 17 16 15 14 13 12 11 28 27 26 25 24 23 "
      "22 21 00 00 08 00 00 00 00 00");
  for (const char* heading : {"### Stored raw", "### Compressed"}) {
    const Bytes dump = dump_below(document, heading);
    ASSERT_GT(dump.size(), kFrameHeaderBytes);
    Bytes seeded = identity;
    seeded.insert(seeded.end(), dump.begin(), dump.begin() + 32);
    const uint64_t seed = hash_bytes(seeded);
    const uint64_t checksum = hash_bytes(std::span(dump).subspan(kFrameHeaderBytes), seed);
    EXPECT_EQ(read_frame_header(dump)->checksum, checksum);
    EXPECT_THAT(document, HasSubstr(fmt::format("The seed is `{:#018x}`", seed)));
    EXPECT_THAT(document, HasSubstr(fmt::format("checksum {:#018x}", checksum)));
  }
}

}  // namespace
}  // namespace penstock::codec
