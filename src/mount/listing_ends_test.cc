#include "mount/listing_ends.h"

#include <gtest/gtest.h>

namespace penstock::mount {
namespace {

TEST(ListingEnds, AreThoseOfWhoeverBeganLast) {
  ListingEnds ends;
  EXPECT_EQ(ends.end_of(7), UINT64_MAX);
  ends.begin(7, 100);
  ends.begin(8, 150);
  EXPECT_EQ(ends.end_of(7), 100u);
  ends.begin(7, 200);
  EXPECT_EQ(ends.end_of(7), 200u);
  EXPECT_EQ(ends.end_of(8), 150u);
}

TEST(ListingEnds, TakeNoMoreAndMoreMemory) {
  ListingEnds ends;
  for (meta::Ino ino = 1; ino <= 100'001; ++ino) ends.begin(ino, ino);
  EXPECT_EQ(ends.end_of(1), UINT64_MAX);
  EXPECT_EQ(ends.end_of(100'001), 100'001u);
}

}  // namespace
}  // namespace penstock::mount
