// Several members of one directory, as several processes are. One process can play them all: locks
// are per opening, and a clone of the memory is a world in which all were killed at once.
#include <atomic>
#include <random>

#include "cache/evictor.h"
#include "cache/keeper_test_bed.h"
#include "cache/members.h"
#include "io/memory_file_system.h"

namespace penstock::cache {

namespace {

using io::MemoryFileSystem;
using std::chrono::milliseconds;

KeeperOptions with_quota(uint64_t bytes) {
  return {.quota = bytes_of(bytes),
          .free_floor = bytes_of(0),
          .tick = milliseconds(2),
          .on_error = [](const Error& error) { ADD_FAILURE() << error.to_string(); }};
}

std::unique_ptr<TestMember> join(io::FileSystem& fs, const KeeperOptions& options) {
  auto member = std::make_unique<TestMember>(fs, kPath, options);
  member->settle();
  return member;
}

class KeeperMembersTest : public ::testing::Test {
 protected:
  std::unique_ptr<TestMember> join(const KeeperOptions& options) {
    return cache::join(fs_, options);
  }
  bool fill(TestMember& member, const EntryName& name) {
    return eventually([&] {
      member.keeper->note_missed(name.id, 1);
      return member.fill(name);
    });
  }

  MemoryFileSystem fs_{{.capacity_bytes = 256 * kMiB}};
};

TEST_F(KeeperMembersTest, OneEvictsAndTheOthersAreGivenRoom) {
  auto one = join(with_quota(1000 * kBlock));
  auto two = join(with_quota(1000 * kBlock));
  EXPECT_TRUE(one->keeper->status().evictor);
  EXPECT_FALSE(two->keeper->status().evictor);
  ASSERT_TRUE(fill(*two, test_name(1, 10)));
  ASSERT_TRUE(fill(*one, test_name(2, 20)));
  ASSERT_TRUE(eventually([&] { return one->status().used_bytes == 30 * kBlock; }));
  ASSERT_TRUE(eventually([&] { return two->status().used_bytes == 30 * kBlock; }));
  EXPECT_TRUE(two->status().known);
  EXPECT_EQ(two->status().limit_bytes, 1000 * kBlock);
  EXPECT_EQ(two->status().entries, 2u);
  EXPECT_TRUE(eventually([&] { return two->status().members == 2; }));
}

TEST_F(KeeperMembersTest, WhatAnyoneSaysCounts) {
  auto one = join(with_quota(100 * kBlock));
  auto two = join(with_quota(100 * kBlock));
  for (uint64_t i = 0; i < 11; ++i) ASSERT_TRUE(fill(*one, test_name(i, 9)));
  one->settle();  // What two processes say may overtake each other by a tick.
  two->keeper->note_finished(test_id(3), false);
  ASSERT_TRUE(eventually([&] { return !one->has(test_name(3, 9)); }));
  ASSERT_THAT(two->directory->drop(test_name(4, 9)), IsOk());
  two->keeper->note_dropped(test_name(4, 9));
  ASSERT_TRUE(eventually([&] { return one->status().used_bytes == 81 * kBlock; }));
  // An invitation reaches who misses it next.
  while (one->fill(test_name(100 + one->keeper->room_bytes(), 1))) {
  }
  one->keeper->note_expected(test_id(50));
  EXPECT_TRUE(fill(*two, test_name(50, 1)));
}

TEST_F(KeeperMembersTest, TheSmallestQuotaAndTheLargestFloorHoldWhileTheirMemberLives) {
  auto one = join(with_quota(1000 * kBlock));
  for (uint64_t i = 0; i < 80; ++i) ASSERT_TRUE(fill(*one, test_name(i, 10)));
  {
    auto two = join(with_quota(500 * kBlock));
    ASSERT_TRUE(eventually([&] { return one->status().limit_bytes == 500 * kBlock; }));
    ASSERT_TRUE(eventually([&] { return one->status().used_bytes <= 500 * kBlock; }));
    EXPECT_LE(one->bytes_on_drive(), 500 * kBlock);
    two->keeper->set_quota(bytes_of(200 * kBlock));
    ASSERT_TRUE(eventually([&] { return one->status().used_bytes <= 200 * kBlock; }));
    two->keeper->set_quota(bytes_of(700 * kBlock));
    ASSERT_TRUE(eventually([&] { return one->status().limit_bytes == 700 * kBlock; }));
  }
  ASSERT_TRUE(eventually([&] { return one->status().limit_bytes == 1000 * kBlock; }));
  KeeperOptions careful = with_quota(900 * kBlock);
  careful.free_floor = bytes_of(255 * kMiB);
  auto three = join(careful);
  ASSERT_TRUE(eventually([&] { return one->status().limit_bytes < kMiB; }));
  three.reset();
  ASSERT_TRUE(eventually([&] { return one->status().limit_bytes == 1000 * kBlock; }));
  EXPECT_TRUE(eventually([&] { return one->status().members == 1; }));
}

TEST_F(KeeperMembersTest, WhenTheEvictorLeavesAnotherGoesOn) {
  auto one = join(with_quota(100 * kBlock));
  auto two = join(with_quota(100 * kBlock));
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(fill(*one, test_name(i, 10)));
  for (uint64_t i = 4; i < 8; ++i) ASSERT_TRUE(fill(*two, test_name(i, 10)));
  one.reset();
  ASSERT_TRUE(eventually([&] { return two->keeper->status().evictor; }));
  const KeeperStatus status = two->status();
  EXPECT_EQ(status.used_bytes, 80 * kBlock);
  EXPECT_EQ(status.entries, 8u);
  EXPECT_EQ(status.members, 1u);
  EXPECT_TRUE(fill(*two, test_name(8, 10)));
  two.reset();
  EXPECT_THAT(fs_.list("/cache/members",
                       [](const io::DirectoryEntry& entry) {
                         ADD_FAILURE() << entry.name << " is left behind";
                         return true;
                       }),
              IsOk());
}

TEST_F(KeeperMembersTest, LogsOfWhoLeftAreReadThenSwept) {
  auto one = join(with_quota(1000 * kBlock));
  const std::string member = [&] {
    auto two = join(with_quota(1000 * kBlock));
    EXPECT_TRUE(fill(*two, test_name(1, 10)));
    return two->directory->member();  // Gone with its last notes just written.
  }();
  ASSERT_TRUE(eventually([&] { return one->status().used_bytes == 10 * kBlock; }));
  ASSERT_TRUE(eventually([&] { return !fs_.stat(lock_path("/cache/members", member)).ok(); }));
  EXPECT_THAT(fs_.stat(log_path("/cache/members", member, 0)), FailsWith(ErrorCode::kNotFound));
}

TEST_F(KeeperMembersTest, WhereNothingHappensNothingIsWritten) {
  auto one = join(with_quota(1000 * kBlock));
  auto two = join(with_quota(1000 * kBlock));
  auto three = join(with_quota(1000 * kBlock));
  ASSERT_TRUE(fill(*two, test_name(1, 10)));
  const auto times = [&] {
    std::vector<int64_t> all;
    for (const std::string& path :
         {std::string("/cache/state"), log_path("/cache/members", two->directory->member(), 0),
          log_path("/cache/members", three->directory->member(), 0)}) {
      all.push_back(fs_.stat(path)->mtime_ns);
    }
    return all;
  };
  EXPECT_TRUE(eventually([&] {
    const std::vector<int64_t> before = times();
    std::this_thread::sleep_for(milliseconds(2) * 100);  // A hundred ticks.
    return times() == before;
  }));
}

TEST_F(KeeperMembersTest, AnIdleMemberDoesNotSitOnTheRoom) {
  constexpr uint64_t kQuota = 1000 * kBlock;
  auto one = join(with_quota(kQuota));
  auto idle = join(with_quota(kQuota));
  auto busy = join(with_quota(kQuota));
  uint64_t filled = 0;
  ASSERT_TRUE(eventually([&] {
    while (busy->fill(test_name(filled, 1))) ++filled;
    return filled * kBlock >= kQuota * 98 / 100;
  })) << filled;
  EXPECT_LE(one->bytes_on_drive(), kQuota);
}

// All at once, with members that come and go, the evictor among them.
TEST_F(KeeperMembersTest, TogetherTheyStayWithinTheQuota) {
  constexpr uint64_t kQuota = 2000 * kBlock;
  join(with_quota(kQuota)).reset();  // The directory is there.
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> fills = 0;
  std::atomic<uint64_t> next = 0;
  const auto live = [&](unsigned seed) {
    std::mt19937 random(seed);
    while (!stop) {
      TestMember member(fs_, kPath, with_quota(kQuota));
      if (random() % 2 == 0) member.settle();  // Somebody stays, also where all is slow.
      const int rounds = static_cast<int>(50 + random() % 100);
      for (int i = 0; i < rounds && !stop; ++i) {
        for (int j = 0; j < 20; ++j) {
          const EntryName name = test_name(next++, 1 + static_cast<uint32_t>(random() % 8));
          member.keeper->note_missed(name.id, name.file_bytes());
          if (!member.fill(name)) break;
          ++fills;
          // What is wanted again stays for long: more of that, and soon nobody could fill any more.
          member.keeper->note_finished(name.id, random() % 4 == 0);
        }
        std::this_thread::sleep_for(milliseconds(1));  // As slow as fills are.
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) threads.emplace_back(live, i);
  uint64_t most = 0;
  (void)eventually(
      [&] {
        most = std::max(most, bytes_at_a_moment(fs_, kPath));
        return fills >= 3000;
      },
      std::chrono::seconds(30));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(fills, 1000u);  // Also where all is slow.
  EXPECT_LE(most, kQuota);
  EXPECT_GT(most, kQuota / 2);

  auto last = join(with_quota(kQuota));  // And what is counted is what is there.
  EXPECT_EQ(last->keeper->status().used_bytes, last->bytes_on_drive());
}

// Everybody is killed at some moment; one comes back.
TEST_F(KeeperMembersTest, AfterACrashThingsAreAsTheyAre) {
  constexpr uint64_t kQuota = 500 * kBlock;
  auto one = join(with_quota(kQuota));
  auto two = join(with_quota(kQuota));
  uint64_t next = 0;
  for (int moment = 0; moment < 12; ++moment) {
    for (int i = 0; i < 20; ++i) {
      TestMember& who = i % 2 == 0 ? *one : *two;
      const EntryName name = test_name(next++, 3);
      if (who.fill(name)) who.keeper->note_finished(name.id, true);
    }
    const std::unique_ptr<MemoryFileSystem> world = fs_.clone();
    auto survivor = std::make_unique<TestMember>(*world, kPath, with_quota(kQuota));
    uint64_t number = 10000;
    while (survivor->keeper->reserve(test_name(number, 1)))
      survivor->publish(test_name(number++, 1));
    survivor->settle();
    while (survivor->fill(test_name(number, 1))) ++number;
    EXPECT_LE(survivor->bytes_on_drive(), kQuota) << moment;
    survivor->settle();
    const KeeperStatus status = survivor->keeper->status();
    EXPECT_EQ(status.used_bytes, survivor->bytes_on_drive()) << moment;
    EXPECT_EQ(status.members, 1u);
    survivor.reset();
    EXPECT_THAT(world->list("/cache/members",
                            [](const io::DirectoryEntry& entry) {
                              ADD_FAILURE() << entry.name << " is left behind";
                              return true;
                            }),
                IsOk());
    EXPECT_THAT(world->list("/cache/tmp",
                            [](const io::DirectoryEntry& entry) {
                              ADD_FAILURE() << entry.name << " is left behind";
                              return true;
                            }),
                IsOk());
  }
}

// After a power cut files may be there or not, and empty or torn; state, index and logs too.
TEST_F(KeeperMembersTest, AfterAPowerCutThingsAreAsTheyAre) {
  constexpr uint64_t kQuota = 500 * kBlock;
  auto one = join(with_quota(kQuota));
  auto two = join(with_quota(kQuota));
  for (uint64_t i = 0; i < 60; ++i) (void)(i % 2 == 0 ? *one : *two).fill(test_name(i, 5));
  one->settle();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::unique_ptr<MemoryFileSystem> world = fs_.power_cut(seed);
    auto survivor = cache::join(*world, with_quota(kQuota));
    EXPECT_EQ(survivor->keeper->status().used_bytes, survivor->bytes_on_drive()) << seed;
  }
}

}  // namespace

}  // namespace penstock::cache
