#include "mount/lookups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::mount {
namespace {

TEST(Lookups, WhatHasANameIsNeverToBeForgotten) {
  Lookups lookups;
  lookups.add(7);
  EXPECT_FALSE(lookups.forget(7, 1));
  EXPECT_FALSE(lookups.knows(7));
}

TEST(Lookups, WhatLostItsNameGoesWithTheLastForget) {
  Lookups lookups;
  lookups.add(7);
  lookups.add(7);
  EXPECT_FALSE(lookups.lost_name(7));
  EXPECT_FALSE(lookups.forget(7, 1));
  EXPECT_TRUE(lookups.forget(7, 1));
  EXPECT_FALSE(lookups.forget(7, 1));
}

TEST(Lookups, WhatTheKernelNeverSawGoesAtOnce) {
  Lookups lookups;
  EXPECT_TRUE(lookups.lost_name(7));
}

TEST(Lookups, AtTheEndAllWithoutANameAreLeft) {
  Lookups lookups;
  for (meta::Ino ino = 1; ino <= 200; ++ino) lookups.add(ino);
  EXPECT_FALSE(lookups.lost_name(3));
  EXPECT_FALSE(lookups.lost_name(130));
  EXPECT_THAT(lookups.take_nameless(), testing::UnorderedElementsAre(3, 130));
  EXPECT_FALSE(lookups.knows(5));
}

}  // namespace
}  // namespace penstock::mount
