// One process.
#include "cache/keeper.h"

#include <atomic>
#include <future>
#include <random>
#include <set>

#include "base/metrics.h"
#include "cache/keeper_fixture.h"
#include "io/faulty_file_system.h"

namespace penstock::cache {

namespace {

using std::chrono::milliseconds;

using KeeperTest = KeeperFixture;

TEST_F(KeeperTest, ANewDirectoryHasRoom) {
  TestMember one = open(with_quota(100 * kBlock));
  const KeeperStatus status = one.status();
  EXPECT_TRUE(status.evictor);
  EXPECT_TRUE(status.known);
  EXPECT_EQ(status.used_bytes, 0u);
  EXPECT_EQ(status.limit_bytes, 100 * kBlock);
  EXPECT_EQ(status.entries, 0u);
  EXPECT_EQ(status.members, 1u);
  EXPECT_EQ(one.keeper->room_bytes(), 100 * kBlock);
}

TEST_F(KeeperTest, ReserveIsExactBetweenTwoTicks) {
  KeeperOptions options = with_quota(100 * kBlock);
  options.tick = std::chrono::hours(1);
  TestMember one = open(options);
  EXPECT_FALSE(one.keeper->reserve(test_name(0, 101)));
  for (uint64_t i = 0; i < 10; ++i) EXPECT_TRUE(one.keeper->reserve(test_name(i, 10)));
  EXPECT_FALSE(one.keeper->reserve(test_name(10, 1)));
  EXPECT_EQ(one.keeper->room_bytes(), 0u);
  one.keeper->cancel_fill(test_name(0, 10));
  EXPECT_EQ(one.keeper->room_bytes(), 10 * kBlock);
  EXPECT_TRUE(one.publish(test_name(1, 10)));  // Takes what it had reserved, not more.
  EXPECT_EQ(one.keeper->room_bytes(), 10 * kBlock);
  one.settle();
  EXPECT_EQ(one.keeper->room_bytes(), 10 * kBlock);
  EXPECT_EQ(one.keeper->status().used_bytes, 10 * kBlock);
  for (uint64_t i = 2; i < 10; ++i) one.keeper->cancel_fill(test_name(i, 10));
  EXPECT_EQ(one.keeper->room_bytes(), 90 * kBlock);
}

TEST_F(KeeperTest, ReplacingAnEntryCostsNoRoom) {
  TestMember one = open(with_quota(100 * kBlock));
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(one.fill(test_name(1, 20))) << i;
    one.settle();
    EXPECT_EQ(one.keeper->room_bytes(), 80 * kBlock);
  }
  EXPECT_EQ(one.status().entries, 1u);
}

// Whatever is filled, in a loop, at random or by many threads at once.
TEST_F(KeeperTest, TheQuotaIsNeverExceeded) {
  constexpr uint64_t kQuota = 200 * kBlock;
  KeeperOptions options = with_quota(kQuota);
  options.tick = milliseconds(1);
  TestMember one = open(options);
  std::atomic<uint64_t> filled = 0;
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937 random(thread);
      for (uint64_t i = 0; i < 400; ++i) {
        const uint64_t number = thread * 1000 + i;
        const EntryName name = test_name(number, 1 + static_cast<uint32_t>(random() % 8));
        // A stream: what was read once is not wanted again, so that there is always a reason to
        // evict.
        one.keeper->note_missed(name.id, name.file_bytes());
        if (one.fill(name)) filled += name.file_bytes();
        one.use(name);
        one.keeper->note_finished(name.id, false);
        if (i % 16 == 0) one.settle();
      }
    });
  }
  uint64_t most = 0;
  for (int i = 0; i < 50; ++i) {
    most = std::max(most, bytes_at_a_moment(fs_, kPath));
    std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  most = std::max(most, bytes_at_a_moment(fs_, kPath));
  EXPECT_LE(most, kQuota);
  EXPECT_GT(filled, 3 * kQuota);
  EXPECT_GT(one.status().evictions, 0u);
  EXPECT_EQ(one.keeper->status().used_bytes, one.bytes_on_drive());
}

