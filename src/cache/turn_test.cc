// The parts of the policy: turns, their distribution, the tables.
#include "cache/turn.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

#include "cache/entry_table.h"
#include "cache/ghosts.h"
#include "penstock/units.h"

namespace penstock::cache {
namespace {

TEST(Turn, SharesLeaveOutTheHeader) {
  EXPECT_EQ(share_of(4096, 2), kWhole);
  EXPECT_EQ(share_of(1, 2), kWhole) << "a small object is read whole";
  EXPECT_EQ(share_of(0, 2), 0U);
  EXPECT_EQ(share_of(2 * kMiB, 1025), kWhole / 2);
  EXPECT_EQ(share_of(UINT64_MAX, 1025), kWhole);
  EXPECT_EQ(share_of(4096, 0), kWhole);
  EXPECT_EQ(share_of(4096, UINT32_MAX), 0U);
}

TEST(Turn, OfWholeReadsIsTheTimeBetweenThem) {
  Turn turn;
  double length = 0;
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(turn.add(kWhole, 1000, &length));
    EXPECT_EQ(length, 1000);
    EXPECT_EQ(turn.bytes, 1000);
  }
  EXPECT_EQ(turn.count, 5);
  EXPECT_LT(turn.late_after(), 1101);
}

TEST(Turn, OfSamplesIsTheTimeForAllOfThem) {
  Turn turn;
  double length = 0;
  uint64_t now = 0;
  uint64_t since = 0;
  std::mt19937_64 random(1);
  for (int i = 0; i < 4000; ++i) {
    now += random() % 200;  // 100 on average.
    if (turn.add(share_of(100 * kKiB, 1027), now - since, &length)) since = now;
  }
  EXPECT_GT(turn.count, 90);
  EXPECT_NEAR(turn.bytes, 100 * 41, 100 * 41 * 0.2);
}

TEST(Turn, ReadsBeyondOnceOverCountForMore) {
  Turn turn;
  double length = 0;
  EXPECT_FALSE(turn.add(kWhole / 2, 500, &length));
  EXPECT_TRUE(turn.add(kWhole, 1500, &length));
  EXPECT_EQ(length, 1000);
}

TEST(Turn, AShuffledLoopIsLateSoonerThanAnAlternatingOne) {
  std::mt19937_64 random(1);
  Turn shuffled;
  Turn alternating;
  double length = 0;
  double last = 0.5;
  for (int i = 0; i < 100; ++i) {
    const double next = static_cast<double>(random() % 1000) / 1000;
    shuffled.add(kWhole, static_cast<uint64_t>(1000 * (1 + next - last)) + 1, &length);
    last = next;
    alternating.add(kWhole, i % 2 == 0 ? 100 : 1900, &length);
  }
  EXPECT_LT(shuffled.late_after(), 1500);
  EXPECT_GT(alternating.late_after(), 1900);
}

TEST(Intervals, NearlyAllLieBelow) {
  Intervals intervals;
  intervals.set_memory(1000);
  for (int i = 0; i < 10; ++i) intervals.add(1e3);
  EXPECT_EQ(intervals.nearly_all(), 0) << "too few to say";
  for (int i = 0; i < 3000; ++i) intervals.add(i % 200 == 0 ? 1e12 : 1e6);
  EXPECT_GE(intervals.nearly_all(), 1e6);
  EXPECT_LT(intervals.nearly_all(), 1.1e6) << "one in two hundred is not seen";
  for (int i = 0; i < 3000; ++i) intervals.add(i % 50 == 0 ? 1e12 : 1e6);
  EXPECT_GE(intervals.nearly_all(), 1e12);
}

TEST(Intervals, ForgetWhatIsLongAgo) {
  Intervals intervals;
  intervals.set_memory(1000);
  for (int i = 0; i < 5000; ++i) intervals.add(1e12);
  for (int i = 0; i < 5000; ++i) intervals.add(1e6);
  EXPECT_GE(intervals.nearly_all(), 1e12);
  for (int i = 0; i < 5000; ++i) intervals.add(1e6);
  EXPECT_LT(intervals.nearly_all(), 1.1e6);
}

TEST(Intervals, AnyNumberHasItsPlace) {
  Intervals intervals;
  for (const double bytes : {0.0, -5.0, 1.0, 1e300}) {
    for (int i = 0; i < 100; ++i) intervals.add(bytes);
  }
  EXPECT_GT(intervals.nearly_all(), 1e18);
}

TEST(EntryTable, IsAMap) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    EntryTable table;
    std::unordered_map<uint64_t, uint32_t> model;
    for (int i = 0; i < 60'000; ++i) {
      // Grows, shrinks to nothing, and grows again.
      const bool adds = random() % 100 < (i / 15'000 % 2 == 0 ? 70U : 20U);
      const uint64_t number = random() % 12'000;
      Entry* found = table.find({number, number});
      ASSERT_EQ(found != nullptr, model.contains(number));
      if (found != nullptr) {
        ASSERT_EQ(found->blocks, model[number]);
      }
      if (adds) {
        Entry* entry = table.insert({number, number});
        ASSERT_EQ(entry == nullptr, found != nullptr);
        if (entry != nullptr) entry->blocks = model[number] = static_cast<uint32_t>(i);
      } else if (found != nullptr) {
        table.erase(*found);
        model.erase(number);
      }
      ASSERT_EQ(table.size(), model.size());
    }
    for (uint64_t i = 0; i < table.size(); ++i) {
      ASSERT_EQ(table.at(i).blocks, model.at(table.at(i).id.low));
    }
  }
}

