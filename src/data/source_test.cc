#include "data/source.h"

#include <gtest/gtest.h>
#include <linux/magic.h>

namespace penstock::data {
namespace {

TEST(Source, NetworkMountsAreKnownByTheirType) {
  EXPECT_TRUE(is_network_type(NFS_SUPER_MAGIC));
  EXPECT_TRUE(is_network_type(CIFS_SUPER_MAGIC));
  EXPECT_TRUE(is_network_type(SMB2_SUPER_MAGIC));
  EXPECT_TRUE(is_network_type(FUSE_SUPER_MAGIC));
  EXPECT_TRUE(is_network_type(0x0BD00BD0)) << "Lustre";
  EXPECT_FALSE(is_network_type(EXT4_SUPER_MAGIC));
  EXPECT_FALSE(is_network_type(XFS_SUPER_MAGIC));
  EXPECT_FALSE(is_network_type(TMPFS_MAGIC));
  EXPECT_FALSE(is_network_type(OVERLAYFS_SUPER_MAGIC));
  EXPECT_FALSE(is_network_mount("/proc"));
  EXPECT_FALSE(is_network_mount("/no/such/path"));
}

}  // namespace
}  // namespace penstock::data
