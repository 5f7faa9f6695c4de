#include "mount/access_times.h"

#include <gtest/gtest.h>

namespace penstock::mount {
namespace {

constexpr meta::Time kHour = 3'600'000'000'000;

TEST(AccessTimes, RelativeOnesFollowAChangeAndADay) {
  meta::Inode inode;
  inode.atime = 10 * kHour;
  inode.mtime = inode.ctime = 9 * kHour;
  EXPECT_FALSE(access_is_due(inode, 11 * kHour, AccessTimes::kRelative));
  EXPECT_TRUE(access_is_due(inode, 34 * kHour, AccessTimes::kRelative));
  inode.ctime = 10 * kHour;
  EXPECT_TRUE(access_is_due(inode, 11 * kHour, AccessTimes::kRelative));
  EXPECT_FALSE(access_is_due(inode, 11 * kHour, AccessTimes::kNever));
  inode.ctime = 9 * kHour;
  EXPECT_TRUE(access_is_due(inode, 11 * kHour, AccessTimes::kAlways));
}

}  // namespace
}  // namespace penstock::mount
