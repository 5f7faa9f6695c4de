#include "cache/under_way.h"

#include <atomic>
#include <thread>

#include "cache/tier_test_support.h"

namespace penstock::cache {

namespace {

class UnderWayTest : public testing::Test {
 protected:
  struct Counted final : UnderWay::Item {
    explicit Counted(std::atomic<int>& count) : given_up(count) {}
    std::function<void()> give_up() override {
      return [&count = given_up] { ++count; };
    }
    std::atomic<int>& given_up;
  };

  UnderWay::Hooks hooks() {
    return {[this] { return on_.load(); },
            [this] {
              ++slow_;
              on_ = false;
            }};
  }

  std::atomic<bool> on_ = true;
  std::atomic<int> slow_ = 0;
  std::atomic<int> given_up_ = 0;
};

TEST_F(UnderWayTest, WhatIsLateIsAnsweredOnceByTheWatchdog) {
  UnderWay under_way(std::chrono::milliseconds(8), hooks());
  Counted item(given_up_);
  ASSERT_TRUE(under_way.enter(item));
  EXPECT_TRUE(eventually([&] { return given_up_ == 1; }));
  EXPECT_EQ(slow_, 1);
  EXPECT_FALSE(item.claim());
  under_way.leave(item);
  under_way.close();
  EXPECT_EQ(given_up_, 1);
}

TEST_F(UnderWayTest, WhatWasAnsweredIsLeftAlone) {
  UnderWay under_way(std::chrono::milliseconds(8), hooks());
  Counted answered(given_up_);
  Counted late(given_up_);
  ASSERT_TRUE(under_way.enter(answered));
  ASSERT_TRUE(answered.claim());
  ASSERT_TRUE(under_way.enter(late));
  EXPECT_TRUE(eventually([&] { return late.answered(); }));
  under_way.leave(answered);
  under_way.leave(late);
  under_way.close();
  EXPECT_EQ(given_up_, 1);
}

// What waits for its turn is not late; it is given up when the turn can no longer come.
TEST_F(UnderWayTest, WhatWaitsIsGivenUpWhenTheTierIsOff) {
  UnderWay under_way(std::chrono::milliseconds(8), hooks());
  Counted waits(given_up_);
  Counted runs(given_up_);
  ASSERT_TRUE(under_way.enter(waits, true));
  ASSERT_TRUE(under_way.enter(runs, true));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // Longer than may be taken.
  EXPECT_EQ(given_up_, 0);
  under_way.start(runs);
  EXPECT_TRUE(eventually([&] { return given_up_ == 2; }));
  EXPECT_EQ(slow_, 1);
  under_way.leave(runs);
  under_way.leave(waits);
  under_way.close();
}

TEST_F(UnderWayTest, ClosingRefusesAndWaits) {
  UnderWay under_way(std::chrono::minutes(5), hooks());
  Counted first(given_up_);
  Counted second(given_up_);
  ASSERT_TRUE(under_way.enter(first));
  ASSERT_TRUE(under_way.enter(second));
  std::atomic<bool> closed = false;
  std::thread closer([&] {
    under_way.close();
    closed = true;
  });
  Counted late(given_up_);
  EXPECT_TRUE(eventually([&] {
    const bool refused = !under_way.enter(late);
    if (!refused) under_way.leave(late);
    return refused;
  }));
  under_way.leave(first);
  EXPECT_FALSE(closed);
  under_way.leave(second);
  closer.join();
  EXPECT_EQ(given_up_, 0);
}

// Exactly one of the two answers, however they meet.
TEST_F(UnderWayTest, TheWatchdogAndTheDriveRace) {
  UnderWay under_way(std::chrono::milliseconds(8), hooks());
  int answered = 0;
  for (int i = 0; i < 200; ++i) {
    Counted item(given_up_);
    ASSERT_TRUE(under_way.enter(item));
    std::this_thread::sleep_for(std::chrono::microseconds(i * 61 % 12'000));
    if (item.claim()) ++answered;
    under_way.leave(item);
  }
  under_way.close();
  EXPECT_EQ(answered + given_up_, 200);
}

}  // namespace

}  // namespace penstock::cache
