#include <gtest/gtest.h>

#include <stop_token>
#include <thread>

#include "cache/test_store.h"
#include "io/memory_file_system.h"
#include "penstock/cache.h"
#include "store/faulty_store.h"

namespace penstock::cache {
namespace {

constexpr uint64_t kWindow = 256 * kKiB;

// Gets never end by themselves: only when they are cancelled.
class HangingStore final : public store::ObjectStore {
 public:
  explicit HangingStore(store::ObjectStore& inner) : inner_(inner) {}
  ~HangingStore() override {
    for (std::thread& thread : threads_) thread.join();
  }

  void async_get(std::string, uint64_t, std::span<std::byte>, store::GetOptions options,
                 store::Done<store::GetResult> done) override {
    std::lock_guard lock(mutex_);
    ++gets;
    threads_.emplace_back([cancel = options.cancel, done = std::move(done)] {
      while (cancel.stop_possible() && !cancel.stop_requested())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      done(make_error(ErrorCode::kCancelled, "cancelled"));
    });
  }
  void async_put(std::string key, std::span<const std::byte> bytes, store::PutOptions options,
                 store::Done<store::ObjectInfo> done) override {
    inner_.async_put(std::move(key), bytes, std::move(options), std::move(done));
  }
  void async_head(std::string key, store::CallOptions options,
                  store::Done<store::ObjectInfo> done) override {
    inner_.async_head(std::move(key), std::move(options), std::move(done));
  }
  void async_list(store::ListOptions options, store::Done<store::ListPage> done) override {
    inner_.async_list(std::move(options), std::move(done));
  }
  void async_remove(std::vector<std::string> keys, store::CallOptions options,
                    store::Done<std::vector<store::RemoveFailure>> done) override {
    inner_.async_remove(std::move(keys), std::move(options), std::move(done));
  }
  void async_copy(std::string from, std::string to, store::CallOptions options,
                  store::Done<store::ObjectInfo> done) override {
    inner_.async_copy(std::move(from), std::move(to), std::move(options), std::move(done));
  }
  void async_flush(store::CallOptions options, store::Done<void> done) override {
    inner_.async_flush(std::move(options), std::move(done));
  }
  Result<std::unique_ptr<store::Upload>> start_upload(std::string key,
                                                      store::PutOptions options) override {
    return inner_.start_upload(std::move(key), std::move(options));
  }
  store::Capabilities capabilities() const override { return inner_.capabilities(); }
  std::string description() const override { return inner_.description(); }
  std::string identity() const override { return inner_.identity(); }

  std::atomic<int> gets = 0;

 private:
  store::ObjectStore& inner_;
  std::mutex mutex_;
  std::vector<std::thread> threads_;
};

class StagerTest : public testing::Test {
 protected:
  StagerTest() {
    EXPECT_TRUE(fs_.make_directory("/drive").ok());
    CacheOptions options;
    options.directories = {"/drive/cache"};
    options.quota = {.bytes = 64 * kMiB};
    options.free_floor = {.bytes = 0};
    options.window_bytes = kWindow;
    options.memory_bytes = 16 * kMiB;
    options.file_system = &fs_;
    cache_ = *Cache::open(options);
  }
  Range put(const std::string& key, uint64_t size) {
    const Bytes bytes = random_bytes(size, size);
    const store::ObjectInfo info = *memory_->put(key, bytes);
    return {info.key, info.etag, info.size, 0, info.size};
  }
  static void wait_until_settled(const Stager& stager) {
    while (stager.progress().pending_bytes > 0) std::this_thread::yield();
  }

  io::MemoryFileSystem fs_;
  std::shared_ptr<Cache> cache_;
  std::unique_ptr<store::ObjectStore> memory_ = store::make_memory_store();
};

TEST_F(StagerTest, SaysWhatItFetchedAndWhatItCouldNot) {
  store::FaultyStoreOptions faults;
  faults.kinds = {store::CallKind::kGet};
  faults.error_rate = 0.3;
  const auto store = make_cached_store(
      std::make_unique<store::FaultyStore>(std::make_unique<SharedSource>(*memory_), faults),
      cache_);
  const Range range = put("a", 64 * kWindow);
  const auto stager = store->make_stager({});
  stager->expect({range});
  EXPECT_EQ(stager->progress().expected_bytes, 64 * kWindow);
  wait_until_settled(*stager);
  const Stager::Progress first = stager->progress();
  EXPECT_GT(first.failed_bytes, 0U);
  EXPECT_GT(first.fetched_bytes, 0U);
  EXPECT_EQ(first.staged_bytes + first.failed_bytes, 64 * kWindow);
  EXPECT_EQ(first.fetched_bytes, first.staged_bytes);

  // What is there is found, not fetched.
  cache_->drain();
  const auto plain = make_cached_store(std::make_unique<SharedSource>(*memory_), cache_);
  const auto again = plain->make_stager({});
  again->expect({range});
  wait_until_settled(*again);
  EXPECT_EQ(again->progress().staged_bytes, 64 * kWindow);
  EXPECT_EQ(again->progress().fetched_bytes, first.failed_bytes);
  again->finished(range, true);
  EXPECT_EQ(again->progress().finished_bytes, 64 * kWindow);
}

TEST_F(StagerTest, GivesUpWhatItFetchesWhenItEnds) {
  const Range range = put("a", 64 * kWindow);
  auto hanging = std::make_unique<HangingStore>(*memory_);
  HangingStore& source = *hanging;
  auto store = make_cached_store(std::move(hanging), cache_);
  auto stager = store->make_stager({.parallel = 4});
  stager->expect({range});
  while (source.gets < 4) std::this_thread::yield();
  EXPECT_EQ(stager->progress().pending_bytes, 64 * kWindow);
  const auto begin = std::chrono::steady_clock::now();
  stager.reset();
  store.reset();  // Waits for its calls.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST_F(StagerTest, WhatWasReadBeforeItsTurnIsPendingNoMore) {
  auto hanging = std::make_unique<HangingStore>(*memory_);
  const auto store = make_cached_store(std::move(hanging), cache_);
  const Range range = put("a", 8 * kWindow);
  const auto stager = store->make_stager({.parallel = 2});
  stager->expect({range});
  stager->finished(range, true);
  EXPECT_EQ(stager->progress().pending_bytes, 0U);
  EXPECT_EQ(stager->progress().finished_bytes, 8 * kWindow);
}

}  // namespace
}  // namespace penstock::cache
