#include "volume/read_ahead.h"

#include <gtest/gtest.h>

#include <random>

namespace penstock::volume {
namespace {

constexpr uint64_t kRead = 128 * kKiB;

TEST(ReadAhead, AFirstReadSaysNothing) {
  ReadAhead ahead;
  EXPECT_EQ(ahead.note(1, 0, kRead), std::nullopt);
}

TEST(ReadAhead, FrontToBackIsLoadedOnceAndWithoutGaps) {
  ReadAhead ahead;
  uint64_t loaded = 0;
  uint64_t largest = 0;
  for (uint64_t at = 0; at < 200 * kMiB; at += kRead) {
    const auto range = ahead.note(1, at, kRead);
    if (!range) continue;
    if (loaded > 0) {
      EXPECT_EQ(range->offset, loaded);
    }
    loaded = range->offset + range->length;
    largest = std::max(largest, range->length);
    EXPECT_LE(loaded, at + kRead + ReadAhead::kBytesMax);
  }
  EXPECT_GE(loaded, 200 * kMiB);
  EXPECT_GT(largest, 4 * kMiB);
}

TEST(ReadAhead, ALittleOutOfOrderIsStillFrontToBack) {
  ReadAhead ahead;
  uint64_t asked = 0;
  for (uint64_t at = 0; at < 64 * kMiB; at += 2 * kRead) {
    for (const uint64_t offset : {at + kRead, at}) {
      if (const auto range = ahead.note(1, offset, kRead)) asked += range->length;
    }
  }
  EXPECT_GT(asked, 60 * kMiB);
  EXPECT_LT(asked, 90 * kMiB);
}

TEST(ReadAhead, WhoJumpsAboutGetsNothing) {
  ReadAhead ahead;
  std::mt19937_64 random(1);
  int asked = 0;
  for (int i = 0; i < 1000; ++i) {
    if (ahead.note(1, (random() % 1'000'000) * kMiB, 4 * kKiB)) ++asked;
  }
  EXPECT_LT(asked, 10);
}

TEST(ReadAhead, TwoReadersOfOneFileAreTwo) {
  ReadAhead ahead;
  uint64_t asked = 0;
  for (uint64_t at = 0; at < 32 * kMiB; at += kRead) {
    for (const uint64_t base : {uint64_t{0}, uint64_t{kGiB}}) {
      if (const auto range = ahead.note(1, base + at, kRead)) asked += range->length;
    }
  }
  EXPECT_GT(asked, 60 * kMiB);
}

TEST(ReadAhead, ManyReadersShareWhatIsLoaded) {
  ReadAhead ahead;
  constexpr uint64_t kReaders = 8;
  uint64_t farthest = 0;
  for (uint64_t at = 0; at < 128 * kMiB; at += kRead) {
    for (meta::Ino ino = 1; ino <= kReaders; ++ino) {
      const auto range = ahead.note(ino, at, kRead);
      // They came one after the other: the first ones had more at first.
      if (range && at > 64 * kMiB)
        farthest = std::max(farthest, range->offset + range->length - at);
    }
  }
  EXPECT_LE(farthest, ReadAhead::kBytesMax / kReaders + kRead);
  // The others have stopped: all of it is for the one that goes on.
  for (uint64_t at = 128 * kMiB; at < 512 * kMiB; at += kRead) {
    const auto range = ahead.note(1, at, kRead);
    if (range) farthest = std::max(farthest, range->offset + range->length - at);
  }
  EXPECT_EQ(farthest, ReadAhead::kBytesMax + kRead);
}

TEST(ReadAhead, RemembersNoMoreThanSoManyReaders) {
  ReadAhead ahead;
  for (meta::Ino ino = 1; ino <= 10 * ReadAhead::kReadersMax; ++ino) {
    EXPECT_EQ(ahead.note(ino, 0, kRead), std::nullopt);
  }
  EXPECT_EQ(ahead.note(1, kRead, kRead), std::nullopt);
}

}  // namespace
}  // namespace penstock::volume
