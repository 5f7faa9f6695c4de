#include "cache/warm.h"

#include <atomic>
#include <latch>

#include "cache/test_store.h"
#include "cache/testing.h"
#include "io/memory_file_system.h"
#include "store/selection.h"

namespace penstock::cache {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class WarmTest : public ::testing::Test {
 protected:
  WarmTest() {
    auto counting = std::make_unique<store::CountingStore>(store::make_memory_store());
    counted_ = counting.get();
    source_ = std::make_unique<HookedStore>(std::move(counting));
    options_.window_bytes = kWindow;
    options_.patience = 300ms;
  }

  void open(uint64_t quota = kGiB) {
    store_.reset();
    cache_.reset();
    CacheOptions options;
    options.directories = {"/drive0/cache", "/drive1/cache"};
    options.quota = {.bytes = quota};
    options.free_floor = {.bytes = 0};
    options.window_bytes = kWindow;
    options.memory_bytes = 256 * kWindow;
    options.file_system = &fs_;
    for (const char* drive : {"/drive0", "/drive1"}) (void)fs_.make_directory(drive);
    Result<std::shared_ptr<Cache>> cache = Cache::open(options);
    ASSERT_THAT(cache, IsOk());
    cache_ = *cache;
    store_ = make_cached_store(std::make_unique<SharedSource>(*source_), cache_);
  }

  void put(const std::string& key, size_t size) {
    const Result<store::ObjectInfo> info = source_->put(key, random_bytes(size, size));
    ASSERT_THAT(info, IsOk());
    objects_.push_back(*info);
  }

  // All objects that were put.
  Result<WarmReport> run() {
    return warm(
        [this](const WarmTake& take) {
          for (const store::ObjectInfo& object : objects_) {
            if (!take(*store_, object)) break;
          }
          return Result<void>();
        },
        options_);
  }
  WarmReport run_well() {
    Result<WarmReport> report = run();
    EXPECT_THAT(report, IsOk());
    return report.ok() ? *report : WarmReport();
  }
  uint64_t source_bytes() const { return counted_->counts(store::CallKind::kGet).bytes; }

