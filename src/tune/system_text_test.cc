#include "tune/system_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace penstock::tune::doctor {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(SystemText, Meminfo) {
  const Meminfo values = parse_meminfo(
      "MemTotal:       24684100 kB\nHugePages_Total:       0\nDirty: x kB\nnonsense\n"
      "Huge: 18446744073709551615 kB\n: 3 kB\n");
  EXPECT_EQ(values.at("MemTotal"), uint64_t{24684100} * 1024);
  EXPECT_EQ(values.count("HugePages_Total"), 0u);
  EXPECT_EQ(values.count("Dirty"), 0u);
  EXPECT_EQ(values.count("Huge"), 0u);
}

TEST(SystemText, MdstatNamesMembersAndMissingDrives) {
  const auto arrays = parse_mdstat(
      "Personalities : [raid0] [raid1]\n"
      "md1 : active (auto-read-only) raid1 sdb1[1](F) sda1[0]\n"
      "      976630464 blocks super 1.2 [2/1] [U_]\n"
      "md0 : active raid0 nvme1n1[1] nvme0n1[0]\n"
      "      1000 blocks super 1.2 512k chunks\n\nunused devices: <none>\n");
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays[0].level, "raid1");
  EXPECT_THAT(arrays[0].members, ElementsAre("sdb1", "sda1"));
  EXPECT_EQ(arrays[0].drives_wanted, 2u);
  EXPECT_EQ(arrays[0].drives_present, 1u);
  EXPECT_EQ(arrays[1].level, "raid0");
  EXPECT_EQ(arrays[1].drives_wanted, 0u);
  EXPECT_THAT(parse_mdstat("md0\nmd0 :\n[2/1]\n[/]"), IsEmpty());
}

TEST(SystemText, SchedulerAndLink) {
  EXPECT_EQ(parse_scheduler("none [mq-deadline] kyber"), "mq-deadline");
  EXPECT_EQ(parse_scheduler("none"), "");
  EXPECT_EQ(parse_scheduler("]["), "");
  EXPECT_EQ(parse_link_speed_gt("16.0 GT/s PCIe"), 16.0);
  EXPECT_EQ(parse_link_speed_gt("2.5 GT/s"), 2.5);
  for (const char* text : {"Unknown", "", "GT/s", "x GT/s", "-1 GT/s", "1e99 GT/s", "nan GT/s"})
    EXPECT_EQ(parse_link_speed_gt(text), std::nullopt) << text;
  EXPECT_NEAR(link_bytes_per_second(16, 4), 7.88e9, 1e7);
  EXPECT_NEAR(link_bytes_per_second(32, 4), 15.75e9, 2e7);
  EXPECT_NEAR(link_bytes_per_second(2.5, 1), 0.25e9, 1e6);
}

TEST(SystemText, LustreStriping) {
  const auto plain = parse_striping(
      "stripe_count:  1 stripe_size:   1048576 pattern:       raid0 stripe_offset: -1\n");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->count, 1);
  EXPECT_EQ(plain->size_bytes, 1048576u);
  const auto progressive = parse_striping(
      "  lcm_entry_count: 2\n  lcme_id: 1\n stripe_count: 1 stripe_size: 65536\n"
      "  lcme_id: 2\n lmm_stripe_count: -1\n lmm_stripe_size: 4194304\n");
  ASSERT_TRUE(progressive);
  EXPECT_EQ(progressive->count, -1);
  EXPECT_EQ(progressive->size_bytes, 4194304u);
  EXPECT_EQ(parse_striping("stripe_count: 0 stripe_size: 0")->count, 1);
  EXPECT_EQ(parse_striping("stripe_count: 4294967295")->count, -1);
  EXPECT_FALSE(parse_striping("error: cannot open"));
  EXPECT_FALSE(parse_striping("stripe_count:"));
}

TEST(SystemText, NvmeHealthPage) {
  std::vector<std::byte> page(512);
  page[0] = std::byte{4};
  page[3] = std::byte{90};
  page[4] = std::byte{10};
  page[5] = std::byte{130};
  page[49] = std::byte{1};  // 256 units of 512,000 bytes.
  const auto health = parse_nvme_health(page);
  ASSERT_TRUE(health);
  EXPECT_EQ(health->critical_warning, 4u);
  EXPECT_EQ(health->spare_percent, 90u);
  EXPECT_EQ(health->spare_threshold_percent, 10u);
  EXPECT_EQ(health->percentage_used, 130u);
  EXPECT_EQ(health->written_bytes, 256u * 512'000);
  page.pop_back();
  EXPECT_FALSE(parse_nvme_health(page));
}

TEST(SystemText, Cgroup) {
  const std::string_view v1 = "9:name=systemd:/\n4:memory,cpu:/docker/ab\n0::/\n";
  EXPECT_EQ(parse_cgroup(v1, "memory")->path, "/docker/ab");
  EXPECT_FALSE(parse_cgroup(v1, "memory")->unified);
  EXPECT_TRUE(parse_cgroup("0::/user.slice\n", "memory")->unified);
  EXPECT_FALSE(parse_cgroup("garbage\n1:x", "memory"));
}

TEST(SystemText, KernelVersion) {
  EXPECT_TRUE(parse_kernel_version("6.12.3-amd64")->at_least(6, 2));
  EXPECT_TRUE(parse_kernel_version("7.0-rc1")->at_least(6, 2));
  EXPECT_FALSE(parse_kernel_version("5.15")->at_least(6, 2));
  EXPECT_FALSE(parse_kernel_version("six.two"));
}

TEST(SystemText, SurvivesNoise) {
  const unsigned seed = 77;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const std::string_view alphabet = "md0:/[]() \n\t0123456789.GT/sstripe_count:_size-kB\xff";
  for (int round = 0; round < 3000; ++round) {
    std::string text(random() % 200, ' ');
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    parse_meminfo(text);
    parse_mdstat(text);
    parse_scheduler(text);
    parse_link_speed_gt(text);
    parse_striping(text);
    parse_cgroup(text, "memory");
    parse_kernel_version(text);
  }
}

}  // namespace
}  // namespace penstock::tune::doctor
