// One process.
#include "cache/keeper.h"

#include <random>
#include <set>

#include "base/metrics.h"
#include "cache/evictor.h"
#include "cache/keeper_test_bed.h"
#include "io/memory_file_system.h"

namespace penstock::cache {

namespace {

using io::MemoryFileSystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kBlock = kBlockBytes;
constexpr const char* kPath = "/cache";

KeeperOptions with_quota(uint64_t bytes) {
  return {.quota = bytes_of(bytes), .free_floor = bytes_of(0), .on_error = [](const Error& error) {
            ADD_FAILURE() << error.to_string();
          }};
}

class KeeperTest : public ::testing::Test {
 protected:
  TestMember open(const KeeperOptions& options) {
    TestMember member(fs_, kPath, options);
    member.settle();
    return member;
  }

  void write_file(const std::string& path, uint64_t size) {
    auto file = fs_.open(path, {.access = io::Access::kWrite, .create = io::Create::kTruncate});
    ASSERT_THAT(file, IsOk());
    ASSERT_THAT((*file)->write(0, std::vector<std::byte>(size)), IsOk());
  }

  MemoryFileSystem fs_{{.capacity_bytes = 64 * kMiB}};
};

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

TEST_F(KeeperTest, ARestartKnowsWhatWasThere) {
  {
    TestMember one = open(with_quota(100 * kBlock));
    for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(one.fill(test_name(i, 10)));
    one.keeper->note_used(test_id(3), 777);  // Said last of all, and not settled.
  }
  const std::unique_ptr<Policy> learnt = make_policy();
  const Result<std::string> index = io::read_file(fs_, "/cache/index", kMiB);
  ASSERT_THAT(index, IsOk());
  ASSERT_THAT(learnt->restore(*index), IsOk());
  EXPECT_EQ(learnt->clock_bytes(), 777u);
  EXPECT_EQ(learnt->entries(), 10u);

  {
    TestMember two = open(with_quota(100 * kBlock));
    EXPECT_EQ(two.status().used_bytes, 100 * kBlock);
    EXPECT_EQ(two.status().entries, 10u);
    EXPECT_FALSE(two.keeper->reserve(test_name(50, 1)));
    two.keeper->note_used(test_id(4), 3);
  }
  ASSERT_THAT(learnt->restore(*io::read_file(fs_, "/cache/index", kMiB)), IsOk());
  EXPECT_EQ(learnt->clock_bytes(), 780u);  // It went on where the first was.
}

TEST_F(KeeperTest, AtOnceAfterARestartThereIsTheRoomThatWasLeft) {
  {
    TestMember one = open(with_quota(100 * kBlock));
    for (uint64_t i = 0; i < 9; ++i) ASSERT_TRUE(one.fill(test_name(i, 10)));
  }
  TestMember two(fs_, kPath, with_quota(100 * kBlock));
  ASSERT_TRUE(eventually([&] { return two.keeper->room_bytes() > 0; }));
  EXPECT_EQ(two.keeper->room_bytes(), 10 * kBlock);
}

TEST_F(KeeperTest, WithoutStateAndIndexAScanTells) {
  {
    TestMember one = open(with_quota(100 * kBlock));
    for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(one.fill(test_name(i, 10)));
  }
  for (const std::string& bytes : {std::string(), std::string("rubbish"), std::string(9000, 'x')}) {
    for (const char* name : {"/cache/state", "/cache/index"}) {
      auto file = fs_.open(name, {.access = io::Access::kWrite, .create = io::Create::kTruncate});
      ASSERT_THAT((*file)->write(0, std::as_bytes(std::span(bytes))), IsOk());
    }
    TestMember two(fs_, kPath, with_quota(100 * kBlock));
    EXPECT_FALSE(two.keeper->reserve(test_name(50, 1)));
    EXPECT_EQ(two.status().used_bytes, 100 * kBlock);
    EXPECT_FALSE(two.keeper->reserve(test_name(50, 1)));
  }
}

// The drive is asked how full it is and the files are counted at different times: that must not
// look as if others had filled it.
TEST_F(KeeperTest, CountingEvictsNothing) {
  KeeperOptions options = with_quota(60 * kMiB);
  options.free_floor = bytes_of(16 * kMiB);
  {
    TestMember one = open(options);
    for (uint64_t i = 0; i < 5000; ++i) ASSERT_TRUE(one.fill(test_name(i, 2)));
  }
  ASSERT_THAT(fs_.remove("/cache/state"), IsOk());
  ASSERT_THAT(fs_.remove("/cache/index"), IsOk());
  TestMember two = open(options);
  two.settle();
  EXPECT_EQ(two.keeper->status().evictions, 0u);
  EXPECT_EQ(two.keeper->status().used_bytes, 10000 * kBlock);
}

TEST_F(KeeperTest, FilesOfOthersAreLeftAlone) {
  {
    TestMember one = open(with_quota(100 * kBlock));
    ASSERT_TRUE(one.fill(test_name(1, 10)));
  }
  const std::vector<std::string> planted = {
      "/cache/entries/README",    "/cache/entries/00",          "/cache/members/README.lock",
      "/cache/members/17-aa.log", "/cache/members/notes.1.log", "/cache/members/x.log",
      "/cache/tmp/somebody",
  };
  for (const std::string& path : planted) {
    if (!fs_.stat(path).ok()) write_file(path, 10);
  }
  write_file("/cache/entries/" + test_name(1, 10).text().substr(0, 2) + "/planted", 100);
  TestMember two = open(with_quota(5 * kBlock));
  EXPECT_EQ(two.status().used_bytes, 0u);
  EXPECT_EQ(two.status().members, 1u);
  for (const std::string& path : planted) EXPECT_THAT(fs_.stat(path), IsOk()) << path;
}

TEST_F(KeeperTest, FilesRemovedUnderneathAreNoticed) {
  {
    TestMember one = open(with_quota(100 * kBlock));
    for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(one.fill(test_name(i, 10)));
    for (uint64_t i = 0; i < 5; ++i) {
      ASSERT_THAT(fs_.remove(one.directory->path_of(test_name(i, 10))), IsOk());
    }
    one.keeper->set_quota(bytes_of(60 * kBlock));
    EXPECT_LE(one.status().used_bytes, 60 * kBlock);  // Evicting what is not there is no error.
  }
  TestMember two = open(with_quota(100 * kBlock));
  two.settle();
  EXPECT_EQ(two.keeper->status().used_bytes, two.bytes_on_drive());
}

TEST_F(KeeperTest, DroppedEntriesGiveTheirRoomBack) {
  TestMember one = open(with_quota(100 * kBlock));
  for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(one.fill(test_name(i, 10)));
  ASSERT_THAT(one.directory->drop(test_name(4, 10)), IsOk());
  one.keeper->note_dropped(test_name(4, 10));
  EXPECT_EQ(one.status().used_bytes, 90 * kBlock);
  EXPECT_EQ(one.keeper->room_bytes(), 10 * kBlock);
}

TEST_F(KeeperTest, ARemovedDirectoryIsAnError) {
  KeeperOptions options = with_quota(100 * kBlock);
  options.tick = milliseconds(1);
  std::atomic<int> errors = 0;
  options.on_error = [&](const Error&) { ++errors; };
  TestMember one = open(options);
  ASSERT_THAT(io::remove_tree(fs_, kPath), IsOk());
  EXPECT_TRUE(eventually([&] { return errors > 0; }));
}

TEST_F(KeeperTest, AClearedAndReopenedDirectoryHasOneEvictor) {
  KeeperOptions options = with_quota(100 * kBlock);
  options.tick = milliseconds(1);
  options.on_error = nullptr;
  TestMember one = open(options);
  ASSERT_TRUE(one.fill(test_name(1, 10)));
  one.settle();
  ASSERT_THAT(io::remove_tree(fs_, kPath), IsOk());
  TestMember two = open(options);
  ASSERT_TRUE(two.keeper->status().evictor);
  ASSERT_TRUE(eventually([&] { return !one.keeper->status().evictor; }));
  ASSERT_TRUE(eventually([&] { return two.keeper->status().members == 2; }));
  EXPECT_TRUE(eventually([&] { return one.fill(test_name(2, 10)); }));
  ASSERT_TRUE(eventually([&] { return two.status().used_bytes == 10 * kBlock; }));
}

TEST_F(KeeperTest, WhoOnlyLooksLeavesNoTrace) {
  {
    TestMember one = open(with_quota(100 * kBlock));
    ASSERT_TRUE(one.fill(test_name(1, 10)));
  }
  KeeperOptions options;
  options.may_evict = false;
  TestMember looker = open(options);
  const KeeperStatus status = looker.status();
  EXPECT_FALSE(status.evictor);
  EXPECT_TRUE(status.known);
  EXPECT_EQ(status.used_bytes, 10 * kBlock);
  EXPECT_EQ(status.limit_bytes, 100 * kBlock);
  EXPECT_FALSE(looker.keeper->reserve(test_name(2, 1)));
  EXPECT_THAT(fs_.list("/cache/members",
                       [](const io::DirectoryEntry& entry) {
                         ADD_FAILURE() << entry.name;
                         return true;
                       }),
              IsOk());
}

TEST_F(KeeperTest, SettleHasADeadline) {
  TestMember one = open(with_quota(100 * kBlock));
  EXPECT_THAT(one.keeper->settle(std::chrono::steady_clock::now() - seconds(1)),
              FailsWith(ErrorCode::kTimeout));
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
