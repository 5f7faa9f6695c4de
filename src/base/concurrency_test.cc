#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <numeric>
#include <system_error>
#include <thread>

#include "base/bounded_queue.h"
#include "base/gate.h"
#include "base/log.h"
#include "base/rate_limiter.h"
#include "base/sanitized.h"
#include "base/thread_pool.h"
#include "penstock/units.h"

namespace penstock {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST(BoundedQueue, HoldsNoMoreThanItsCapacity) {
  BoundedQueue<int> queue(2);
  int item = 1;
  EXPECT_TRUE(queue.try_push(item));
  EXPECT_TRUE(queue.try_push(item));
  EXPECT_FALSE(queue.try_push(item));
  EXPECT_FALSE(queue.push(3, deadline_in(5ms)));
  EXPECT_EQ(queue.size(), 2u);
}

TEST(BoundedQueue, ARefusedItemIsNotMovedFrom) {
  BoundedQueue<std::unique_ptr<int>> queue(0);
  auto item = std::make_unique<int>(1);
  EXPECT_FALSE(queue.try_push(item));
  EXPECT_NE(item, nullptr);
}

TEST(BoundedQueue, ClosedStillHandsOutWhatIsInside) {
  BoundedQueue<int> queue(4);
  EXPECT_TRUE(queue.push(1));
  EXPECT_TRUE(queue.push(2));
  queue.close();
  EXPECT_FALSE(queue.push(3));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), 2);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueue, CloseWakesWaiters) {
  BoundedQueue<int> full(1);
  EXPECT_TRUE(full.push(1));
  BoundedQueue<int> empty(1);
  std::thread pusher([&] { EXPECT_FALSE(full.push(2)); });
  std::thread popper([&] { EXPECT_EQ(empty.pop(), std::nullopt); });
  std::this_thread::sleep_for(5ms);
  full.close();
  empty.close();
  pusher.join();
  popper.join();
}

TEST(BoundedQueue, EveryItemArrivesOnceAcrossThreads) {
  constexpr int kProducers = 3;
  constexpr int kEach = 5000;
  BoundedQueue<int> queue(8);
  std::vector<std::atomic<int>> seen(kProducers * kEach);
  std::vector<std::thread> consumers;
  for (int c = 0; c < 3; ++c) {
    consumers.emplace_back([&] {
      while (auto item = queue.pop()) seen[static_cast<size_t>(*item)]++;
    });
  }
  std::vector<std::thread> producers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (int i = 0; i < kEach; ++i) EXPECT_TRUE(queue.push(p * kEach + i));
    });
  }
  for (auto& thread : producers) thread.join();
  queue.close();
  for (auto& thread : consumers) thread.join();
  for (const auto& count : seen) EXPECT_EQ(count, 1);
}

TEST(Gate, CloseWaitsForThoseInsideAndRefusesNewcomers) {
  Gate gate;
  Gate::Pass pass = gate.enter();
  ASSERT_TRUE(static_cast<bool>(pass));
  std::atomic<bool> closed = false;
  std::thread closer([&] {
    gate.close();
    closed = true;
  });
  while (!gate.closed()) std::this_thread::yield();
  EXPECT_FALSE(static_cast<bool>(gate.enter()));
  std::this_thread::sleep_for(5ms);
  EXPECT_FALSE(closed);
  pass = Gate::Pass();
  closer.join();
  EXPECT_TRUE(closed);
}

TEST(Gate, MayBeDestroyedAsSoonAsCloseReturns) {
  for (int i = 0; i < 200; ++i) {
    auto gate = std::make_unique<Gate>();
    std::atomic<bool> inside = false;
    std::thread worker([&] {
      Gate::Pass pass = gate->enter();
      inside = true;
    });
    while (!inside) std::this_thread::yield();
    gate->close();
    gate.reset();
    worker.join();
  }
}

TEST(ThreadPool, RunsEverythingThenStops) {
  std::atomic<int> ran = 0;
  ThreadPool pool("test", 3, 4);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(pool.submit([&] { ran++; }));
  pool.stop();
  EXPECT_EQ(ran, 100);
  EXPECT_FALSE(pool.submit([&] { ran++; }));
}

