#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>
#include <map>
#include <thread>

#include "cache/cached_store.h"
#include "cache/directory.h"
#include "cache/test_store.h"
#include "cache/testing.h"
#include "io/memory_file_system.h"
#include "penstock/cache.h"

namespace penstock::cache {
namespace {

class CachedStoreTest : public ::testing::Test {
 protected:
  CachedStoreTest() {
    auto counting = std::make_unique<store::CountingStore>(store::make_memory_store());
    counted_ = counting.get();
    source_ = std::make_unique<HookedStore>(std::move(counting));
    open();
  }
  ~CachedStoreTest() override {
    store_.reset();
    cache_.reset();
  }

  CacheOptions options() const {
    CacheOptions options;
    options.directories = {"/drive0/cache", "/drive1/cache"};
    options.quota = {.bytes = quota_};
    options.free_floor = {.bytes = 0};
    options.window_bytes = kWindow;
    options.memory_bytes = memory_;
    options.trust_versions = trust_;
    options.file_system = &fs_;
    return options;
  }

  // A new cache and store over the same drives and source: what a new process would see.
  void open() {
    store_.reset();
    cache_.reset();
    for (const char* drive : {"/drive0", "/drive1"}) (void)fs_.make_directory(drive);
    Result<std::shared_ptr<Cache>> cache = Cache::open(options());
    ASSERT_TRUE(cache.ok()) << cache.error().to_string();
    cache_ = *cache;
    store_ = make_cached_store(std::make_unique<SharedSource>(*source_), cache_);
  }

  store::ObjectInfo put(const std::string& key, size_t size, uint64_t seed) {
    objects_[key] = random_bytes(size, seed);
    const Result<store::ObjectInfo> info = source_->put(key, objects_[key]);
    EXPECT_TRUE(info.ok());
    return *info;
  }

  // All of the bytes are right, or the test fails.
  void expect_read(const store::ObjectInfo& info, uint64_t offset, size_t length,
                   bool by_version = true) {
    Bytes into(length);
    store::GetOptions get;
    if (by_version) {
      get.if_match = info.etag;
      get.size = info.size;
    }
    const Result<store::GetResult> got = store_->get(info.key, offset, into, get);
    ASSERT_TRUE(got.ok()) << got.error().to_string();
    const Bytes& all = objects_[info.key];
    const size_t expected = offset >= all.size() ? 0 : std::min(length, all.size() - offset);
    ASSERT_EQ(got->bytes, expected);
    EXPECT_EQ(got->info.etag, info.etag);
    EXPECT_EQ(got->info.size, all.size());
    ASSERT_TRUE(std::equal(into.begin(), into.begin() + static_cast<ptrdiff_t>(expected),
                           all.begin() + static_cast<ptrdiff_t>(std::min(offset, all.size()))))
        << info.key << " at " << offset << " + " << length;
  }

  uint64_t calls(store::CallKind kind) const { return counted_->counts(kind).calls; }
  uint64_t source_bytes() const { return counted_->counts(store::CallKind::kGet).bytes; }

  // Flips a byte at `offset` of every entry's file.
  size_t damage_entries(uint64_t offset) {
    size_t damaged = 0;
    for (const char* drive : {"/drive0/cache", "/drive1/cache"}) {
      auto directory = CacheDirectory::open(fs_, drive, io::CacheMode::kBuffered);
      EXPECT_TRUE(directory.ok());
      std::vector<std::string> paths;
      EXPECT_TRUE((*directory)
                      ->scan([&](const EntryName& name) {
                        paths.push_back((*directory)->path_of(name));
                        return true;
                      })
                      .ok());
      for (const std::string& path : paths) {
        auto file = fs_.open(path, {.access = io::Access::kReadWrite});
        EXPECT_TRUE(file.ok());
        std::array<std::byte, 1> byte;
        EXPECT_TRUE((*file)->read(offset, byte).ok());
        byte[0] ^= std::byte{0x10};
        EXPECT_TRUE((*file)->write(offset, byte).ok());
        ++damaged;
      }
    }
    return damaged;
  }

