#include "data/index_build.h"

#include <set>
#include <thread>

#include "data/test_support.h"

namespace penstock::data {
namespace {

class IndexBuildTest : public ::testing::Test {
 protected:
  IndexBuildTest() {
    plan_.shards = 50;
    plan_.threads = 4;
    plan_.save_every = std::chrono::hours(1);
    plan_.scan = [](size_t, const std::stop_token&, std::atomic<uint64_t>& bytes) {
      bytes += 10;
      return Result<ScannedShard>(ScannedShard{});
    };
    plan_.take = [this](size_t shard, ScannedShard) { taken_.insert(shard); };
    plan_.must_save = [] { return false; };
    plan_.save = [this] { saved_.push_back(taken_.size()); };
    plan_.tell = [this](uint64_t bytes) { told_ = bytes; };
  }

  IndexBuildPlan plan_;
  std::multiset<size_t> taken_;
  std::vector<size_t> saved_;  // How many were there when.
  uint64_t told_ = 0;
};

TEST_F(IndexBuildTest, TakesEachOnceAndSavesAtTheEnd) {
  ASSERT_THAT(run_index_build(plan_), IsOk());
  ASSERT_EQ(taken_.size(), 50);
  for (size_t i = 0; i < 50; ++i) EXPECT_EQ(taken_.count(i), 1);
  EXPECT_EQ(saved_, std::vector<size_t>{50});
  EXPECT_EQ(told_, 500);
}

TEST_F(IndexBuildTest, SavesNowAndThen) {
  plan_.save_every = std::chrono::nanoseconds(0);
  plan_.threads = 1;
  plan_.scan = [](size_t, const std::stop_token&, std::atomic<uint64_t>&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return Result<ScannedShard>(ScannedShard{});
  };
  ASSERT_THAT(run_index_build(plan_), IsOk());
  EXPECT_GT(saved_.size(), 5);
  EXPECT_LT(saved_.front(), 40);
}

TEST_F(IndexBuildTest, SavesWhenItMust) {
  plan_.threads = 1;
  plan_.must_save = [this] { return taken_.size() >= 5 && saved_.empty(); };
  ASSERT_THAT(run_index_build(plan_), IsOk());
  EXPECT_EQ(saved_.size(), 2);
}

TEST_F(IndexBuildTest, TheFirstErrorEndsItAfterSaving) {
  plan_.scan = [](size_t shard, const std::stop_token&, std::atomic<uint64_t>&) {
    if (shard == 20) return Result<ScannedShard>(make_error(ErrorCode::kCorrupt, "bad"));
    return Result<ScannedShard>(ScannedShard{});
  };
  EXPECT_THAT(run_index_build(plan_), FailsWith(ErrorCode::kCorrupt));
  ASSERT_EQ(saved_.size(), 1);
  EXPECT_EQ(saved_[0], taken_.size());
  EXPECT_GE(taken_.size(), 16);
}

TEST_F(IndexBuildTest, CanBeCancelled) {
  std::stop_source stop;
  plan_.cancel = stop.get_token();
  plan_.scan = [&](size_t shard, const std::stop_token&, std::atomic<uint64_t>&) {
    if (shard == 10) stop.request_stop();
    return Result<ScannedShard>(ScannedShard{});
  };
  EXPECT_THAT(run_index_build(plan_), FailsWith(ErrorCode::kCancelled));
  EXPECT_EQ(saved_.size(), 1);
}

}  // namespace
}  // namespace penstock::data
