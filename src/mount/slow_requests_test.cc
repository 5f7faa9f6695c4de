#include "mount/slow_requests.h"

#include <linux/fuse.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "volume/host_test_support.h"
#include "volume/log_lines.h"
#include "volume/moody_store.h"

namespace penstock::mount {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using volume::LogLines;

class SlowRequestsTest : public ::testing::Test {
 protected:
  void begin(uint64_t number, SlowRequests::Clock::time_point at) {
    under_way_.begin({.number = number,
                      .opcode = FUSE_READ,
                      .ino = 12,
                      .offset = 4096,
                      .length = 131072,
                      .begun = at});
  }
  void end(SlowRequests::Clock::time_point at) {
    const RequestFacts request = under_way_.hand_over();
    if (slow_.is_slow(at - request.begun)) slow_.ended(request, at);
  }

  const SlowRequests::Clock::time_point now_ = SlowRequests::Clock::now();
  LogLines log_;
  RequestMetrics metrics_;
  const uint64_t slow_before_ = metrics_.slow.value();
  RequestsUnderWay under_way_;
  SlowRequests slow_{
      under_way_, metrics_, {.threshold = 10s, .store = "s3://bucket", .background = false}};
};

TEST_F(SlowRequestsTest, AQuickOneIsNotToldOf) {
  begin(1, now_);
  slow_.look(now_ + 9s);
  end(now_ + 9s);
  slow_.look(now_ + 1h);
  EXPECT_THAT(log_.get(), IsEmpty());
  EXPECT_EQ(metrics_.slow.value(), slow_before_);
}

TEST_F(SlowRequestsTest, ASlowOneIsToldOfOnceWhileItHangs) {
  begin(1, now_);
  const WaitingFor wait("an answer of the store");
  slow_.look(now_ + 11s);
  EXPECT_EQ(metrics_.slow_now.value(), 1);
  ASSERT_THAT(log_.get(), SizeIs(1));
  EXPECT_THAT(log_.get()[0], HasSubstr("is not answered yet"));
  EXPECT_THAT(log_.get()[0], HasSubstr("read of inode 12, 131072 bytes at 4096"));
  EXPECT_THAT(log_.get()[0], HasSubstr("for=\"11 s\""));
  EXPECT_THAT(log_.get()[0], HasSubstr("waits_for=\"an answer of the store\""));
  EXPECT_THAT(log_.get()[0], HasSubstr("store=s3://bucket"));
  for (int i = 12; i < 100; ++i) slow_.look(now_ + std::chrono::seconds(i));
  EXPECT_THAT(log_.get(), SizeIs(1));
  end(now_ + 100s);
  EXPECT_THAT(log_.get(), SizeIs(1));
  EXPECT_EQ(metrics_.slow.value(), slow_before_ + 1);
  slow_.look(now_ + 101s);
  EXPECT_EQ(metrics_.slow_now.value(), 0);
}

TEST_F(SlowRequestsTest, ThatItIsOverIsToldOnce) {
  begin(1, now_);
  slow_.look(now_ + 11s);
  end(now_ + 14s);
  slow_.look(now_ + 15s);
  EXPECT_EQ(log_.count("in time again"), 0u);  // It may only seem so.
  slow_.look(now_ + 40s);
  slow_.look(now_ + 41s);
  EXPECT_EQ(log_.count("in time again"), 1u);
  EXPECT_THAT(log_.with("in time again"), HasSubstr("slow=1 longest=\"14 s\""));
}

TEST_F(SlowRequestsTest, OneThatNobodyLookedAtIsToldOfAfterwards) {
  begin(1, now_);
  end(now_ + 12s);
  ASSERT_THAT(log_.get(), SizeIs(1));
  EXPECT_THAT(log_.get()[0], HasSubstr("a request took long"));
  EXPECT_THAT(log_.get()[0], HasSubstr("took=\"12 s\""));
  EXPECT_EQ(metrics_.slow.value(), slow_before_ + 1);
}

TEST_F(SlowRequestsTest, AnHourOfTroubleDoesNotFillTheLog) {
  uint64_t number = 0;
  for (auto at = now_; at < now_ + 1h; at += 500ms) {
    begin(++number, at - 12s);
    slow_.look(at);
    end(at);
  }
  const size_t lines = log_.get().size();
  EXPECT_GE(lines, 359u);
  EXPECT_LE(lines, 362u);
  EXPECT_EQ(log_.count("others=19"), lines - 1);  // All but the first: two a second.
  EXPECT_EQ(metrics_.slow.value(), slow_before_ + number);
  slow_.look(now_ + 2h);
  EXPECT_THAT(log_.with("in time again"), HasSubstr("slow=7200"));
}

TEST(SlowRequests, NoneIsTooSlowWhereNobodyWantsToKnow) {
  RequestMetrics metrics;
  RequestsUnderWay under_way;
  const SlowRequests slow(under_way, metrics, {.threshold = 0s});
  EXPECT_FALSE(slow.is_slow(24h));
}

TEST(SlowRequests, LooksByItself) {
  const LogLines log;
  RequestMetrics metrics;
  RequestsUnderWay under_way;
  const SlowRequests slow(under_way, metrics, {.threshold = 20ms});
  under_way.begin(
      {.number = 1, .opcode = FUSE_FSYNC, .ino = 3, .begun = SlowRequests::Clock::now()});
  while (log.count("fsync of inode 3") == 0) std::this_thread::sleep_for(1ms);
  under_way.end();
  while (log.count("in time again") == 0) std::this_thread::sleep_for(1ms);
}

// With a volume below: what is said of the wait is what it waits for.
class SlowVolumeTest : public ::testing::Test {
 protected:
  SlowVolumeTest() {
    volume::HostOptions options = volume::quiet_options(fs_);
    options.segment_bytes = 8 * kMiB;
    options.writeback.journal_bytes = 16 * kMiB;
    options.io_timeout = 30s;
    options.wrap_store = [this](std::unique_ptr<store::ObjectStore> inner) {
      return std::make_unique<volume::MoodyStore>(std::move(inner), mood_);
    };
    host_ = *volume::create_host(volume::kHostPath, {.name = "v"}, options);
    volume_ = *host_->open("v");
    file_ = volume::make_file(*volume_, "a");
  }
  // What a request that does this waits for, once it does; then `let_go` ends the wait.
  std::string wait_of(const std::function<void()>& request, const std::function<void()>& let_go) {
    RequestsUnderWay under_way;
    std::thread thread([&] {
      under_way.begin({.number = 1, .begun = SlowRequests::Clock::now()});
      request();
      under_way.end();
    });
    std::string seen;
    while (seen.empty()) {
      std::this_thread::sleep_for(1ms);
      const auto all = under_way.all();
      if (!all.empty() && all[0].waits_for != nullptr) seen = all[0].waits_for;
    }
    // Not what it waited for in passing.
    std::this_thread::sleep_for(20ms);
    if (const auto all = under_way.all(); !all.empty() && all[0].waits_for != nullptr) {
      seen = all[0].waits_for;
    }
    let_go();
    thread.join();
    return seen;
  }

