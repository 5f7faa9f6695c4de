#include "cache/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace penstock::cache {

namespace {

TEST(Workers, RunsWhatIsQueuedBeforeStopping) {
  std::atomic<int> ran = 0;
  Workers workers(3, 100);
  for (int i = 0; i < 50; ++i) {
    Workers::Task task = [&] { ++ran; };
    EXPECT_TRUE(i % 2 == 0 ? workers.try_post(task) : workers.try_post_long(task));
  }
  workers.stop();
  EXPECT_EQ(ran, 50);
  Workers::Task late = [&] { ++ran; };
  EXPECT_FALSE(workers.try_post(late));
  EXPECT_FALSE(workers.try_post_long(late));
  EXPECT_TRUE(late);  // Left as it was.
  workers.post(late);
  EXPECT_EQ(ran, 51);
}

TEST(Workers, QueuesAreLimitedSaveForThoseThatMust) {
  std::promise<void> gate;
  std::shared_future<void> open = gate.get_future().share();
  std::atomic<int> ran = 0;
  Workers workers(1, 2);
  std::promise<void> begun;
  workers.post([&] {
    begun.set_value();
    open.wait();
  });
  begun.get_future().wait();
  for (int i = 0; i < 4; ++i) {
    Workers::Task task = [&] { ++ran; };
    EXPECT_EQ(workers.try_post(task), i < 2);
  }
  for (int i = 0; i < 4; ++i) workers.post([&] { ++ran; });
  gate.set_value();
  workers.stop();
  EXPECT_EQ(ran, 6);
}

TEST(Workers, LongTasksLeaveThreadsForTheOthers) {
  std::promise<void> gate;
  std::shared_future<void> open = gate.get_future().share();
  Workers workers(4, 100);
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  for (int i = 0; i < 20; ++i) {
    Workers::Task task = [&] {
      const int now = ++running;
      for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
      }
      open.wait();
      --running;
    };
    ASSERT_TRUE(workers.try_post_long(task));
  }
  // Each waits for the one before it, so that all go through the threads that are left.
  for (int i = 0; i < 10; ++i) {
    std::promise<void> ran;
    Workers::Task task = [&] { ran.set_value(); };
    ASSERT_TRUE(workers.try_post(task));
    ran.get_future().wait();
  }
  EXPECT_LE(most, 2);
  gate.set_value();
  workers.stop();
}

TEST(Workers, LongTasksAreNotStarved) {
  std::atomic<bool> ran = false;
  Workers workers(2, 10);
  std::function<void()> again = [&] {
    if (!ran) workers.post(again);
  };
  for (int i = 0; i < 4; ++i) workers.post(again);  // The queue is never empty.
  Workers::Task task = [&] { ran = true; };
  ASSERT_TRUE(workers.try_post_long(task));
  while (!ran) std::this_thread::yield();
  workers.stop();
}

struct TellsWhere {
  explicit TellsWhere(std::promise<std::thread::id>& where) : where_(where) {}
  ~TellsWhere() { where_.set_value(std::this_thread::get_id()); }
  std::promise<std::thread::id>& where_;
};

TEST(Workers, SharedThingsAreDestroyedOnAWorker) {
  const auto workers = std::make_shared<Workers>(2, 10);
  std::promise<std::thread::id> where;
  Workers::share(workers, std::make_unique<TellsWhere>(where)).reset();
  EXPECT_NE(where.get_future().get(), std::this_thread::get_id());
  std::promise<std::thread::id> after;
  std::shared_ptr<TellsWhere> kept = Workers::share(workers, std::make_unique<TellsWhere>(after));
  workers->stop();
  kept.reset();
  EXPECT_EQ(after.get_future().get(), std::this_thread::get_id());
}

}  // namespace

}  // namespace penstock::cache
