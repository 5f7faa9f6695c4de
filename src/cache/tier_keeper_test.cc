// A tier with its real keeper.
#include <fmt/core.h>

#include "cache/tier_faults.h"

namespace penstock::cache {

namespace {

constexpr uint32_t kStagedEntries = 40;

class TierKeeper : public testing::Test {
 protected:
  static TierOptions options(uint64_t quota_entries) {
    TierOptions options = quick_options();
    options.keeper.quota = {.bytes = quota_entries * file_bytes(entry_key(0))};
    options.keeper.free_floor = {.bytes = 0};
    options.keeper.tick = std::chrono::milliseconds(5);
    return options;
  }
  void start(const TierOptions& options) {
    tier_ = std::make_unique<TestTier>(fs_, options, 64 * kMiB, TestTier::Keepers::kReal);
    ASSERT_EQ(outcome(tier_->first_try()), "ok");
    settle();
  }
  void settle() {
    ASSERT_EQ(outcome(tier_->tier().keeper()->settle(deadline_in(std::chrono::minutes(1)))), "ok");
  }
  // How many there are; all of them right.
  uint32_t count_hits(TestTier& tier) {
    uint32_t hits = 0;
    for (uint32_t n = 0; n < kStagedEntries; ++n) {
      const Result<std::string> read = tier.read(entry_key(n));
      EXPECT_TRUE(read.ok() ? is_data(read, entry_key(n)) : is_not_found(read));
      hits += read.ok() ? 1 : 0;
    }
    return hits;
  }
  void fill_all(TestTier& tier) {
    for (uint32_t n = 0; n < kStagedEntries; ++n) (void)tier.fill(entry_key(n));
  }

  io::MemoryFileSystem memory_;
  AilingFileSystem fs_{memory_};
  std::unique_ptr<TestTier> tier_;
};

TEST_F(TierKeeper, TheQuotaHolds) {
  start(options(10));
  for (int round = 0; round < 3; ++round) {
    fill_all(*tier_);
    settle();
  }
  const uint32_t hits = count_hits(*tier_);
  EXPECT_GE(hits, 5u);
  EXPECT_LE(hits, 10u);
  const TierStats stats = tier_->tier().stats();
  EXPECT_TRUE(stats.keeper.known);
  EXPECT_LE(stats.keeper.used_bytes, 10 * file_bytes(entry_key(0)));
  EXPECT_EQ(stats.verification_failures, 0u);
}

// Evicted entries are open: they are read short, and that is no damage.
TEST_F(TierKeeper, AQuotaThatIsLoweredEvictsWhatIsOpen) {
  start(options(kStagedEntries));
  fill_all(*tier_);
  settle();
  EXPECT_EQ(count_hits(*tier_), kStagedEntries);
  tier_->tier().set_quota({.bytes = 8 * file_bytes(entry_key(0))});
  EXPECT_TRUE(eventually([&] {
    settle();
    return tier_->tier().stats().keeper.used_bytes <= 8 * file_bytes(entry_key(0));
  }));
  EXPECT_LE(count_hits(*tier_), 8u);
  EXPECT_EQ(tier_->tier().stats().verification_failures, 0u);
  EXPECT_TRUE(tier_->on());
}

TEST_F(TierKeeper, TwoTiersShareADirectory) {
  const TierOptions roomy = options(10 * kStagedEntries);  // Each is given a part of the room.
  start(roomy);
  TestTier other(fs_, roomy, 64 * kMiB, TestTier::Keepers::kReal);
  fill_all(*tier_);
  settle();
  EXPECT_EQ(count_hits(other), kStagedEntries);
  other.tier().drop(entry_key(3), version_id(entry_key(3).version));
  other.tier().drain();
  EXPECT_EQ(count_hits(*tier_), kStagedEntries - 1);
  EXPECT_EQ(tier_->tier().stats().verification_failures, 0u);
}

// Neither fills nor the keeper put anything where the drive was mounted.
TEST_F(TierKeeper, UnmountedUnderneathNothingIsLeftBehind) {
  const LogLines log;
  start(options(kStagedEntries));
  fill_all(*tier_);
  ASSERT_TRUE(memory_.rename("/cache", "/elsewhere").ok());
  ASSERT_TRUE(memory_.make_directory("/cache").ok());
  EXPECT_TRUE(eventually([&] { return !tier_->on() && tier_->tier().keeper() == nullptr; }));
  tier_->close();
  std::vector<std::string> strangers;
  ASSERT_TRUE(memory_
                  .list("/cache",
                        [&](const io::DirectoryEntry& entry) {
                          strangers.push_back(entry.name);
                          return true;
                        })
                  .ok());
  EXPECT_EQ(strangers, std::vector<std::string>());
  EXPECT_EQ(log.get().size(), 1u) << testing::PrintToString(log.get());
}

TEST_F(TierKeeper, ADriveThatFailsUnderBothComesBack) {
  const LogLines log;
  start(options(kStagedEntries));
  fill_all(*tier_);
  fs_.ailment().fail(Ailment::kAll, EIO);
  EXPECT_TRUE(eventually([&] { return !tier_->on(); }));
  fs_.ailment().recover();
  EXPECT_TRUE(eventually([&] { return tier_->on(); }));
  EXPECT_EQ(count_hits(*tier_), kStagedEntries);
  settle();
  EXPECT_EQ(log.get().size(), 1u) << testing::PrintToString(log.get());
}

}  // namespace

}  // namespace penstock::cache
