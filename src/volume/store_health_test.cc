#include "volume/store_health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "volume/log_lines.h"

namespace penstock::volume {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const Error kAway = make_error(ErrorCode::kUnavailable, "nobody answers", true);

class StoreHealthTest : public ::testing::Test {
 protected:
  static StoreHealth::Clock::time_point now() { return StoreHealth::Clock::now(); }

  Metrics metrics_;
  Gauge& gauge_ = metrics_.gauge("failing", "Failing.");
  LogLines log_;
  StoreHealth health_{{.failing = "it fails", .well = "it is well"}, "s3://bucket", gauge_};
};

TEST_F(StoreHealthTest, WhileAllIsWellThereIsNothingToSay) {
  for (int i = 0; i < 10; ++i) health_.well();
  EXPECT_THAT(log_.get(), IsEmpty());
  EXPECT_EQ(gauge_.value(), 0);
}

TEST_F(StoreHealthTest, ALineWhenItBeginsAndOneWhenItEnds) {
  health_.failed(kAway, "object-1", now());
  EXPECT_EQ(gauge_.value(), 1);
  health_.well();
  EXPECT_EQ(gauge_.value(), 0);
  health_.well();
  EXPECT_THAT(log_.get(), ElementsAre(HasSubstr("it fails"), HasSubstr("it is well")));
  EXPECT_THAT(log_.get()[0], HasSubstr("store=s3://bucket what=object-1"));
  EXPECT_THAT(log_.get()[0], HasSubstr("nobody answers"));
  EXPECT_THAT(log_.get()[1], HasSubstr("failures=1"));
}

TEST_F(StoreHealthTest, AThousandFailuresAreAFewLines) {
  for (int i = 0; i < 1000; ++i) health_.failed(kAway, "object", now());
  EXPECT_THAT(log_.get(), SizeIs(2));
  health_.well();
  ASSERT_THAT(log_.get(), SizeIs(3));
  EXPECT_THAT(log_.get()[2], HasSubstr("failures=1000"));
}

TEST_F(StoreHealthTest, OneThatComesAndGoesDoesNotFillTheLog) {
  for (int i = 0; i < 1000; ++i) {
    health_.failed(kAway, "object", now());
    health_.well();
  }
  EXPECT_THAT(log_.get(), SizeIs(4));
  EXPECT_EQ(gauge_.value(), 0);
}

TEST_F(StoreHealthTest, WhatWasBegunBeforeItWasWellAgainDoesNotCount) {
  const auto before = now();
  health_.failed(kAway, "object-1", before);
  health_.well();
  health_.failed(kAway, "object-2", before);
  EXPECT_EQ(gauge_.value(), 0);
  EXPECT_THAT(log_.get(), SizeIs(2));
  health_.failed(kAway, "object-3", now());
  EXPECT_EQ(gauge_.value(), 1);
}

TEST(StoreHealth, WhatIsMissingOrDamagedIsNoTroubleOfTheStore) {
  EXPECT_TRUE(is_store_trouble(kAway));
  EXPECT_TRUE(is_store_trouble(make_error(ErrorCode::kTimeout, "x")));
  EXPECT_TRUE(is_store_trouble(make_error(ErrorCode::kPermission, "x")));
  EXPECT_FALSE(is_store_trouble(make_error(ErrorCode::kNotFound, "x")));
  EXPECT_FALSE(is_store_trouble(make_error(ErrorCode::kCorrupt, "x")));
  EXPECT_FALSE(is_store_trouble(make_error(ErrorCode::kCancelled, "x")));
}

}  // namespace
}  // namespace penstock::volume