TEST_F(KeeperTest, ALoopKeepsWhatItHas) {
  TestMember one = open(with_quota(100 * kBlock));
  uint64_t hits = 0;
  std::set<uint64_t> kept;
  for (int epoch = 0; epoch < 6; ++epoch) {
    for (uint64_t i = 0; i < 200; ++i) {
      const EntryName name = test_name(i, 1);
      if (one.has(name)) {
        if (epoch > 0) ++hits;
        one.use(name);
      } else {
        one.keeper->note_missed(name.id, kBlock);
        (void)one.fill(name);
      }
      if (i % 20 == 0) one.settle();
    }
  }
  EXPECT_GE(hits, 450u);  // Of 1000; the least recently used would give none.
  EXPECT_LE(one.bytes_on_drive(), 100 * kBlock);
}

TEST_F(KeeperTest, WhatIsFinishedGoesFirst) {
  TestMember one = open(with_quota(100 * kBlock));
  for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(one.fill(test_name(i, 10)));
  one.settle();
  EXPECT_FALSE(one.keeper->reserve(test_name(20, 10)));
  one.keeper->note_finished(test_id(3), false);
  one.settle();
  EXPECT_FALSE(one.has(test_name(3, 10)));
  EXPECT_TRUE(one.has(test_name(4, 10)));
  EXPECT_EQ(one.keeper->status().evictions, 1u);
  EXPECT_EQ(one.keeper->status().used_bytes, 90 * kBlock);
  EXPECT_TRUE(one.fill(test_name(20, 10)));
}

TEST_F(KeeperTest, TheExpectedAreInvitedAndStay) {
  TestMember one = open(with_quota(100 * kBlock));
  for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(one.fill(test_name(i, 10)));
  one.settle();
  one.keeper->note_expected(test_id(50));
  one.settle();
  EXPECT_FALSE(one.keeper->reserve(test_name(51, 10)));  // Not invited.
  EXPECT_TRUE(one.fill(test_name(50, 10)));
  one.keeper->set_quota(bytes_of(30 * kBlock));
  one.settle();
  EXPECT_TRUE(one.has(test_name(50, 10)));
}

TEST_F(KeeperTest, ALowerQuotaHoldsAtOnce) {
  TestMember one = open(with_quota(100 * kBlock));
  for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(one.fill(test_name(i, 1)));
  one.keeper->set_quota(bytes_of(40 * kBlock));
  const KeeperStatus status = one.status();
  EXPECT_EQ(status.limit_bytes, 40 * kBlock);
  EXPECT_LE(status.used_bytes, 40 * kBlock);
  EXPECT_EQ(status.used_bytes, one.bytes_on_drive());
  EXPECT_GE(status.evictions, 60u);
  one.keeper->set_quota(bytes_of(0));
  EXPECT_EQ(one.status().used_bytes, 0u);
  EXPECT_FALSE(one.keeper->reserve(test_name(1, 1)));
  one.keeper->set_quota({.fraction = 0.5});
  EXPECT_EQ(one.status().limit_bytes, 32 * kMiB);
}

