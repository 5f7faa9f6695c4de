#include "tune/mount_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace penstock::tune::doctor {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::string_view kTable =
    "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
    "27 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro\n"
    "30 27 259:5 /sub /my\\040data rw,noatime shared:2 master:1 - xfs /dev/nvme1n1 "
    "rw,logbsize=256k\n"
    "31 27 0:50 / /mnt/nfs rw - nfs4 server:/export rw,rsize=1048576,proto=tcp\n";

TEST(Mountinfo, ReadsMountsAndBothKindsOfOptions) {
  const std::vector<Mount> mounts = parse_mountinfo(kTable);
  ASSERT_EQ(mounts.size(), 4u);
  EXPECT_EQ(mounts[2].point, "/my data");
  EXPECT_EQ(mounts[2].type, "xfs");
  EXPECT_EQ(mounts[2].source, "/dev/nvme1n1");
  EXPECT_EQ(mounts[2].major, 259u);
  EXPECT_EQ(mounts[2].minor, 5u);
  EXPECT_THAT(mounts[2].options, ElementsAre("rw", "noatime", "rw", "logbsize=256k"));
  EXPECT_EQ(mounts[2].option_value("logbsize"), "256k");
  EXPECT_EQ(mounts[3].option_number("rsize"), 1048576u);
  EXPECT_EQ(mounts[3].option_number("proto"), std::nullopt);
  EXPECT_EQ(mounts[3].option_value("rw"), std::nullopt);
  EXPECT_TRUE(mounts[1].has_option("relatime"));
  EXPECT_FALSE(mounts[1].read_only());
}

TEST(Mountinfo, TellsAReadOnlyMountFromAReadOnlyFileSystem) {
  const std::vector<Mount> mounts = parse_mountinfo(
      "1 0 8:1 / /a ro,noatime - ext4 /dev/sda1 rw\n"
      "2 0 8:1 / /b rw,noatime - ext4 /dev/sda1 ro,errors=remount-ro\n");
  ASSERT_EQ(mounts.size(), 2u);
  EXPECT_TRUE(mounts[0].mounted_read_only);
  EXPECT_FALSE(mounts[0].file_system_read_only);
  EXPECT_FALSE(mounts[1].mounted_read_only);
  EXPECT_TRUE(mounts[1].file_system_read_only);
}

TEST(Mountinfo, FindsTheMountThatHoldsAPath) {
  std::vector<Mount> mounts = parse_mountinfo(kTable);
  const auto point = [&](const char* path) {
    const Mount* mount = find_mount(mounts, path);
    return mount == nullptr ? std::string("none") : mount->point;
  };
  EXPECT_EQ(point("/my data/set/x"), "/my data");
  EXPECT_EQ(point("/my data"), "/my data");
  EXPECT_EQ(point("/my database"), "/");
  EXPECT_EQ(point("/"), "/");
  EXPECT_EQ(point("relative"), "none");
  EXPECT_EQ(point(""), "none");
  mounts.push_back(mounts[2]);
  mounts.back().type = "tmpfs";
  EXPECT_EQ(find_mount(mounts, "/my data/x")->type, "tmpfs") << "the last one covers the others";
}

TEST(Mountinfo, LeavesOutWhatIsNotAMount) {
  for (const std::string_view line :
       {"", "-", "- - - -", "1 2 3", "22 27 0:21 / /proc rw,relatime", "22 27 0:21 / /proc rw -",
        "22 27 0:21 / /proc rw - proc", "x 27 0:21 / /proc rw - proc proc rw",
        "22 27 0 / /proc rw - proc proc rw", "22 27 0:99999999999 / /proc rw - proc proc rw",
        "22 27 0:21 / proc rw - proc proc rw"})
    EXPECT_THAT(parse_mountinfo(line), IsEmpty()) << line;
}

TEST(Mountinfo, SurvivesDamagedText) {
  const unsigned seed = 20240611;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::string text(kTable);
    for (int i = 0; i < 8; ++i) text[random() % text.size()] = static_cast<char>(random());
    text.resize(random() % text.size());
    for (const Mount& mount : parse_mountinfo(text)) EXPECT_EQ(mount.point[0], '/');
    parse_fstab(text);
    merge_options(text, {"noatime"});
  }
}

TEST(Fstab, ReadsEntries) {
  const auto entries = parse_fstab(
      "# comment\n\nUUID=1 / ext4 defaults 0 1\n/dev/sdb /my\\040data xfs noatime\nbad line\n");
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].dump_and_pass, "0 1");
  EXPECT_EQ(entries[1].point, "/my data");
  EXPECT_EQ(entries[1].line, "/dev/sdb /my\\040data xfs noatime");
}

TEST(Options, AdditionsReplaceWhatContradictsThem) {
  EXPECT_EQ(merge_options("defaults", {"noatime"}), "noatime");
  EXPECT_EQ(merge_options("rw,relatime,discard", {"noatime"}), "rw,discard,noatime");
  EXPECT_EQ(merge_options("rw,nobarrier", {"barrier=1"}), "rw,barrier=1");
  EXPECT_EQ(merge_options("rw,barrier=0", {"barrier=1"}), "rw,barrier=1");
  EXPECT_EQ(merge_options("soft,rsize=4096,noac", {"hard", "rsize=1048576", "actimeo=60"}),
            "hard,rsize=1048576,actimeo=60");
  EXPECT_EQ(merge_options("rw", {"commit=60", "noatime", "commit=60"}), "rw,noatime,commit=60");
  EXPECT_EQ(merge_options("ro,noatime", {"rw"}), "noatime,rw");
  EXPECT_EQ(merge_options("", {}), "defaults");
}

}  // namespace
}  // namespace penstock::tune::doctor