  io::MemoryFileSystem fs_;
  store::CountingStore* counted_ = nullptr;
  std::unique_ptr<HookedStore> source_;
  std::shared_ptr<Cache> cache_;
  std::unique_ptr<CachedStore> store_;
  std::vector<store::ObjectInfo> objects_;
  WarmOptions options_;
};

TEST_F(WarmTest, FetchesEverythingOnce) {
  open();
  put("large", 5 * kWindow + 1000);
  put("small", 10);
  put("empty", 0);
  put("window", kWindow);
  WarmProgress last;
  options_.on_progress = [&](const WarmProgress& now) { last = now; };
  const WarmReport first = run_well();
  EXPECT_EQ(first.totals.objects, 4u);
  EXPECT_EQ(first.totals.bytes, 6 * kWindow + 1010);
  EXPECT_EQ(first.totals.fetched_bytes, first.totals.bytes);
  EXPECT_EQ(first.totals.there_bytes, 0u);
  EXPECT_EQ(source_bytes(), first.totals.bytes);
  EXPECT_THAT(first.failures, IsEmpty());
  EXPECT_FALSE(first.stopped);
  EXPECT_TRUE(last.listed);
  EXPECT_EQ(last.done_bytes(), last.bytes);

  open();  // As a new process.
  options_.verify = true;
  const WarmReport again = run_well();
  EXPECT_EQ(again.totals.fetched_bytes, 0u);
  EXPECT_EQ(again.totals.there_bytes, again.totals.bytes);
  std::vector<std::byte> into(kWindow);
  ASSERT_THAT(store_->get("large", kWindow, into, {{}, objects_[0].etag, objects_[0].size}),
              IsOk());
  EXPECT_EQ(source_bytes(), first.totals.bytes);  // Nobody asked the source since.
}

TEST_F(WarmTest, NothingToDo) {
  open();
  const WarmReport report = run_well();
  EXPECT_EQ(report.totals.objects, 0u);
  EXPECT_TRUE(report.totals.listed);
}

TEST_F(WarmTest, WhatCannotBeFetchedIsNamedAndTheRestGoesOn) {
  open();
  put("a", 3 * kWindow);
  put("gone", 3 * kWindow);
  put("changed", 3 * kWindow);
  put("z", 3 * kWindow);
  ASSERT_THAT(source_->remove(std::string("gone")), IsOk());
  ASSERT_THAT(source_->put("changed", random_bytes(3 * kWindow, 99)), IsOk());
  const WarmReport report = run_well();
  EXPECT_EQ(report.totals.failed_objects, 2u);
  EXPECT_EQ(report.totals.failed_bytes, 6 * kWindow);
  EXPECT_EQ(report.totals.fetched_bytes, 6 * kWindow);
  ASSERT_THAT(report.failures, SizeIs(2));
  for (const WarmFailure& failure : report.failures) {
    const bool gone = failure.object.ends_with("/gone");
    EXPECT_TRUE(gone || failure.object.ends_with("/changed")) << failure.object;
    EXPECT_EQ(failure.error.code, gone ? ErrorCode::kNotFound : ErrorCode::kChanged);
  }
}

TEST_F(WarmTest, FailuresKeptAreBounded) {
  open();
  for (int i = 0; i < 150; ++i) put(std::to_string(i), 100);
  for (const store::ObjectInfo& object : objects_) {
    ASSERT_THAT(source_->remove(object.key), IsOk());
  }
  const WarmReport report = run_well();
  EXPECT_EQ(report.totals.failed_objects, 150u);
  EXPECT_THAT(report.failures, SizeIs(100));
}

TEST_F(WarmTest, WhatDoesNotFitIsCounted) {
  open(/*quota=*/4 * kMiB);  // Of each drive.
  for (int i = 0; i < 20; ++i) put(std::to_string(i), kMiB);
  const WarmReport report = run_well();
  EXPECT_EQ(report.totals.failed_objects, 0u);
  EXPECT_EQ(report.totals.done_bytes(), 20 * kMiB);
  EXPECT_GT(report.totals.no_room_bytes, 11 * kMiB);
  EXPECT_GT(report.totals.fetched_bytes, 6 * kMiB);
  EXPECT_EQ(source_bytes(), report.totals.fetched_bytes);  // What does not fit is not fetched.
  const WarmReport again = run_well();
  EXPECT_EQ(again.totals.there_bytes, report.totals.fetched_bytes);
}

TEST_F(WarmTest, StopsAtOnceAndNothingIsUnderWay) {
  open();
  for (int i = 0; i < 50; ++i) put(std::to_string(i), kMiB);
  std::stop_source source;
  options_.stop = source.get_token();
  options_.jobs = 4;
  source_->set_hook([&](uint64_t number) {
    if (number == 10) source.request_stop();
  });
  const WarmReport report = run_well();
  EXPECT_TRUE(report.stopped);
  EXPECT_LT(report.totals.fetched_bytes, 20 * kWindow);
  EXPECT_EQ(report.totals.failed_objects, 0u);
  const uint64_t bytes = source_bytes();
  store_.reset();
  EXPECT_EQ(source_bytes(), bytes);
}

TEST_F(WarmTest, AListThatFailsIsTheError) {
  open();
  put("a", 1000);
  const Result<WarmReport> report = warm(
      [this](const WarmTake& take) {
        take(*store_, objects_[0]);
        return Result<void>(make_error(ErrorCode::kUnavailable, "the source is down"));
      },
      options_);
  EXPECT_THAT(report, FailsWith(ErrorCode::kUnavailable));
  EXPECT_EQ(source_bytes(), 1000u);
}

TEST_F(WarmTest, KeepsToTheBandwidth) {
  open();
  for (int i = 0; i < 60; ++i) put(std::to_string(i), kWindow);
  options_.bytes_per_second = 40 * kWindow;
  const auto begin = std::chrono::steady_clock::now();
  const WarmReport report = run_well();
  const auto time = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(report.totals.fetched_bytes, 60 * kWindow);
  // A second's worth goes at once, before it is known what it costs.
  EXPECT_GE(time, 450ms);
}

TEST_F(WarmTest, ASmallBandwidthHasFewWindowsUnderWay) {
  open();
  for (int i = 0; i < 20; ++i) put(std::to_string(i), kWindow);
  options_.bytes_per_second = 3 * kWindow;
  std::stop_source source;
  options_.stop = source.get_token();
  // Before the first has come back.
  std::atomic<uint64_t> most = 0;
  source_->set_hook([&](uint64_t number) {
    most = std::max(most.load(), number);
    std::this_thread::sleep_for(20ms);
    if (number == 3) source.request_stop();
  });
  EXPECT_TRUE(run_well().stopped);
  EXPECT_LE(most, 4u);
}

TEST_F(WarmTest, ListsOnlyALittleAhead) {
  open();
  put("x", 100);
  std::latch blocked(1);
  source_->set_hook([&](uint64_t) { blocked.wait(); });
  std::atomic<uint64_t> taken = 0;
  std::thread opener([&] {
    // Long enough for a list that nobody holds up to get through.
    std::this_thread::sleep_for(200ms);
    EXPECT_LT(taken, 5000u);
    blocked.count_down();
  });
  options_.jobs = 4;
  const Result<WarmReport> report = warm(
      [&](const WarmTake& take) {
        for (int i = 0; i < 20'000; ++i) {
          store::ObjectInfo other = objects_[0];
          if (!take(*store_, other)) break;
          ++taken;
        }
        return Result<void>();
      },
      options_);
  opener.join();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->totals.objects, 20'000u);
  EXPECT_EQ(report->totals.failed_objects, 0u);
}

// What is warmed by one name is found by readers that use another.
TEST_F(WarmTest, ReadersOfAnyDirectoryFindIt) {
  open();
  ASSERT_THAT(io::make_directories(fs_, "/data/sub"), IsOk());
  ASSERT_THAT(io::write_file_durably(fs_, "/data/sub/1.tar", std::string(1000, 'x')), IsOk());
  ASSERT_THAT(fs_.make_symlink("/data/sub", "/link"), IsOk());
  const auto cached = [&](const std::string& address, store::CountingStore** counted) {
    auto source = store::open_store(address, {.file_system = &fs_});
    EXPECT_THAT(source, IsOk());
    auto counting = std::make_unique<store::CountingStore>(std::move(*source));
    *counted = counting.get();
    return make_cached_store(std::move(counting), cache_);
  };
  const Result<store::Selection> selection = store::Selection::parse({"/data/sub/*.tar"}, fs_);
  ASSERT_THAT(selection, IsOk());
  store::CountingStore* counted = nullptr;
  const auto warmed = cached(selection->stores().at(0), &counted);
  store::ObjectStore* const stores[] = {warmed.get()};
  const Result<WarmReport> report = warm(
      [&](const WarmTake& take) {
        return selection->for_each(
            stores, [&](size_t, const store::ObjectInfo& object) { return take(*warmed, object); },
            {});
      },
      options_);
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->totals.fetched_bytes, 1000u);
  const std::pair<const char*, const char*> names[] = {{"/data", "sub/1.tar"},
                                                       {"tree:/data/sub/", "1.tar"},
                                                       {"/link", "1.tar"},
                                                       {"/", "data/sub/1.tar"}};
  for (const auto& [address, key] : names) {
    const auto reader = cached(address, &counted);
    std::vector<std::byte> into(1000);
    ASSERT_THAT(reader->get(key, 0, into), IsOk()) << address;
    EXPECT_EQ(into[999], std::byte{'x'});
    EXPECT_EQ(counted->counts(store::CallKind::kGet).bytes, 0u) << address;
  }
}

}  // namespace
}  // namespace penstock::cache
