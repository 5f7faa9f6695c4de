#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/frame.h"

namespace penstock::codec {
namespace {

using ::testing::HasSubstr;

TEST(CodecSpec, ParsesNamesAndLevels) {
  struct Case {
    const char* text;
    Codec codec;
    int level;
  };
  for (const Case& c : {Case{"none", Codec::kNone, 0}, Case{"lz4", Codec::kLz4, 0},
                        Case{"lz4:0", Codec::kLz4, 0}, Case{"lz4:9", Codec::kLz4, 9},
                        Case{"lz4:12", Codec::kLz4, 12}, Case{"zstd", Codec::kZstd, 0},
                        Case{"zstd:1", Codec::kZstd, 1}, Case{"zstd:19", Codec::kZstd, 19}}) {
    const Result<CodecSpec> spec = parse_codec(c.text);
    ASSERT_TRUE(spec.ok()) << c.text;
    EXPECT_EQ(spec->codec, c.codec) << c.text;
    EXPECT_EQ(spec->level, c.level) << c.text;
  }
}

TEST(CodecSpec, RefusesTheRestAndSaysWhatWasExpected) {
  for (const char* text : {"", "gzip", "LZ4", "lz4 ", " lz4", "lz4:", "lz4:x", "lz4:9x", "lz4: 9",
                           "lz4:+9", "lz4:-1", "lz4:-0", "lz4:13", "lz4:9:9", "zstd:20",
                           "zstd:99999999999999999999", "none:0", "none:1", ":3"}) {
    const Result<CodecSpec> spec = parse_codec(text);
    ASSERT_FALSE(spec.ok()) << text;
    EXPECT_EQ(spec.error().code, ErrorCode::kInvalid) << text;
    EXPECT_THAT(spec.error().detail, HasSubstr(std::string("\"") + text + "\""));
    EXPECT_THAT(spec.error().detail, HasSubstr("zstd:1 to zstd:19"));
  }
}

TEST(CodecSpec, NamesEveryCodec) {
  EXPECT_EQ(codec_name(Codec::kNone), "none");
  EXPECT_EQ(codec_name(Codec::kLz4), "lz4");
  EXPECT_EQ(codec_name(Codec::kZstd), "zstd");
  EXPECT_EQ(codec_name(static_cast<Codec>(77)), "unknown");
}

}  // namespace
}  // namespace penstock::codec