// Threads need address space for their stacks, so a limit on that refuses some of them, root's too.
class FewThreads : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "sanitizers need the address space";
    ASSERT_EQ(getrlimit(RLIMIT_AS, &before_), 0);
  }
  void TearDown() override {
    if (!kSanitized) setrlimit(RLIMIT_AS, &before_);
  }
  // Of 64 MiB each, while nothing else needs any.
  void leave_room_for(size_t threads) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * kMiB);
    pthread_setattr_default_np(&attributes);
    std::ifstream statm("/proc/self/statm");
    rlim_t pages = 0;
    statm >> pages;
    const rlim_t room = threads * 64 * kMiB + 32 * kMiB;
    const rlimit limit{.rlim_cur = pages * 4096 + room, .rlim_max = before_.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  }

 private:
  rlimit before_ = {};
};

TEST_F(FewThreads, ThePoolGoesOnWithThoseThatStarted) {
  std::vector<std::string> lines;
  set_log_sink([&](std::string_view line) { lines.emplace_back(line); });
  leave_room_for(3);
  std::atomic<int> ran = 0;
  {
    ThreadPool pool("few", 50, 4);
    EXPECT_GE(pool.threads(), 1u);
    EXPECT_LE(pool.threads(), 3u);
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(pool.submit([&] { ++ran; }));
  }
  set_log_sink({});
  EXPECT_EQ(ran, 100);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], testing::HasSubstr("ulimit -u"));
}

TEST_F(FewThreads, WithoutAnyThePoolThrows) {
  leave_room_for(0);
  EXPECT_THROW(ThreadPool("none", 2, 4), std::system_error);
}

TEST(ThreadPool, NamesItsThreads) {
  std::string name;
  {
    ThreadPool pool("ps-fetch", 1, 1);
    pool.submit([&] {
      std::ifstream comm("/proc/thread-self/comm");
      std::getline(comm, name);
    });
  }
  EXPECT_EQ(name, "ps-fetch-0");
}

TEST(Cores, AreAtLeastOneAndAtMostTheMachines) {
  EXPECT_GE(available_cores(), 1u);
  EXPECT_LE(available_cores(), std::thread::hardware_concurrency());
}

TEST(RateLimiter, PassesTheBurstThenTheRate) {
  RateLimiter limiter(1000, 100);
  const auto start = Clock::now();
  EXPECT_EQ(limiter.reserve(100), 0ns);
  const Nanoseconds wait = limiter.reserve(50);
  EXPECT_GE(wait + (Clock::now() - start), 50ms);
  EXPECT_LE(wait, 50ms);
}

TEST(RateLimiter, ARequestLargerThanTheBurstPassesAndLeavesDebt) {
  RateLimiter limiter(1000, 10);
  EXPECT_EQ(limiter.reserve(1000), 0ns);
  EXPECT_GT(limiter.reserve(1), 900ms);
}

TEST(RateLimiter, KeepsTheRateUnderSeveralThreads) {
  RateLimiter limiter(20000, 100);
  const auto start = Clock::now();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) EXPECT_TRUE(limiter.acquire(50).ok());
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_GE(Clock::now() - start, 90ms);  // (4 × 10 × 50 − 100) ÷ 20,000 = 95 ms
}

TEST(RateLimiter, DeadlineTakesNothing) {
  RateLimiter limiter(10, 1);
  EXPECT_TRUE(limiter.acquire(1).ok());
  EXPECT_EQ(limiter.acquire(1, deadline_in(1ms)).error().code, ErrorCode::kTimeout);
  EXPECT_LE(limiter.reserve(1), 100ms);
}

TEST(RateLimiter, StopEndsTheWait) {
  RateLimiter limiter(0.001, 1);
  EXPECT_TRUE(limiter.acquire(1).ok());
  std::stop_source stop;
  std::thread stopper([&] {
    std::this_thread::sleep_for(5ms);
    stop.request_stop();
  });
  EXPECT_EQ(limiter.acquire(1, kNoDeadline, stop.get_token()).error().code, ErrorCode::kCancelled);
  stopper.join();
}

TEST(RateLimiter, ZeroMeansNoLimit) {
  RateLimiter limiter(0, 0);
  EXPECT_EQ(limiter.reserve(1e12), 0ns);
}

}  // namespace
}  // namespace penstock
