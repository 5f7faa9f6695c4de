#include "data/index_memory.h"

#include <latch>
#include <thread>

#include "data/column_index.h"
#include "data/test_support.h"

namespace penstock::data {
namespace {

IndexMemory::Ref numbered_index(uint32_t number) {
  IndexBuilder builder;
  EXPECT_THAT(builder.add(std::to_string(number), "x", 0, number), IsOk());
  return *ColumnIndex::parse(builder.finish(), 1'000'000);
}

TEST(IndexMemory, ThoseNotUsedForLongestGo) {
  const uint64_t one = numbered_index(1)->memory_bytes();
  IndexMemory memory(10, 3 * one);
  for (uint32_t i = 0; i < 3; ++i) memory.add(i, numbered_index(i), false);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_NE(memory.find(i), nullptr);
  memory.add(3, numbered_index(3), false);  // Takes 0 away, and has looked at the others.
  EXPECT_EQ(memory.find(0), nullptr);
  EXPECT_NE(memory.find(2), nullptr);
  memory.add(4, numbered_index(4), false);
  EXPECT_EQ(memory.find(1), nullptr);
  EXPECT_NE(memory.find(2), nullptr);
  EXPECT_LE(memory.bytes(), 3 * one);
}

TEST(IndexMemory, WhatCannotBeLoadedAgainStays) {
  IndexMemory memory(10, 1);
  memory.add(0, numbered_index(0), true);
  for (uint32_t i = 1; i < 10; ++i) memory.add(i, numbered_index(i), false);
  EXPECT_NE(memory.find(0), nullptr);
  EXPECT_NE(memory.find(9), nullptr);  // The last is always there.
  EXPECT_EQ(memory.find(8), nullptr);
}

TEST(IndexMemory, TheFirstToAddWins) {
  IndexMemory memory(1, kMiB);
  const IndexMemory::Ref first = numbered_index(0);
  EXPECT_EQ(memory.add(0, first, false), first);
  EXPECT_EQ(memory.add(0, numbered_index(0), false), first);
}

TEST(IndexMemory, ManyThreadsFindTheRightOnes) {
  IndexMemory memory(8, 3 * numbered_index(1)->memory_bytes());
  std::latch begin(4);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      begin.arrive_and_wait();
      for (int i = 0; i < 50'000; ++i) {
        const auto shard = static_cast<uint32_t>(random() % 8);
        IndexMemory::Ref index = memory.find(shard);
        if (!index) index = memory.add(shard, numbered_index(shard), false);
        ASSERT_EQ(index->members(0)[0].size, shard);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace penstock::data
