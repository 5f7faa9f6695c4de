#include "mount/wakefulness.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace penstock::mount {
namespace {

class WakefulnessTest : public ::testing::Test {
 protected:
  void SetUp() override { std::ofstream(device_).flush(); }
  void TearDown() override { std::filesystem::remove(device_); }

  static void look(Wakefulness& wakefulness, uint64_t requests, int times) {
    for (int i = 0; i < times; ++i) wakefulness.look(requests);
  }

  const std::string device_ = ::testing::TempDir() + "latency-" + std::to_string(::getpid());
};

TEST_F(WakefulnessTest, IsAskedForInABurstAndGivenUpAfterIt) {
  Wakefulness wakefulness(device_);
  look(wakefulness, 30, 2);
  EXPECT_FALSE(wakefulness.held()) << "so many may come by chance";
  look(wakefulness, 30, 1);
  EXPECT_TRUE(wakefulness.held());
  EXPECT_EQ(std::filesystem::file_size(device_), sizeof(int32_t));
  look(wakefulness, 0, 5);
  EXPECT_TRUE(wakefulness.held()) << "the next ones may come at once";
  look(wakefulness, 30, 1);
  look(wakefulness, 0, 19);
  EXPECT_TRUE(wakefulness.held());
  look(wakefulness, 0, 1);
  EXPECT_FALSE(wakefulness.held());
}

TEST_F(WakefulnessTest, NowAndThenARequestIsNoBurst) {
  Wakefulness wakefulness(device_);
  for (int i = 0; i < 100; ++i) wakefulness.look(i % 3 == 0 ? 5 : 1);
  EXPECT_FALSE(wakefulness.held());
}

TEST_F(WakefulnessTest, WhoMayNotGoesWithout) {
  Wakefulness wakefulness(device_ + "/no/such/device");
  look(wakefulness, 100, 100);
  EXPECT_FALSE(wakefulness.held());
}

TEST_F(WakefulnessTest, IsGivenUpAtTheEnd) {
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = open_files();
  {
    Wakefulness wakefulness(device_);
    look(wakefulness, 100, 10);
    EXPECT_EQ(open_files(), before + 1);
  }
  EXPECT_EQ(open_files(), before);
}

}  // namespace
}  // namespace penstock::mount
