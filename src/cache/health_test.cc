#include "cache/health.h"

#include <atomic>

#include "base/log.h"
#include "cache/tier_test_support.h"

namespace penstock::cache {

namespace {

const Error kIll = make_error(ErrorCode::kIo, "the drive is ill");

class HealthTest : public testing::Test {
 protected:
  void start(Nanoseconds retry_every, Nanoseconds slow_after = std::chrono::minutes(5)) {
    health_ =
        std::make_unique<Health>(Health::Options{"/drive", slow_after, retry_every},
                                 Health::Hooks{[this] {
                                                 ++heals_;
                                                 std::this_thread::sleep_for(heal_takes_.load());
                                                 return well_ ? Result<void>() : Result<void>(kIll);
                                               },
                                               [this] {
                                                 ++checks_;
                                                 return well_ ? Result<void>() : Result<void>(kIll);
                                               },
                                               [this] { ++offs_; }});
    health_->start();
  }

  std::atomic<bool> well_ = true;
  std::atomic<Nanoseconds> heal_takes_{Nanoseconds(0)};
  std::atomic<int> heals_ = 0;
  std::atomic<int> checks_ = 0;
  std::atomic<int> offs_ = 0;
  LogLines log_;
  std::unique_ptr<Health> health_;
};

TEST_F(HealthTest, IsOnAfterTheFirstTry) {
  start(std::chrono::hours(1));
  EXPECT_TRUE(health_->wait_tried(kNoDeadline).ok());
  EXPECT_TRUE(health_->on());
  EXPECT_EQ(offs_, 0);
  EXPECT_EQ(log_.get().size(), 0u);
}

TEST_F(HealthTest, AFirstTryThatFailsIsToldAndRepeated) {
  well_ = false;
  start(std::chrono::milliseconds(5));
  EXPECT_EQ(outcome(health_->wait_tried(kNoDeadline)), "io");
  EXPECT_TRUE(eventually([&] { return heals_ > 3; }));
  EXPECT_FALSE(health_->on());
  EXPECT_EQ(log_.get().size(), 1u);
  well_ = true;
  EXPECT_TRUE(eventually([&] { return health_->on(); }));
  EXPECT_EQ(log_.get().size(), 1u);
  EXPECT_EQ(outcome(health_->wait_tried(kNoDeadline)), "io");  // What the first one said.
}

TEST_F(HealthTest, ManyErrorsAreOneWarning) {
  start(std::chrono::hours(1));
  ASSERT_TRUE(health_->wait_tried(kNoDeadline).ok());
  for (int i = 0; i < 100; ++i) health_->ill(kIll);
  EXPECT_FALSE(health_->on());
  EXPECT_EQ(offs_, 1);
  ASSERT_EQ(log_.get().size(), 1u);
  EXPECT_NE(log_.get()[0].find("the drive is ill"), std::string::npos);
  EXPECT_NE(log_.get()[0].find("/drive"), std::string::npos);
}

TEST_F(HealthTest, IsCheckedWhileOn) {
  start(std::chrono::milliseconds(2));
  EXPECT_TRUE(eventually([&] { return checks_ > 3; }));
  well_ = false;
  EXPECT_TRUE(eventually([&] { return !health_->on(); }));
  well_ = true;
  EXPECT_TRUE(eventually([&] { return health_->on(); }));
  EXPECT_EQ(log_.get().size(), 1u);
}

TEST_F(HealthTest, ATryThatTakesTooLongIsAFailure) {
  heal_takes_ = std::chrono::milliseconds(20);
  start(std::chrono::milliseconds(2), std::chrono::milliseconds(10));
  EXPECT_EQ(outcome(health_->wait_tried(kNoDeadline)), "timeout");
  EXPECT_TRUE(eventually([&] { return heals_ > 2; }));
  EXPECT_FALSE(health_->on());
}

// Each relapse doubles the wait, and adds no warning.
TEST_F(HealthTest, ADriveThatRelapsesIsTriedLessOften) {
  constexpr Nanoseconds kRetry = std::chrono::milliseconds(20);
  start(kRetry);
  ASSERT_TRUE(health_->wait_tried(kNoDeadline).ok());
  const auto time_off = [&] {
    const auto begin = std::chrono::steady_clock::now();
    health_->ill(kIll);
    EXPECT_TRUE(eventually([&] { return health_->on(); }));
    return std::chrono::steady_clock::now() - begin;
  };
  EXPECT_GE(time_off(), kRetry);
  EXPECT_GE(time_off(), 2 * kRetry);
  EXPECT_GE(time_off(), 4 * kRetry);
  EXPECT_EQ(log_.get().size(), 1u);
}

TEST_F(HealthTest, NothingIsSaidWhileStopping) {
  start(std::chrono::hours(1));
  ASSERT_TRUE(health_->wait_tried(kNoDeadline).ok());
  health_->stop();
  health_->ill(kIll);
  EXPECT_FALSE(health_->on());
  EXPECT_EQ(log_.get().size(), 0u);
}

}  // namespace

}  // namespace penstock::cache
