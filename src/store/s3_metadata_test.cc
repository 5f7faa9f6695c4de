#include "store/s3_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace penstock::store {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(S3Metadata, TimesAreWrittenAsRcloneDoes) {
  EXPECT_EQ(format_kept_time(1'700'000'000'123'456'789), "1700000000.123456789");
  EXPECT_EQ(format_kept_time(1'700'000'000'000'000'000), "1700000000");
  EXPECT_EQ(format_kept_time(1'700'000'000'500'000'000), "1700000000.5");
  EXPECT_EQ(format_kept_time(100), "0.0000001");
  EXPECT_EQ(format_kept_time(0), "0");
  EXPECT_EQ(format_kept_time(-1), "-0.000000001");
  EXPECT_EQ(format_kept_time(-1'500'000'000), "-1.5");
}

TEST(S3Metadata, TimesAreReadBack) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const int64_t time : {int64_t{0}, int64_t{1}, int64_t{-1}, int64_t{-1'500'000'000},
                             int64_t{1'700'000'000'123'456'789}, kMin, kMin + 1, kMax}) {
    EXPECT_EQ(parse_kept_time(format_kept_time(time)), time);
  }
  EXPECT_EQ(parse_kept_time("1700000000.1234567899"), 1'700'000'000'123'456'789);
  EXPECT_EQ(parse_kept_time("0001.50"), 1'500'000'000);
  EXPECT_EQ(parse_kept_time("1."), 1'000'000'000);
}

TEST(S3Metadata, OtherTimesAreNone) {
  for (const char* text : {"",
                           "-",
                           ".",
                           ".5",
                           "-.5",
                           "+1",
                           "--1",
                           "1e9",
                           "0x1",
                           "1.5s",
                           "1.-5",
                           "1.5.5",
                           " 1",
                           "1 ",
                           "yesterday",
                           "2024-01-01T00:00:00Z",
                           "9223372036.854775808",
                           "-9223372036.854775809",
                           "9223372037",
                           "99999999999999999999999"}) {
    EXPECT_EQ(parse_kept_time(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_kept_time(std::string_view("1\0", 2)), std::nullopt);
}

TEST(S3Metadata, ModesAreOctal) {
  EXPECT_EQ(parse_kept_mode("644"), 0644u);
  EXPECT_EQ(parse_kept_mode("0644"), 0644u);
  EXPECT_EQ(parse_kept_mode("0100644"), 0644u);
  EXPECT_EQ(parse_kept_mode("100755"), 0755u);
  EXPECT_EQ(parse_kept_mode("0"), 0u);
  EXPECT_EQ(parse_kept_mode("4755"), 0755u);
  for (const char* text : {"", "-644", "+644", "0o644", "644 ", "888", "rwx", "40755", "120777",
                           "33152", "33188", "1000644", "77777777777777777777"}) {
    EXPECT_EQ(parse_kept_mode(text), std::nullopt) << text;
  }
}

TEST(S3Metadata, HeadersAreThoseAskedFor) {
  EXPECT_THAT(kept_headers({}), IsEmpty());
  PutOptions options;
  options.mode = 0100644;
  EXPECT_THAT(kept_headers(options), ElementsAre(Pair("x-amz-meta-mode", "644")));
  options.mtime_ns = 1'500'000'000;
  EXPECT_THAT(kept_headers(options),
              ElementsAre(Pair("x-amz-meta-mtime", "1.5"), Pair("x-amz-meta-mode", "644")));
}

}  // namespace
}  // namespace penstock::store
