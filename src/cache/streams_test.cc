#include "cache/streams.h"

#include <gtest/gtest.h>

#include <random>

#include "penstock/units.h"

namespace penstock::cache {
namespace {

TEST(Streams, ReadingOnIsSequential) {
  Streams streams;
  EXPECT_TRUE(streams.note(1, 0, 100).sequential);
  EXPECT_EQ(streams.note(1, 100, 100).run, 2U);
  EXPECT_EQ(streams.note(1, 200, 100).run, 3U);
}

TEST(Streams, OneThatBeginsInTheMiddleIsSequentialFromItsFourthRead) {
  Streams streams;
  for (uint64_t i = 50; i < 53; ++i) EXPECT_FALSE(streams.note(1, i * kMiB, kMiB).sequential);
  EXPECT_TRUE(streams.note(1, 53 * kMiB, kMiB).sequential);
}

TEST(Streams, RequestsUnderWayTogetherMayArriveInAnyOrder) {
  Streams streams;
  (void)streams.note(1, 0, kMiB);
  EXPECT_TRUE(streams.note(1, 2 * kMiB, kMiB).sequential);
  EXPECT_TRUE(streams.note(1, kMiB, kMiB).sequential);
  EXPECT_TRUE(streams.note(1, 4 * kMiB, kMiB).sequential);
}

TEST(Streams, FourReadersOfOneObjectAreToldApart) {
  Streams streams;
  for (uint64_t reader = 0; reader < 4; ++reader) (void)streams.note(1, reader * kGiB, 1000);
  for (uint64_t step = 1; step < 10; ++step) {
    for (uint64_t reader = 0; reader < 4; ++reader) {
      const Streams::Pattern pattern = streams.note(1, reader * kGiB + step * 1000, 1000);
      EXPECT_EQ(pattern.run, step + 1);
      EXPECT_TRUE(pattern.sequential || step < 3);
    }
  }
}

TEST(Streams, RandomReadsAreNot) {
  Streams streams;
  std::mt19937_64 random(1);
  int sequential = 0;
  for (int i = 0; i < 10000; ++i) {
    sequential += streams.note(1, random() % (100 * kGiB), 100 * kKiB).sequential ? 1 : 0;
  }
  EXPECT_LT(sequential, 5);
}

TEST(Streams, RandomReadsOfASmallObjectAreNotEither) {
  Streams streams;
  std::mt19937_64 random(2);
  int sequential = 0;
  for (int i = 0; i < 10000; ++i) {
    sequential += streams.note(1, kMiB + random() % (31 * kMiB), 100 * kKiB).sequential ? 1 : 0;
  }
  EXPECT_LT(sequential, 20) << "each would cost a whole window";
}

TEST(Streams, AnObjectIsColdForAWhileAfterAMiss) {
  Streams streams;
  EXPECT_FALSE(streams.note(1, 0, 1).cold);
  streams.missed(1);
  EXPECT_TRUE(streams.note(1, 1, 1).cold);
  for (uint64_t i = 0; i < 1000; ++i) (void)streams.note(1, 2 + i, 1);
  EXPECT_FALSE(streams.note(1, 2000, 1).cold);
}

}  // namespace
}  // namespace penstock::cache