  mutable io::MemoryFileSystem fs_;
  uint64_t quota_ = 256 * kMiB;
  uint64_t memory_ = 16 * kMiB;
  Nanoseconds trust_{0};
  store::CountingStore* counted_ = nullptr;
  std::unique_ptr<HookedStore> source_;
  std::shared_ptr<Cache> cache_;
  std::unique_ptr<CachedStore> store_;
  std::map<std::string, Bytes> objects_;
};

TEST_F(CachedStoreTest, EveryRangeIsRightColdAndWarm) {
  const std::vector<size_t> sizes = {0,           1,
                                     4095,        4096,
                                     kWindow - 1, kWindow,
                                     kWindow + 1, 2 * kWindow + 77,
                                     5 * kWindow, 9 * kWindow + 4097};
  std::vector<store::ObjectInfo> infos;
  for (size_t i = 0; i < sizes.size(); ++i) {
    infos.push_back(put("object-" + std::to_string(i), sizes[i], i + 1));
  }
  std::mt19937_64 random(7);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 150; ++i) {
      const store::ObjectInfo& info = infos[random() % infos.size()];
      const uint64_t offset = random() % (info.size + 100);
      const size_t length = 1 + random() % (3 * kWindow);
      expect_read(info, offset, length, random() % 4 != 0);
    }
    if (round == 1) open();  // From the drives alone.
  }
  const CacheStats stats = cache_->stats();
  EXPECT_GT(stats.hits, 0U);
  EXPECT_EQ(stats.verification_failures, 0U);
}

// Names come slowly from it.
class SlowNames final : public io::MemoryFileSystem {
 public:
  Result<void> list(const std::string& path,
                    const std::function<bool(const io::DirectoryEntry&)>& visit) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return io::MemoryFileSystem::list(path, visit);
  }
};

TEST_F(CachedStoreTest, TheFirstThatIsReadAfterOpeningIsKept) {
  SlowNames slow;
  CacheOptions slow_options = options();
  slow_options.file_system = &slow;
  slow_options.directories = {"/cache"};
  const store::ObjectInfo info = put("object", 3 * kWindow, 1);
  const Result<std::shared_ptr<Cache>> cache = Cache::open(slow_options);
  ASSERT_TRUE(cache.ok()) << cache.error().to_string();
  Bytes into(info.size);
  ASSERT_TRUE(make_cached_store(std::make_unique<SharedSource>(*source_), *cache)
                  ->get(info.key, 0, into)
                  .ok());
  (*cache)->drain();
  EXPECT_EQ((*cache)->stats().fills, 3U);
}

TEST_F(CachedStoreTest, WhatWasReadIsNotAskedForAgainEvenByTheNextProcess) {
  const store::ObjectInfo info = put("a", 7 * kWindow + 5, 1);
  expect_read(info, 0, info.size);
  cache_->drain();
  open();
  const uint64_t gets = calls(store::CallKind::kGet);
  const uint64_t heads = calls(store::CallKind::kHead);
  expect_read(info, 0, info.size);
  expect_read(info, kWindow - 3, 10);
  EXPECT_EQ(calls(store::CallKind::kGet), gets);
  EXPECT_EQ(calls(store::CallKind::kHead), heads);
  EXPECT_GE(cache_->stats().hits, 8U);
  EXPECT_EQ(cache_->stats().misses, 0U);
}

TEST_F(CachedStoreTest, WithoutAVersionTheSourceIsAskedEveryTime) {
  store::ObjectInfo info = put("a", kWindow, 1);
  expect_read(info, 0, kWindow, false);
  EXPECT_EQ(calls(store::CallKind::kHead), 1U);
  expect_read(info, 0, kWindow, false);
  EXPECT_EQ(calls(store::CallKind::kHead), 2U);
  info = put("a", kWindow, 2);  // Behind the cache's back.
  expect_read(info, 0, kWindow, false);
}