EntryId ghost_id(uint64_t number) {
  return {number * 0x9E3779B97F4A7C15U, number};
}

TEST(Ghosts, RememberTheLatest) {
  Ghosts ghosts;
  EXPECT_EQ(ghosts.find(ghost_id(1)), nullptr);
  ghosts.insert(ghost_id(1), 10 * kMiB, {.bytes = 5, .count = 1}, 10 * kMiB);
  ASSERT_NE(ghosts.find(ghost_id(1)), nullptr);
  EXPECT_EQ(ghosts.find(ghost_id(1))->age(15 * kMiB), 5 * kMiB);
  ghosts.insert(ghost_id(1), 20 * kMiB, {.bytes = 6, .count = 2}, 25 * kMiB);
  EXPECT_EQ(ghosts.find(ghost_id(1))->turn.bytes, 6);
  ghosts.set_since(*ghosts.find(ghost_id(1)), 24 * kMiB);
  EXPECT_EQ(ghosts.find(ghost_id(1))->age(25 * kMiB), kMiB);
  ghosts.erase(*ghosts.find(ghost_id(1)));
  EXPECT_EQ(ghosts.find(ghost_id(1)), nullptr);
}

TEST(Ghosts, TimeMayWrap) {
  Ghosts ghosts;
  const uint64_t before = (uint64_t{1} << 54) - kMiB;
  ghosts.insert(ghost_id(1), before, {}, before);
  EXPECT_EQ(ghosts.find(ghost_id(1))->age(before + 3 * kMiB), 3 * kMiB);
}

TEST(Ghosts, ForgetTheOldestButAFewOfThemMuchLater) {
  Ghosts ghosts;
  constexpr uint64_t kIds = 1'000'000;
  for (uint64_t i = 0; i < kIds; ++i) ghosts.insert(ghost_id(i), i * kMiB, {}, i * kMiB);
  const auto kept = [&](uint64_t from, uint64_t to) {
    uint64_t sum = 0;
    for (uint64_t i = from; i < to; ++i) sum += ghosts.find(ghost_id(i)) != nullptr;
    return static_cast<double>(sum) / static_cast<double>(to - from);
  };
  EXPECT_GT(kept(kIds - 50'000, kIds), 0.99);
  EXPECT_GT(kept(0, 100'000), 0.9 / 64);
  EXPECT_LT(kept(0, 100'000), 1.2 / 64);
}

}  // namespace
}  // namespace penstock::cache
