// Hit rates outlive the processes that had them.
#include "cache/keeper_test_bed.h"
#include "cache/state_file.h"
#include "cache/test_store.h"
#include "penstock/cache.h"

namespace penstock::cache {
namespace {

constexpr const char* kCacheRoot = "/nvme/cache";

class HitTotalsTest : public ::testing::Test {
 protected:
  std::unique_ptr<TestMember> open(bool may_evict = true) {
    KeeperOptions options;
    options.quota = bytes_of(kGiB);
    options.free_floor = bytes_of(0);
    options.may_evict = may_evict;
    options.tick = std::chrono::milliseconds(5);
    return std::make_unique<TestMember>(fs_, kCacheRoot, options);
  }
  Totals totals() {
    const Result<State> state = read_state(fs_, std::string(kCacheRoot) + "/state");
    EXPECT_THAT(state, IsOk());
    return state.ok() ? state->totals : Totals();
  }

  // One process that reads an object of four windows from front to back.
  void read_all(size_t step) {
    CacheOptions options;
    options.directories = {kCacheRoot};
    options.quota = {.bytes = kGiB};
    options.free_floor = {.bytes = 0};
    options.window_bytes = kWindow;
    options.memory_bytes = 64 * kWindow;
    options.file_system = &fs_;
    const Result<std::shared_ptr<Cache>> cache = Cache::open(options);
    ASSERT_THAT(cache, IsOk());
    const auto store = make_cached_store(std::make_unique<SharedSource>(*source_), *cache);
    const Result<store::ObjectInfo> info = source_->head("x");
    ASSERT_THAT(info, IsOk());
    std::vector<std::byte> into(step);
    for (uint64_t offset = 0; offset < info->size; offset += step) {
      store::GetOptions get;
      get.if_match = info->etag;
      get.size = info->size;
      ASSERT_THAT(store->get("x", offset, into, get), IsOk());
    }
    (*cache)->drain();
  }

  io::MemoryFileSystem fs_;
  const std::unique_ptr<store::ObjectStore> source_ = store::make_memory_store();
};

TEST_F(HitTotalsTest, AreKeptFromOneProcessToTheNext) {
  open()->keeper->count_read(70, 30);
  const Totals first = totals();
  EXPECT_EQ(first.hit_bytes, 70u);
  EXPECT_EQ(first.miss_bytes, 30u);
  EXPECT_GT(first.since_s, 1'600'000'000);
  open()->keeper->count_read(10, 0);
  EXPECT_EQ(totals(), (Totals{80, 30, first.since_s}));
}

TEST_F(HitTotalsTest, OfAllMembersAreSummed) {
  auto evictor = open();
  evictor->settle();
  evictor->keeper->count_read(1, 0);
  {
    const auto other = open();
    other->settle();
    other->keeper->count_read(5, 7);
    other->settle();
    other->keeper->count_read(5, 7);
  }
  evictor->settle();
  evictor.reset();
  EXPECT_EQ(totals().hit_bytes, 11u);
  EXPECT_EQ(totals().miss_bytes, 14u);
}

TEST_F(HitTotalsTest, BeginAnewWhenAllWasRemoved) {
  open()->keeper->count_read(70, 30);
  {
    const auto tool = open(/*may_evict=*/false);
    tool->keeper->count_anew();
  }
  auto next = open();
  next->settle();  // It has read what the tool left it.
  next->keeper->count_read(0, 2);
  next.reset();
  EXPECT_EQ(totals().hit_bytes, 0u);
  EXPECT_EQ(totals().miss_bytes, 2u);
}

TEST_F(HitTotalsTest, WhatAToolSaysJustBeforeItLeavesCounts) {
  open()->keeper->count_read(70, 30);
  {
    const auto tool = open(/*may_evict=*/false);
    tool->settle();  // It ticked, and had nothing to say.
    tool->keeper->count_anew();
  }
  open().reset();
  EXPECT_EQ(totals().hit_bytes, 0u);
  EXPECT_EQ(totals().miss_bytes, 0u);
}

TEST_F(HitTotalsTest, ASecondPassHits) {
  ASSERT_THAT(source_->put("x", random_bytes(4 * kWindow, 1)), IsOk());
  // Small reads are answered from windows in memory; what was fetched for them is a miss all the same.
  for (const size_t step : {size_t{16 * 1024}, size_t{4 * kWindow}}) {
    ASSERT_THAT(io::remove_tree(fs_, kCacheRoot), IsOk());
    read_all(step);
    EXPECT_EQ(totals().hit_bytes, 0u) << step;
    EXPECT_EQ(totals().miss_bytes, 4 * kWindow) << step;
    read_all(step);
    EXPECT_EQ(totals().hit_bytes, 4 * kWindow) << step;
    EXPECT_EQ(totals().miss_bytes, 4 * kWindow) << step;
  }
}

}  // namespace
}  // namespace penstock::cache