TEST_F(CachedStoreTest, TrustedVersionsAreNotAskedFor) {
  trust_ = std::chrono::hours(1);
  open();
  const store::ObjectInfo info = put("a", kWindow, 1);
  for (int i = 0; i < 5; ++i) expect_read(info, 0, kWindow, false);
  EXPECT_EQ(calls(store::CallKind::kHead), 1U);
}

TEST_F(CachedStoreTest, AReadThatNamesNoVersionStartsAgainWhenTheObjectChanges) {
  put("a", 20 * kWindow, 1);
  const Bytes before = objects_["a"];
  source_->set_hook([&](uint64_t number) {
    if (number == 5) put("a", 20 * kWindow, 2);
  });
  Bytes into(20 * kWindow);
  const Result<store::GetResult> got = store_->get("a", 0, into);
  ASSERT_TRUE(got.ok()) << got.error().to_string();
  EXPECT_TRUE(into == objects_["a"]);
  EXPECT_FALSE(into == before);
}

TEST_F(CachedStoreTest, AReadThatNamesAVersionFailsWhenTheObjectChanges) {
  const store::ObjectInfo info = put("a", 20 * kWindow, 1);
  source_->set_hook([&](uint64_t number) {
    if (number == 5) put("a", 20 * kWindow, 2);
  });
  Bytes into(20 * kWindow);
  const Result<store::GetResult> got = store_->get("a", 0, into, {{}, info.etag, info.size, false});
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, ErrorCode::kChanged);
}

TEST_F(CachedStoreTest, AnObjectThatChangesAllTheTimeIsAnErrorNotAHang) {
  put("a", 20 * kWindow, 1);
  source_->set_hook([&](uint64_t number) {
    if (number % 5 == 0) put("a", 20 * kWindow, number);
  });
  Bytes into(20 * kWindow);
  const Result<store::GetResult> got = store_->get("a", 0, into);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, ErrorCode::kChanged);
}

TEST_F(CachedStoreTest, OldVersionsNamedAfterAPutThroughTheCacheAreRefused) {
  const Bytes one = random_bytes(kWindow, 1);
  const Result<store::ObjectInfo> first = store_->put("a", one);
  ASSERT_TRUE(first.ok());
  Bytes into(kWindow);
  ASSERT_TRUE(store_->get("a", 0, into, {{}, first->etag, first->size, false}).ok());
  cache_->drain();
  ASSERT_TRUE(store_->put("a", random_bytes(kWindow, 2)).ok());
  const auto got = store_->get("a", 0, into, {{}, first->etag, first->size, false});
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, ErrorCode::kChanged);
}

TEST_F(CachedStoreTest, ConcurrentMissesCostOneFetch) {
  const store::ObjectInfo info = put("a", kWindow, 1);
  std::atomic<int> waiting{0};
  std::promise<void> go;
  source_->set_hook([&, released = go.get_future().share()](uint64_t) { released.wait(); });
  std::vector<std::thread> readers;
  for (int i = 0; i < 8; ++i) {
    readers.emplace_back([&, i] {
      ++waiting;
      expect_read(info, static_cast<uint64_t>(i) * 1000, 5000);
    });
  }
  while (waiting < 8) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // Lets them meet; right without it.
  go.set_value();
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(calls(store::CallKind::kGet), 1U);
}

TEST_F(CachedStoreTest, DamagedEntriesAreDroppedCountedAndFetchedAnew) {
  const store::ObjectInfo info = put("a", 6 * kWindow, 1);
  expect_read(info, 0, info.size);
  cache_->drain();
  EXPECT_EQ(damage_entries(20000), 6U);
  open();
  expect_read(info, 0, info.size);
  EXPECT_EQ(cache_->stats().verification_failures, 6U);
  cache_->drain();
  open();
  const uint64_t gets = calls(store::CallKind::kGet);
  expect_read(info, 0, info.size);
  EXPECT_EQ(calls(store::CallKind::kGet), gets);
}

