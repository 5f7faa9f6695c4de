#include "cache/memory_windows.h"

#include <gtest/gtest.h>

#include "cache/test_store.h"

namespace penstock::cache {
namespace {

WindowBytes window_of(size_t bytes) {
  const auto held = std::make_shared<Bytes>(bytes);
  return {.holder = held, .data = *held};
}

EntryId window_id(uint64_t number) {
  return {number * 7, number};
}

TEST(MemoryWindows, IsLoadedOnceForAllWhoWait) {
  MemoryWindows windows(1000);
  int answered = 0;
  const auto waiter = [&](const Result<WindowBytes>& got) { answered += got.ok() ? 1 : 100; };
  EXPECT_EQ(windows.join(window_id(1), waiter, nullptr), MemoryWindows::Joined::kStarted);
  EXPECT_EQ(windows.join(window_id(1), waiter, nullptr), MemoryWindows::Joined::kWaiting);
  WindowBytes ready;
  bool is_ready = true;
  EXPECT_TRUE(windows.join_existing(window_id(1), waiter, &ready, &is_ready));
  EXPECT_FALSE(is_ready);
  windows.finish(window_id(1), window_of(10));
  EXPECT_EQ(answered, 3);
  EXPECT_EQ(windows.join(window_id(1), waiter, &ready), MemoryWindows::Joined::kReady);
  EXPECT_EQ(ready.data.size(), 10U);
  EXPECT_EQ(answered, 3);
}

TEST(MemoryWindows, AFailedLoadIsToldToAllAndTriedAnew) {
  MemoryWindows windows(1000);
  int failed = 0;
  const auto waiter = [&](const Result<WindowBytes>& got) { failed += got.ok() ? 0 : 1; };
  (void)windows.join(window_id(1), waiter, nullptr);
  (void)windows.join(window_id(1), waiter, nullptr);
  windows.finish(window_id(1), make_error(ErrorCode::kIo, "no"));
  EXPECT_EQ(failed, 2);
  EXPECT_EQ(windows.join(window_id(1), waiter, nullptr), MemoryWindows::Joined::kStarted);
}

TEST(MemoryWindows, KeepsTheLastUsedWithinItsBytes) {
  MemoryWindows windows(30);
  const auto add = [&](uint64_t number) {
    EXPECT_EQ(windows.join(window_id(number), {}, nullptr), MemoryWindows::Joined::kStarted);
    windows.finish(window_id(number), window_of(10));
  };
  for (uint64_t number : {1, 2, 3}) add(number);
  WindowBytes ready;
  EXPECT_EQ(windows.join(window_id(1), {}, &ready), MemoryWindows::Joined::kReady);
  add(4);  // 2 was unused for longest.
  EXPECT_TRUE(windows.contains(window_id(1)));
  EXPECT_FALSE(windows.contains(window_id(2)));
  EXPECT_TRUE(windows.forget_oldest());
  EXPECT_FALSE(windows.contains(window_id(3)));
  EXPECT_TRUE(windows.forget_oldest());
  EXPECT_TRUE(windows.forget_oldest());
  EXPECT_FALSE(windows.forget_oldest());
}

TEST(MemoryWindows, WhatIsForgottenWhileItIsLoadedIsNotKept) {
  MemoryWindows windows(1000);
  int answered = 0;
  (void)windows.join(
      window_id(1), [&](const Result<WindowBytes>&) { ++answered; }, nullptr);
  windows.forget(window_id(1));
  windows.finish(window_id(1), window_of(10));
  EXPECT_EQ(answered, 1);
  EXPECT_FALSE(windows.contains(window_id(1)));
}

TEST(MemoryWindows, ForgettingFreesTheMemoryOnceNobodyReadsIt) {
  MemoryWindows windows(1000);
  std::weak_ptr<const void> memory;
  {
    WindowBytes bytes = window_of(10);
    memory = bytes.holder;
    (void)windows.join(window_id(1), {}, nullptr);
    windows.finish(window_id(1), std::move(bytes));
  }
  WindowBytes reader;
  EXPECT_EQ(windows.join(window_id(1), {}, &reader), MemoryWindows::Joined::kReady);
  windows.forget(window_id(1));
  EXPECT_FALSE(memory.expired());
  reader = {};
  EXPECT_TRUE(memory.expired());
}

}  // namespace
}  // namespace penstock::cache