TEST_F(KeeperTest, FillsUnderWayAreCountedWhenTheQuotaFalls) {
  TestMember one = open(with_quota(100 * kBlock));
  for (uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(one.fill(test_name(i, 10)));
  ASSERT_TRUE(one.keeper->reserve(test_name(8, 10)));
  one.keeper->set_quota(bytes_of(50 * kBlock));
  one.settle();
  EXPECT_LE(one.bytes_on_drive(), 40 * kBlock);
  EXPECT_TRUE(one.publish(test_name(8, 10)));
  EXPECT_LE(one.status().used_bytes, 50 * kBlock);
}

class KeeperFloorTest : public KeeperTest, public ::testing::WithParamInterface<SizeOrPercent> {};

INSTANTIATE_TEST_SUITE_P(BytesAndPercent, KeeperFloorTest,
                         ::testing::Values(bytes_of(16 * kMiB), SizeOrPercent{.fraction = 0.25}));

TEST_P(KeeperFloorTest, IsKeptWhoeverFillsTheDrive) {
  KeeperOptions options = with_quota(60 * kMiB);
  options.free_floor = GetParam();
  options.tick = milliseconds(1);
  TestMember one = open(options);
  EXPECT_LE(one.status().limit_bytes, 48 * kMiB);
  uint64_t next = 0;
  while (one.fill(test_name(next, 256))) ++next;
  EXPECT_GE(fs_.space("/")->available_bytes, 16 * kMiB);
  EXPECT_GE(next, 40u);

  write_file("/somebody", 10 * kMiB);
  ASSERT_TRUE(eventually([&] { return fs_.space("/")->available_bytes >= 16 * kMiB; }));
  one.settle();
  EXPECT_GT(one.keeper->status().used_bytes, 35 * kMiB);  // No more than needed went.
  EXPECT_EQ(one.keeper->status().used_bytes, one.bytes_on_drive());

  for (int i = 0; i < 5; ++i) {  // More than all of the cache.
    write_file("/somebody" + std::to_string(i), i < 4 ? 10 * kMiB : 6 * kMiB);
    ASSERT_TRUE(eventually(
        [&] { return fs_.space("/")->available_bytes >= 16 * kMiB || one.bytes_on_drive() == 0; }));
  }
  ASSERT_TRUE(eventually([&] { return one.status().used_bytes == 0; }));
  EXPECT_EQ(one.keeper->room_bytes(), 0u);
  EXPECT_FALSE(one.keeper->reserve(test_name(1, 1)));

  ASSERT_THAT(fs_.remove("/somebody"), IsOk());  // And when it heals.
  ASSERT_TRUE(eventually([&] { return one.keeper->room_bytes() > kMiB; }));
}

// What is being filled has taken its space, and is not counted as used yet: nothing must go for it.
TEST_F(KeeperTest, FillsUnderWayAreNotEvictedForTheFloor) {
  KeeperOptions options = with_quota(60 * kMiB);
  options.free_floor = bytes_of(16 * kMiB);
  TestMember one = open(options);
  one.settle();
  for (uint64_t i = 0; i < 24; ++i) ASSERT_TRUE(one.fill(test_name(i, 256)));
  one.settle();
  for (uint64_t i = 100; i < 120; ++i) ASSERT_TRUE(one.keeper->reserve(test_name(i, 256)));
  write_file("/under-way", 20 * kMiB);
  one.settle();
  EXPECT_EQ(one.keeper->status().evictions, 0u);
  ASSERT_THAT(fs_.remove("/under-way"), IsOk());
  for (uint64_t i = 100; i < 120; ++i) ASSERT_TRUE(one.publish(test_name(i, 256)));
  one.settle();
  EXPECT_EQ(one.keeper->status().evictions, 0u);
  EXPECT_EQ(one.bytes_on_drive(), 44 * kMiB);
}

TEST_F(KeeperTest, PercentagesAreOfTheFileSystem) {
  TestMember one = open({.quota = {.fraction = 0.5}, .free_floor = {.fraction = 0.25}});
  EXPECT_EQ(one.status().limit_bytes, 32 * kMiB);
  one.keeper->set_quota({.fraction = 0.9});
  EXPECT_LE(one.status().limit_bytes, 48 * kMiB);
  EXPECT_GT(one.status().limit_bytes, 47 * kMiB);
}

TEST_F(KeeperTest, SettleHasADeadline) {
  std::promise<void> drive_answers;
  std::atomic<bool> hangs = false;
  KeeperOptions options = with_quota(100 * kBlock);
  options.on_error = [&, answered = drive_answers.get_future().share()](const Error&) {
    hangs = true;
    answered.wait();
  };
  io::FaultyFileSystem faulty({.fail_at = 1, .only = io::CallKind::kSpace}, fs_);
  TestMember one(faulty, kPath, options);
  ASSERT_TRUE(eventually([&] { return hangs.load(); }));
  EXPECT_THAT(one.keeper->settle(deadline_in(milliseconds(20))), FailsWith(ErrorCode::kTimeout));
  EXPECT_FALSE(one.keeper->reserve(test_name(1)));  // Waits for nothing.
  one.keeper->note_used(test_id(1), 1);
  drive_answers.set_value();
  one.settle();
}

TEST_F(KeeperTest, TellsItsMetrics) {
  TestMember one = open(with_quota(100 * kBlock));
  for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(one.fill(test_name(i, 10)));
  one.keeper->set_quota(bytes_of(50 * kBlock));
  one.settle();
  const std::string text = Metrics::global().prometheus();
  EXPECT_THAT(text,
              ::testing::HasSubstr("penstock_cache_limit_bytes{directory=\"/cache\"} 204800"));
  EXPECT_THAT(text, ::testing::HasSubstr("penstock_cache_evictions_total{directory=\"/cache\"} "));
  EXPECT_THAT(text, ::testing::HasSubstr("penstock_cache_used_bytes{directory=\"/cache\"} "));
  EXPECT_THAT(text, ::testing::HasSubstr("penstock_cache_entries{directory=\"/cache\"} "));
}

}  // namespace

}  // namespace penstock::cache
