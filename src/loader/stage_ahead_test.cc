#include "loader/stage_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "base/result_matchers.h"
#include "loader/fake_dataset.h"

namespace penstock::loader {
namespace {

constexpr uint64_t kPiece = StageAhead::kPieceBytes;

// A cache of which only the numbers are asked for.
class FakeCache final : public cache::Cache {
 public:
  explicit FakeCache(uint64_t limit_bytes) : limit(limit_bytes) {}
  void set_quota(SizeOrPercent) override {}
  cache::CacheStats stats() const override {
    cache::CacheStats stats;
    stats.limit_bytes = limit;
    stats.used_bytes = used;
    return stats;
  }
  void drain() override {}
  void settle(Deadline) override {}

  std::atomic<uint64_t> limit;
  std::atomic<uint64_t> used = 0;
};

// What the stagers of a test were told, and what they say to that.
struct Desk {
  std::mutex mutex;
  std::vector<cache::Range> expected;  // In the order told.
  std::vector<cache::Range> finished;
  bool hold = false;  // Nothing is staged.
  bool fail = false;
  cache::Stager::Progress progress;
  std::atomic<int> alive = 0;

  size_t count() {
    const std::lock_guard lock(mutex);
    return expected.size();
  }
  cache::Stager::Progress told() {
    const std::lock_guard lock(mutex);
    return progress;
  }
};

class FakeStager final : public cache::Stager {
 public:
  FakeStager(Desk& desk, FakeCache& cache) : desk_(desk), cache_(cache) { ++desk_.alive; }
  ~FakeStager() override { --desk_.alive; }

  void expect(std::vector<cache::Range> ranges) override {
    const std::lock_guard lock(desk_.mutex);
    for (cache::Range& range : ranges) {
      const uint64_t bytes = std::min(range.length, range.size - range.offset);
      desk_.progress.expected_bytes += bytes;
      if (desk_.hold) {
        desk_.progress.pending_bytes += bytes;
      } else if (desk_.fail) {
        desk_.progress.failed_bytes += bytes;
      } else {
        desk_.progress.staged_bytes += bytes;
        desk_.progress.fetched_bytes += bytes;
        cache_.used += bytes;
      }
      desk_.expected.push_back(std::move(range));
    }
  }
  void finished(const cache::Range& range, bool again) override {
    EXPECT_TRUE(again);
    const std::lock_guard lock(desk_.mutex);
    desk_.progress.finished_bytes += std::min(range.length, range.size - range.offset);
    desk_.finished.push_back(range);
  }
  Progress progress() const override {
    const std::lock_guard lock(desk_.mutex);
    return desk_.progress;
  }

