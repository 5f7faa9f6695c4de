#include "volume/mover.h"

#include <thread>

#include "volume/host_test_support.h"
#include "volume/moody_store.h"

namespace penstock::volume {
namespace {

using namespace std::chrono_literals;

class MoverTest : public ::testing::Test {
 protected:
  MoverTest() {
    HostOptions options = quiet_options(fs_);
    options.segment_bytes = 8 * kMiB;
    options.writeback.journal_bytes = 64 * kMiB;
    options.io_timeout = 60s;
    options.wrap_store = [this](std::unique_ptr<store::ObjectStore> inner) {
      return std::make_unique<MoodyStore>(std::move(inner), mood_);
    };
    host_ = *create_host(kHostPath, {.name = "v"}, options);
    volume_ = *host_->open("v");
  }
  void write(const std::string& name, size_t bytes) {
    EXPECT_THAT(volume_->write(make_file(*volume_, name), 0, random_bytes(bytes, 1)), IsOk());
  }
  std::thread well_in(Nanoseconds time) {
    return std::thread([this, time] {
      std::this_thread::sleep_for(time);
      mood_->puts = Mood::kWell;
    });
  }

  io::MemoryFileSystem fs_;
  std::shared_ptr<Mood> mood_ = std::make_shared<Mood>();
  std::shared_ptr<Host> host_;
  std::shared_ptr<Volume> volume_;
};

// Or a drain in short turns would begin the same objects for ever.
TEST_F(MoverTest, WhatIsOnItsWayAtTheDeadlineIsNotGivenUp) {
  write("a", 100'000);
  mood_->puts = Mood::kHangs;
  std::thread later = well_in(300ms);
  EXPECT_THAT(host_->drain(deadline_in(50ms)), IsOk());
  later.join();
  EXPECT_EQ(host_->status()->objects, 1u);
}

TEST_F(MoverTest, AfterTheDeadlineNothingIsBegun) {
  write("a", 100'000);
  EXPECT_THAT(host_->drain(deadline_in(0ms)), FailsWith(ErrorCode::kTimeout));
  EXPECT_EQ(host_->status()->objects, 0u);
}

TEST_F(MoverTest, ACallerThatHasGoneIsNotWaitedFor) {
  write("a", 100'000);
  mood_->puts = Mood::kHangs;
  std::stop_source stop;
  std::thread later([&] {
    std::this_thread::sleep_for(50ms);
    stop.request_stop();
  });
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_THAT(host_->drain(kNoDeadline, {}, stop.get_token()), FailsWith(ErrorCode::kCancelled));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 30s);
  later.join();
  mood_->puts = Mood::kWell;
  EXPECT_THAT(host_->drain(kNoDeadline), IsOk());
}

TEST_F(MoverTest, SaysHowMuchIsLeftAfterEachObject) {
  for (int i = 0; i < 5; ++i) write(std::to_string(i), 10 * kMiB);
  std::vector<uint64_t> left;
  ASSERT_THAT(host_->drain(kNoDeadline,
                           [&](const Pending& pending) { left.push_back(pending.content_bytes); }),
              IsOk());
  EXPECT_GE(left.size(), 3u);
  EXPECT_TRUE(std::ranges::is_sorted(left, std::greater())) << ::testing::PrintToString(left);
  EXPECT_EQ(left.back(), 0u);
}

}  // namespace
}  // namespace penstock::volume