TEST_F(CachedStoreTest, BypassReadsTheSourceAndReplacesWhatTheCacheHad) {
  const store::ObjectInfo info = put("a", 2 * kWindow, 1);
  expect_read(info, 0, info.size);
  cache_->drain();
  const uint64_t gets = calls(store::CallKind::kGet);
  Bytes into(100);
  const auto got = store_->get("a", kWindow, into, {{}, info.etag, info.size, true});
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(calls(store::CallKind::kGet), gets + 1);
  EXPECT_EQ(cache_->stats().verification_failures, 1U);
  EXPECT_TRUE(std::equal(into.begin(), into.end(),
                         objects_["a"].begin() + static_cast<ptrdiff_t>(kWindow)));
  expect_read(info, kWindow, kWindow);  // Fetched again, not the old one.
  EXPECT_EQ(calls(store::CallKind::kGet), gets + 2);
}

TEST_F(CachedStoreTest, SmallSequentialReadsCostWholeWindowsOnce) {
  const store::ObjectInfo info = put("a", 16 * kWindow, 1);
  for (uint64_t offset = 0; offset < info.size; offset += 16 * kKiB) {
    expect_read(info, offset, 16 * kKiB);
  }
  EXPECT_EQ(calls(store::CallKind::kGet), 16U);
  EXPECT_EQ(source_bytes(), info.size);
}

// Counts how often an entry is opened.
class CountedOpens final : public io::MemoryFileSystem {
 public:
  Result<std::unique_ptr<io::File>> open(const std::string& path,
                                         const io::OpenOptions& options) override {
    if (path.find("/entries/") != std::string::npos && options.access == io::Access::kRead) ++count;
    return io::MemoryFileSystem::open(path, options);
  }

  std::atomic<size_t> count = 0;
};

TEST_F(CachedStoreTest, LargeSequentialReadsFindTheirEntriesOpen) {
  CountedOpens counted;
  CacheOptions counted_options = options();
  counted_options.file_system = &counted;
  counted_options.directories = {"/cache"};
  const store::ObjectInfo info = put("a", 16 * kWindow, 1);
  const auto read = [&](CachedStore& store, uint64_t begin, size_t length) {
    Bytes into(length);
    store::GetOptions get;
    get.if_match = info.etag;
    get.size = info.size;
    ASSERT_TRUE(store.get(info.key, begin, into, get).ok());
    ASSERT_TRUE(std::equal(into.begin(), into.end(),
                           objects_["a"].begin() + static_cast<ptrdiff_t>(begin)));
  };
  for (const bool is_warm : {false, true}) {
    const Result<std::shared_ptr<Cache>> cache = Cache::open(counted_options);
    ASSERT_TRUE(cache.ok()) << cache.error().to_string();
    const auto store = make_cached_store(std::make_unique<SharedSource>(*source_), *cache);
    counted.count = 0;
    if (is_warm) {
      read(*store, 0, 2 * kWindow);
      read(*store, 2 * kWindow, 2 * kWindow);
      EXPECT_TRUE(eventually([&] { return counted.count == 6; }));  // Two ahead.
      read(*store, 4 * kWindow, 2 * kWindow);
      EXPECT_TRUE(eventually([&] { return counted.count == 8; }));
    } else {
      read(*store, 0, info.size);
    }
    (*cache)->drain();
  }
}