 private:
  Desk& desk_;
  FakeCache& cache_;
};

class StageAheadTest : public testing::Test {
 protected:
  // Shards of about 9 MiB: three pieces each.
  void open(uint32_t shards, uint64_t limit, Shuffle shuffle, uint32_t batch_size = 8) {
    dataset_ = std::make_shared<FakeDataset>(
        FakeDataset::Options{.shard_samples = std::vector<uint32_t>(shards, kSamples),
                             .local = false,
                             .padding_max = 600'000});
    cache_ = std::make_shared<FakeCache>(limit);
    dataset_->cache_behind = cache_;
    dataset_->stager = [this](const cache::StageOptions&) {
      return std::make_unique<FakeStager>(desk_, *cache_);
    };
    options_.sources = {{.addresses = {"x"}}};
    options_.batch_size = batch_size;
    options_.shuffle = shuffle;
    options_.streams = 4;
    options_.window_bytes = kMiB;
    std::vector<std::vector<uint64_t>> samples = {std::vector<uint64_t>(shards, kSamples)};
    Result<Sequence> made = Sequence::create(options_, samples, {dataset_->bytes()});
    ASSERT_THAT(made, IsOk());
    sequence_ = std::make_unique<Sequence>(std::move(*made));
    stage_ = StageAhead::create(*sequence_, {dataset_},
                                {.shuffle = shuffle,
                                 .world_size = 1,
                                 .is_calm = [this] { return calm_.load(); },
                                 .tick = std::chrono::milliseconds(1)});
  }
  // All pieces that are in the dataset and in `ranges`, once each.
  static std::map<std::pair<std::string, uint64_t>, int> pieces(
      const std::vector<cache::Range>& ranges) {
    std::map<std::pair<std::string, uint64_t>, int> all;
    for (const cache::Range& range : ranges) ++all[{range.key, range.offset}];
    return all;
  }
  size_t pieces_of_dataset() const {
    size_t count = 0;
    for (const data::Shard& shard : dataset_->shards()) count += (shard.size + kPiece - 1) / kPiece;
    return count;
  }
  static bool eventually(const std::function<bool()>& holds) {
    const Deadline end = deadline_in(std::chrono::seconds(20));
    while (!holds() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return holds();
  }
  static void a_while() { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }

  static constexpr uint32_t kSamples = 32;
  std::shared_ptr<FakeDataset> dataset_;
  std::shared_ptr<FakeCache> cache_;
  Desk desk_;
  LoaderOptions options_;
  std::unique_ptr<Sequence> sequence_;
  std::atomic<bool> calm_ = true;
  std::unique_ptr<StageAhead> stage_;
};

TEST_F(StageAheadTest, NothingIsStagedWithoutACache) {
  open(1, kGiB, Shuffle::kNone);
  EXPECT_NE(stage_, nullptr);
  dataset_->stager = {};
  EXPECT_EQ(StageAhead::create(*sequence_, {dataset_}, {}), nullptr);
  dataset_->cache_behind = nullptr;
  EXPECT_EQ(StageAhead::create(*sequence_, {dataset_}, {}), nullptr);
}

TEST_F(StageAheadTest, WhatFitsIsToldOnceEachInTheOrderOfItsReads) {
  for (const Shuffle shuffle : {Shuffle::kNone, Shuffle::kGlobal, Shuffle::kLocal}) {
    SCOPED_TRACE(shuffle_name(shuffle));
    desk_.expected.clear();
    desk_.progress = {};
    open(6, kGiB, shuffle);
    stage_->start(0, 0);
    a_while();
    EXPECT_EQ(desk_.count(), 0U) << "before any read has begun";
    stage_->begun();
    // The first batch is read already; what it alone has is not staged.
    ASSERT_TRUE(eventually([&] { return desk_.count() + 8 >= pieces_of_dataset(); }));
    stage_->stop();
    for (const auto& [piece, times] : pieces(desk_.expected)) EXPECT_EQ(times, 1) << piece.first;
    // By first need: the pieces of the second batch come before others.
    std::vector<std::string> first;
    const Deal deal = sequence_->deal(0);
    for (const BatchOrder::Slot& slot : sequence_->batch(0, deal, 1).slots) {
      first.push_back(dataset_->shards()[dataset_->shard_of(slot.sample)].key);
    }
    EXPECT_THAT(first, testing::Contains(desk_.expected.front().key));
    EXPECT_EQ(
        desk_.expected.front().etag,
        dataset_->shards()[static_cast<size_t>(desk_.expected.front().key.back() - '0')].version);
  }
}

TEST_F(StageAheadTest, GoesOnOnlyWhileTheReadsOfTheMomentHaveWhatTheyWant) {
  open(6, kGiB, Shuffle::kNone);
  calm_ = false;
  stage_->start(0, 0);
  stage_->begun();
  a_while();
  EXPECT_EQ(desk_.count(), 0U);
  calm_ = true;
  EXPECT_TRUE(eventually([&] { return desk_.count() > 10; }));
}

TEST_F(StageAheadTest, SaysLittleAtATime) {
  open(20, kGiB, Shuffle::kNone);
  desk_.hold = true;
  stage_->start(0, 0);
  stage_->begun();
  ASSERT_TRUE(eventually([&] { return desk_.count() > 8; }));
  a_while();
  EXPECT_LE(desk_.told().pending_bytes, 24 * kPiece);
}

TEST_F(StageAheadTest, WhatIsReadAlreadyIsLeftOut) {
  open(6, kGiB, Shuffle::kNone);
  calm_ = false;
  stage_->start(0, 0);
  for (int i = 0; i < 12; ++i) stage_->begun();  // Half of it.
  a_while();
  calm_ = true;
  ASSERT_TRUE(eventually([&] { return desk_.count() >= pieces_of_dataset() / 2 - 1; }));
  a_while();
  EXPECT_LE(desk_.count(), pieces_of_dataset() / 2 + 1 + 12) << "and the rest of the next epoch";
  EXPECT_EQ(desk_.expected.front().key, "shard-3");
}

TEST_F(StageAheadTest, NothingIsThrownOutForDataInRandomOrderThatDoesNotFit) {
  open(20, 40 * kMiB, Shuffle::kGlobal);
  stage_->start(0, 0);
  for (int i = 0; i < 40; ++i) {
    stage_->begun();
    stage_->delivered();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  a_while();
  EXPECT_GT(desk_.told().fetched_bytes, 20 * kMiB);
  EXPECT_LE(cache_->used, cache_->limit);
  cache_->used = cache_->limit.load();
  const size_t told = desk_.count();
  for (int i = 0; i < 40; ++i) stage_->begun();
  a_while();
  EXPECT_EQ(desk_.count(), told) << "a full cache";
}

TEST_F(StageAheadTest, DataInOrderThatDoesNotFitIsStagedAsFarAsItsReaderMakesRoom) {
  open(20, 64 * kMiB, Shuffle::kNone);
  stage_->start(0, 0);
  stage_->begun();
  a_while();
  EXPECT_LE(desk_.told().expected_bytes, 32 * kMiB + kPiece) << "half of the cache";
  const size_t at_first = desk_.count();
  EXPECT_GT(at_first, 4U);
  // The whole epoch and the next: as far as it gets, and again what went.
  for (int i = 0; i < 160; ++i) {
    stage_->begun();
    stage_->delivered();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const std::lock_guard lock(desk_.mutex);
    EXPECT_LE(desk_.progress.expected_bytes, desk_.progress.finished_bytes + 32 * kMiB + kPiece);
  }
  a_while();
  EXPECT_GT(desk_.count(), pieces_of_dataset());
  const std::lock_guard lock(desk_.mutex);
  EXPECT_GT(desk_.finished.size(), pieces_of_dataset());
}

TEST_F(StageAheadTest, FailuresAreCountedAndHoldUpNothing) {
  open(6, kGiB, Shuffle::kGlobal);
  desk_.fail = true;
  stage_->start(0, 0);
  stage_->begun();
  ASSERT_TRUE(eventually([&] { return desk_.count() + 8 >= pieces_of_dataset(); }));
  ASSERT_TRUE(eventually([&] { return stage_->staged().failed_bytes > 40 * kMiB; }));
  EXPECT_EQ(stage_->staged().bytes, 0U);
  stage_->stop();
  EXPECT_GT(stage_->staged().failed_bytes, 40 * kMiB) << "still known afterwards";
}

TEST_F(StageAheadTest, StopsAtOnceAndForgets) {
  open(20, kGiB, Shuffle::kGlobal);
  desk_.hold = true;
  stage_->start(0, 0);
  stage_->begun();
  ASSERT_TRUE(eventually([&] { return desk_.count() > 4; }));
  EXPECT_EQ(desk_.alive, 1);
  const auto begin = std::chrono::steady_clock::now();
  stage_->stop();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
  EXPECT_EQ(desk_.alive, 0);
  // And begins anew from elsewhere.
  desk_.hold = false;
  desk_.progress = {};
  stage_->start(3, 64);
  stage_->begun();
  const size_t told = desk_.count();
  EXPECT_TRUE(eventually([&] { return desk_.count() > told; }));
}

}  // namespace
}  // namespace penstock::loader
