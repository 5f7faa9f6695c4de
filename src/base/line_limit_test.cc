#include "base/line_limit.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

using namespace std::chrono_literals;

class LineLimitTest : public testing::Test {
 protected:
  LineLimit::Clock::time_point now_ = LineLimit::Clock::time_point(1h);
  LineLimit limit_{2, 10s};
};

TEST_F(LineLimitTest, TheFirstOnesAreAllWritten) {
  EXPECT_EQ(limit_.take(now_), 0u);
  EXPECT_EQ(limit_.take(now_), 0u);
  EXPECT_EQ(limit_.take(now_), std::nullopt);
}

TEST_F(LineLimitTest, TheNextSaysHowManyWereLeftOut) {
  for (int i = 0; i < 2; ++i) EXPECT_EQ(limit_.take(now_), 0u);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(limit_.take(now_ + 9s), std::nullopt);
  EXPECT_EQ(limit_.take(now_ + 11s), 7u);
  EXPECT_EQ(limit_.take(now_ + 12s), std::nullopt);
}

TEST_F(LineLimitTest, AnHourOfTroubleIsAFewHundredLines) {
  int lines = 0;
  for (auto at = now_; at < now_ + 1h; at += 100ms) lines += limit_.take(at).has_value() ? 1 : 0;
  EXPECT_GE(lines, 360);
  EXPECT_LE(lines, 363);
}

TEST_F(LineLimitTest, AfterAPauseThereIsRoomForSeveralAgain) {
  while (limit_.take(now_)) {
  }
  EXPECT_EQ(limit_.take(now_ + 1h), 1u);
  EXPECT_EQ(limit_.take(now_ + 1h), 0u);
  EXPECT_EQ(limit_.take(now_ + 1h), std::nullopt);
}

TEST_F(LineLimitTest, AClockThatSeemsToGoBackGivesNothingAway) {
  while (limit_.take(now_)) {
  }
  EXPECT_EQ(limit_.take(now_ - 1h), std::nullopt);
  EXPECT_EQ(limit_.take(now_ + 1s), std::nullopt);
}

}  // namespace
}  // namespace penstock