TEST_F(CachedStoreTest, ARandomReaderWithoutRoomPaysOnlyForWhatItReads) {
  quota_ = 2 * kMiB;  // Per drive.
  open();
  std::vector<store::ObjectInfo> infos;
  for (uint64_t i = 0; i < 20; ++i) infos.push_back(put("o" + std::to_string(i), 16 * kWindow, i));
  for (const store::ObjectInfo& info : infos) expect_read(info, 0, info.size);  // Fills it.
  cache_->drain();
  const uint64_t before = source_bytes();
  const uint64_t missed_before = cache_->stats().miss_bytes;
  std::mt19937_64 random(3);
  for (int i = 0; i < 200; ++i) {
    const store::ObjectInfo& info = infos[random() % infos.size()];
    expect_read(info, kWindow + random() % (14 * kWindow), 3000);
  }
  const uint64_t fetched = source_bytes() - before;
  const uint64_t missed = cache_->stats().miss_bytes - missed_before;
  // No more than the cache could hold. Neighbours would be 256 KiB for each of about 190.
  EXPECT_LT(fetched, missed + 2 * quota_) << "neighbours were paid for";
}

TEST_F(CachedStoreTest, RandomReadsOfAnObjectThatDoesNotFitAreKeptInSmallPieces) {
  quota_ = 4 * kMiB;
  open();
  const store::ObjectInfo info = put("big", 40 * kMiB, 1);
  const std::vector<uint64_t> places = {5 * kMiB + 100, 17 * kMiB + 65000, 33 * kMiB, 9 * kMiB + 1};
  for (const uint64_t place : places) expect_read(info, place, 3000);
  EXPECT_LE(source_bytes(), places.size() * 2 * kGranuleBytes);
  cache_->drain();
  const uint64_t gets = calls(store::CallKind::kGet);
  for (const uint64_t place : places) expect_read(info, place, 3000);
  EXPECT_EQ(calls(store::CallKind::kGet), gets) << "the pieces were not kept";
}

TEST_F(CachedStoreTest, ErrorsOfTheSourceArePassedOnAndNotKept) {
  Bytes into(10);
  const auto missing = store_->get("nothing", 0, into);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  const store::ObjectInfo info = put("nothing", 100, 1);
  expect_read(info, 0, 100, false);
}

TEST_F(CachedStoreTest, DeadlinesAndCancelHoldWhileTheSourceHangs) {
  const store::ObjectInfo info = put("a", 4 * kWindow, 1);
  std::promise<void> go;
  source_->set_hook([released = go.get_future().share()](uint64_t) { released.wait(); });
  // The first reader blocks in the source; those that join it must not.
  std::thread first([&] { expect_read(info, 0, 4 * kWindow); });
  while (cache_->stats().misses + calls(store::CallKind::kGet) == 0 &&
         !static_cast<CachedStoreImpl&>(*store_).core().windows().contains(
             entry_id(version_id({source_->identity() + "a", info.etag, info.size}), 0, kWindow))) {
    std::this_thread::yield();
  }
  Bytes into(100, std::byte{0x55});
  store::GetOptions late{
      {.deadline = deadline_in(std::chrono::milliseconds(30))}, info.etag, info.size, false};
  const auto timed_out = store_->get("a", 0, into, late);
  ASSERT_FALSE(timed_out.ok());
  EXPECT_EQ(timed_out.error().code, ErrorCode::kTimeout);

  std::stop_source stop;
  store::GetOptions cancelled{{.cancel = stop.get_token()}, info.etag, info.size, false};
  std::promise<Result<store::GetResult>> answer;
  store_->async_get("a", 0, into, cancelled,
                    [&](Result<store::GetResult> got) { answer.set_value(std::move(got)); });
  stop.request_stop();
  EXPECT_EQ(answer.get_future().get().error().code, ErrorCode::kCancelled);

  go.set_value();
  first.join();
  cache_->drain();
  EXPECT_EQ(into, Bytes(100, std::byte{0x55})) << "memory was written to after the answer";
}

TEST_F(CachedStoreTest, TheAnswerNeverComesFromInsideTheCall) {
  const store::ObjectInfo info = put("a", kWindow, 1);
  expect_read(info, 0, 100);  // Now in memory.
  Bytes into(100);
  std::atomic<bool> inside{true};
  std::promise<bool> answered_inside;
  store_->async_get("a", 0, into, {{}, info.etag, info.size, false},
                    [&, caller = std::this_thread::get_id()](Result<store::GetResult>) {
                      answered_inside.set_value(inside && caller == std::this_thread::get_id());
                    });
  inside = false;
  EXPECT_FALSE(answered_inside.get_future().get());
}

