#include "penstock/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

using testing::HasSubstr;

TEST(Size, ParsesWhatPeopleWrite) {
  EXPECT_EQ(*parse_size("0"), 0u);
  EXPECT_EQ(*parse_size("512"), 512u);
  EXPECT_EQ(*parse_size("512B"), 512u);
  EXPECT_EQ(*parse_size("4MiB"), 4 * kMiB);
  EXPECT_EQ(*parse_size("1.5GiB"), 3 * kGiB / 2);
  EXPECT_EQ(*parse_size("200GB"), 200'000'000'000u);
  EXPECT_EQ(*parse_size("4kB"), 4000u);
  EXPECT_EQ(*parse_size("2TiB"), 2 * kTiB);
}

TEST(Size, RefusesWhatIsNotOneAndSaysWhatWasExpected) {
  for (const char* text : {"", "MiB", "-1MiB", "4 MiB", "4mib", "4MiBs", "1..5GiB", ".5GiB", "1e3",
                           "nan", "0x10", "1.5B", "99999999TiB", "80%"}) {
    const Result<uint64_t> size = parse_size(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_EQ(size.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(size.error().detail, HasSubstr("'" + std::string(text) + "' is not a"));
  }
}

TEST(Size, ABareLetterIsAmbiguousAndTheMessageOffersBoth) {
  const Result<uint64_t> size = parse_size("4M");
  ASSERT_FALSE(size.ok());
  EXPECT_THAT(size.error().detail, HasSubstr("4MiB"));
  EXPECT_THAT(size.error().detail, HasSubstr("4MB"));
}

TEST(Percent, ParsesWithinBounds) {
  EXPECT_DOUBLE_EQ(*parse_percent("80%"), 0.8);
  EXPECT_DOUBLE_EQ(*parse_percent("12.5%"), 0.125);
  for (const char* text : {"80", "101%", "-1%", "%", "80 %", "80%%"})
    EXPECT_FALSE(parse_percent(text).ok()) << text;
}

TEST(Duration, ParsesUnitsAndSums) {
  using namespace std::chrono_literals;
  EXPECT_EQ(*parse_duration("30d"), 720h);
  EXPECT_EQ(*parse_duration("1h30m"), 90min);
  EXPECT_EQ(*parse_duration("1.5s"), 1500ms);
  EXPECT_EQ(*parse_duration("100ms"), 100ms);
  EXPECT_EQ(*parse_duration("250ns"), 250ns);
  for (const char* text : {"", "30", "d", "1h1h", "30m1h", "-1s", "1 s", "5min", "1000000w"}) {
    EXPECT_FALSE(parse_duration(text).ok()) << text;
  }
}

TEST(SizeOrPercent, TakesEither) {
  EXPECT_EQ(parse_size_or_percent("80%")->of(1000), 800u);
  EXPECT_EQ(parse_size_or_percent("200GiB")->of(1000), 200 * kGiB);
  EXPECT_THAT(parse_size_or_percent("lots").error().detail, HasSubstr("200GiB or 80%"));
}

TEST(Format, KeepsThreeDigits) {
  using namespace std::chrono_literals;
  EXPECT_EQ(format_size(937), "937 B");
  EXPECT_EQ(format_size(4 * kMiB), "4 MiB");
  EXPECT_EQ(format_size(3 * kGiB / 2), "1.50 GiB");
  EXPECT_EQ(format_size(1048575), "1.00 MiB");
  EXPECT_EQ(format_rate(1.33e9), "1.33 GB/s");
  EXPECT_EQ(format_rate(999.7e6), "1.00 GB/s");
  EXPECT_EQ(format_duration(139us), "139 us");
  EXPECT_EQ(format_duration(1500us), "1.50 ms");
  EXPECT_EQ(format_duration(30s), "30 s");
  EXPECT_EQ(format_duration(125min), "2 h 5 m");
  EXPECT_EQ(format_count(135432), "135 k");
}

TEST(Deadline, FarAwayIsNone) {
  EXPECT_EQ(deadline_in(Nanoseconds::max()), kNoDeadline);
}

}  // namespace
}  // namespace penstock