  io::MemoryFileSystem fs_;
  std::shared_ptr<volume::Mood> mood_ = std::make_shared<volume::Mood>();
  std::shared_ptr<volume::Host> host_;
  std::shared_ptr<volume::Volume> volume_;
  meta::Ino file_ = 0;
};

TEST_F(SlowVolumeTest, AReadWaitsForTheStore) {
  ASSERT_THAT(volume_->write(file_, 0, volume::random_bytes(1000, 1)), IsOk());
  ASSERT_THAT(host_->drain(kNoDeadline), IsOk());
  mood_->reads = volume::Mood::kHangs;
  const auto read = [&] {
    volume::Bytes into(1000);
    EXPECT_THAT(volume_->read(file_, 0, into), IsOk());
  };
  EXPECT_EQ(wait_of(read, [&] { mood_->reads = volume::Mood::kWell; }), "an answer of the store");
}

TEST_F(SlowVolumeTest, AWriteWaitsForRoomInTheJournal) {
  // Nothing moves content but drain(): the background is off.
  for (uint64_t at = 0; at < 14 * kMiB; at += kMiB) {
    ASSERT_THAT(volume_->write(file_, at, volume::random_bytes(kMiB, at + 1)), IsOk());
  }
  const auto write = [&] {
    for (uint64_t at = 14 * kMiB; at < 18 * kMiB; at += kMiB) {
      EXPECT_THAT(volume_->write(file_, at, volume::random_bytes(kMiB, at + 1)), IsOk());
    }
  };
  const auto make_room = [&] { EXPECT_THAT(host_->drain(kNoDeadline), IsOk()); };
  EXPECT_THAT(wait_of(write, make_room), HasSubstr("room in the journal"));
}

}  // namespace
}  // namespace penstock::mount