TEST_F(CachedStoreTest, ALoopOverTwiceTheCacheHitsNearlyHalf) {
  quota_ = 8 * kMiB;  // Two drives: 16 MiB.
  open();
  std::vector<store::ObjectInfo> infos;
  for (uint64_t i = 0; i < 32; ++i) infos.push_back(put("o" + std::to_string(i), kMiB, i));
  CacheStats before;
  for (int epoch = 0; epoch < 6; ++epoch) {
    if (epoch == 2) before = cache_->stats();
    for (const store::ObjectInfo& info : infos) expect_read(info, 0, info.size);
    cache_->drain();
  }
  const CacheStats after = cache_->stats();
  const double hits = static_cast<double>(after.hit_bytes + after.memory_hit_bytes -
                                          before.hit_bytes - before.memory_hit_bytes);
  const double all = hits + static_cast<double>(after.miss_bytes - before.miss_bytes);
  EXPECT_GE(hits / all, 0.42) << "of " << all;
  EXPECT_LE(after.used_bytes, 16 * kMiB);
}

TEST_F(CachedStoreTest, AStagerBringsWhatWillBeReadAheadOfItsReader) {
  std::vector<Range> ranges;
  std::vector<store::ObjectInfo> infos;
  for (uint64_t i = 0; i < 8; ++i) {
    infos.push_back(put("o" + std::to_string(i), 2 * kWindow, i));
    const store::ObjectInfo& info = infos.back();
    ranges.push_back({info.key, info.etag, info.size, 0, info.size});
  }
  const std::unique_ptr<Stager> stager = store_->make_stager({.ahead_bytes = 8 * kWindow});
  stager->expect(ranges);
  while (stager->progress().staged_bytes < 8 * kWindow) std::this_thread::yield();
  EXPECT_EQ(stager->progress().expected_bytes, 16 * kWindow);
  const uint64_t gets = calls(store::CallKind::kGet);
  EXPECT_EQ(gets, 8U) << "more was staged than may lie ahead";
  for (size_t i = 0; i < 4; ++i) expect_read(infos[i], 0, infos[i].size);
  EXPECT_EQ(calls(store::CallKind::kGet), gets);
  for (size_t i = 0; i < 4; ++i) stager->finished(ranges[i], true);
  while (stager->progress().staged_bytes < 16 * kWindow) std::this_thread::yield();
  EXPECT_EQ(stager->progress().finished_bytes, 8 * kWindow);
  EXPECT_EQ(stager->progress().failed_bytes, 0U);
}

TEST_F(CachedStoreTest, StagingSaysWhatItFetched) {
  const store::ObjectInfo info = put("a", 5 * kWindow + 1, 1);
  const auto stage = [&](bool verify) {
    std::promise<Result<uint64_t>> answer;
    store_->async_stage({info.key, info.etag, info.size, 0, info.size}, verify, {},
                        [&](Result<uint64_t> fetched) { answer.set_value(fetched); });
    return answer.get_future().get();
  };
  Result<uint64_t> fetched = stage(false);
  ASSERT_TRUE(fetched.ok()) << fetched.error().to_string();
  EXPECT_EQ(*fetched, info.size);
  fetched = stage(false);
  ASSERT_TRUE(fetched.ok()) << fetched.error().to_string();
  EXPECT_EQ(*fetched, 0U);
  // Damage in the middle is seen only by who looks at all of it.
  damage_entries(200000);
  open();
  fetched = stage(false);
  ASSERT_TRUE(fetched.ok()) << fetched.error().to_string();
  EXPECT_EQ(*fetched, 0U);
  fetched = stage(true);
  ASSERT_TRUE(fetched.ok()) << fetched.error().to_string();
  EXPECT_EQ(*fetched, 5 * kWindow);
}

}  // namespace
}  // namespace penstock::cache
