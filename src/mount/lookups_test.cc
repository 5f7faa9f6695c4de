#include "mount/lookups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::mount {
namespace {

TEST(Lookups, TheFirstAndTheLastCount) {
  Lookups lookups;
  EXPECT_TRUE(lookups.add(7));
  EXPECT_FALSE(lookups.add(7));
  EXPECT_FALSE(lookups.add(7));
  EXPECT_FALSE(lookups.forget(7, 2));
  EXPECT_TRUE(lookups.knows(7));
  EXPECT_TRUE(lookups.forget(7, 1));
  EXPECT_FALSE(lookups.knows(7));
  EXPECT_FALSE(lookups.forget(7, 1));
  EXPECT_TRUE(lookups.add(7));
}

TEST(Lookups, AtTheEndAllAreThere) {
  Lookups lookups;
  for (meta::Ino ino = 1; ino <= 200; ++ino) lookups.add(ino);
  EXPECT_EQ(lookups.take_all().size(), 200U);
  EXPECT_FALSE(lookups.knows(5));
}

}  // namespace
}  // namespace penstock::mount
