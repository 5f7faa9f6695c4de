#include "tune/bench_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <map>

#include "io/faulty_file_system.h"
#include "io/memory_file_system.h"
#include "store/faulty_store.h"
#include "tune/bench_scratch.h"
#include "tune/bench_stream.h"

namespace penstock::tune {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// All that is in the file system, by path; for files with their contents' length.
std::vector<std::string> list_tree(io::FileSystem& fs, const std::string& path) {
  std::vector<std::string> all;
  std::vector<io::DirectoryEntry> entries;
  EXPECT_TRUE(fs.list(path, [&](const io::DirectoryEntry& entry) {
                  entries.push_back(entry);
                  return true;
                }).ok());
  for (const io::DirectoryEntry& entry : entries) {
    const std::string child = path + "/" + entry.name;
    all.push_back(child);
    if (entry.kind != io::FileKind::kDirectory) continue;
    for (std::string& name : list_tree(fs, child)) all.push_back(std::move(name));
  }
  return all;
}

BenchPlan tiny_plan(BenchProfile profile = BenchProfile::kGeneral) {
  BenchLimits limits{.total_bytes = kGiB, .available_bytes = kGiB, .memory_bytes = 64 * kMiB};
  BenchOptions options;
  options.size_bytes = 16 * kMiB;
  options.case_time = std::chrono::milliseconds(5);
  options.profile = profile;
  return make_bench_plan(options, limits).value();
}

BenchPlan tiny_store_plan() {
  BenchOptions options;
  options.size_bytes = 16 * kMiB;
  options.case_time = std::chrono::milliseconds(5);
  return make_bench_plan(options, {.target = BenchTarget::kStore}).value();
}

// Mappings need a real file: these run on file systems in memory.
void drop_mmap(BenchPlan& plan) {
  std::erase_if(plan.cases, [](const BenchCase& c) { return c.mode == BenchMode::kMmap; });
}

class FileBenchTest : public testing::Test {
 protected:
  FileBenchTest() { EXPECT_TRUE(fs_.make_directory("/data").ok()); }

  io::MemoryFileSystem fs_;
  std::vector<CaseResult> results_;
};

TEST_F(FileBenchTest, EveryProfileRunsAndLeavesNothing) {
  using enum BenchProfile;
  for (const BenchProfile profile : {kGeneral, kCheckpoint, kShards, kImages, kEmbeddings, kLogs}) {
    SCOPED_TRACE(bench_profile_name(profile));
    BenchPlan plan = tiny_plan(profile);
    drop_mmap(plan);
    results_.clear();
    const auto ran = run_file_bench({fs_, "/data"}, plan, {}, results_);
    ASSERT_TRUE(ran.ok()) << ran.error().to_string();
    ASSERT_EQ(results_.size(), plan.cases.size());
    for (const CaseResult& result : results_) {
      SCOPED_TRACE(bench_case_label(result.bench_case));
      ASSERT_TRUE(result.measured()) << result.skipped;
      EXPECT_GT(result.ops, 0U);
      EXPECT_GT(result.seconds, 0);
      EXPECT_GT(result.latency.max_ns, 0);
      EXPECT_LE(result.latency.p50_ns, result.latency.p99_ns);
      ASSERT_FALSE(result.rate.empty());
      uint64_t sampled = 0;
      for (const RateSample& sample : result.rate) sampled += sample.bytes;
      EXPECT_EQ(sampled, result.bytes);
    }
    EXPECT_EQ(results_[0].bytes, plan.size_bytes);
    EXPECT_THAT(list_tree(fs_, "/data"), IsEmpty());
  }
}

TEST_F(FileBenchTest, LimitsInBytesAreKept) {
  BenchPlan plan = tiny_plan();
  drop_mmap(plan);
  for (BenchCase& c : plan.cases) c.time_limit = std::chrono::milliseconds(50);
  ASSERT_TRUE(run_file_bench({fs_, "/data"}, plan, {}, results_).ok());
  for (const CaseResult& result : results_) {
    if (result.bench_case.limit_bytes == 0) continue;
    EXPECT_LE(result.bytes, result.bench_case.limit_bytes) << bench_case_label(result.bench_case);
  }
}

TEST_F(FileBenchTest, AnExistingFileIsReadAndNotWritten) {
  const std::string contents(100'000, 'x');
  ASSERT_TRUE(io::write_file_durably(fs_, "/data/mine", contents).ok());
  const BenchLimits limits{
      .target = BenchTarget::kFile, .existing_bytes = contents.size(), .memory_bytes = kGiB};
  BenchOptions options;
  options.case_time = std::chrono::milliseconds(2);
  BenchPlan plan = make_bench_plan(options, limits).value();
  drop_mmap(plan);
  // Any call that could change something fails the run.
  for (const io::CallKind kind : {io::CallKind::kWrite, io::CallKind::kTruncate,
                                  io::CallKind::kAllocate, io::CallKind::kMakeDirectory}) {
    io::FaultyFileSystem guarded({.fail_at = 1, .only = kind}, fs_);
    results_.clear();
    const auto ran =
        run_file_bench({guarded, "/data/mine", BenchTarget::kFile}, plan, {}, results_);
    EXPECT_TRUE(ran.ok()) << ran.error().to_string();
    EXPECT_FALSE(guarded.fault_hit());
  }
  EXPECT_EQ(io::read_file(fs_, "/data/mine", kMiB).value(), contents);
  EXPECT_EQ(list_tree(fs_, "/data"), std::vector<std::string>{"/data/mine"});
}

TEST_F(FileBenchTest, EveryFailingCallIsReportedAndNothingIsLeft) {
  // Removal itself may fail too: then the next run finds what is left.
  const std::vector<std::string> cases = {
      "write:sequential:direct:64KiB:4", "read:random:direct:4KiB:4x2",
      "read:sequential:buffered-warm:64KiB:1", "fsync:append:buffered:4KiB:1"};
  BenchOptions options;
  options.size_bytes = kMiB;
  options.case_time = std::chrono::milliseconds(1);
  for (const std::string& text : cases) options.cases.push_back(parse_bench_case(text).value());
  const BenchPlan plan =
      make_bench_plan(options, {.total_bytes = kGiB, .available_bytes = kGiB}).value();
  using enum io::CallKind;
  for (const io::CallKind kind :
       {kOpen, kMakeDirectory, kLock, kRead, kWrite, kSync, kAllocate, kAdvise}) {
    for (uint64_t n = 1; n <= 25; ++n) {
      SCOPED_TRACE(testing::Message() << io::call_kind_name(kind) << " " << n);
      io::FaultyFileSystem faulty({.fail_at = n, .only = kind}, fs_);
      results_.clear();
      const auto ran = run_file_bench({faulty, "/data"}, plan, {}, results_);
      EXPECT_EQ(ran.ok(), !faulty.fault_hit());
      EXPECT_EQ(ran.ok() ? 0 : ran.error().os_errno, faulty.fault_hit() ? EIO : 0);
      ASSERT_THAT(list_tree(fs_, "/data"), IsEmpty());
      if (!faulty.fault_hit()) break;
    }
  }
}

TEST_F(FileBenchTest, WhatCannotBeDoneHereIsSkippedWithTheReason) {
  // Opening is refused as by a file system without direct I/O, once the file is laid down.
  const BenchPlan plan = [] {
    BenchOptions options;
    options.size_bytes = kMiB;
    options.case_time = std::chrono::milliseconds(1);
    options.cases = {parse_bench_case("read:random:direct:4KiB:1").value()};
    return make_bench_plan(options, {.total_bytes = kGiB, .available_bytes = kGiB}).value();
  }();
  io::FaultyFileSystem faulty({.fail_at = 3, .only = io::CallKind::kOpen, .error = EOPNOTSUPP},
                              fs_);
  ASSERT_TRUE(run_file_bench({faulty, "/data"}, plan, {}, results_).ok());
  ASSERT_EQ(results_.size(), 2U);
  EXPECT_TRUE(results_[0].measured());
  EXPECT_THAT(results_[1].skipped, HasSubstr("direct I/O is not supported"));
}

TEST_F(FileBenchTest, StoppingCleansUpAndKeepsWhatWasMeasured) {
  BenchPlan plan = tiny_plan();
  for (BenchCase& c : plan.cases) c.time_limit = std::chrono::seconds(60);
  plan.cases.resize(2);
  std::stop_source source;
  BenchContext context;
  context.stop = source.get_token();
  std::atomic<size_t> last_case = 0;
  context.progress = [&](const BenchProgress& progress) {
    last_case = progress.case_number;
    if (progress.case_number == 2) source.request_stop();
  };
  const auto ran = run_file_bench({fs_, "/data"}, plan, context, results_);
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(results_.size(), 1U);
  EXPECT_EQ(last_case, 2U);
  EXPECT_THAT(list_tree(fs_, "/data"), IsEmpty());
}

TEST(BenchScratchTest, LeftoversOfTheDeadGoAndThoseOfTheLivingStay) {
  io::MemoryFileSystem fs;
  ASSERT_TRUE(fs.make_directory("/d").ok());
  const auto living = BenchScratch::create(fs, "/d").value();
  const std::string ours = "/d/.penstock-bench-" + bench_host_name();
  EXPECT_THAT(living->path(), testing::StartsWith(ours + "-"));
  ASSERT_TRUE(fs.make_directory(ours + "-123-00c0ffee").ok());
  ASSERT_TRUE(io::write_file_durably(fs, ours + "-123-00c0ffee/data", "x").ok());
  ASSERT_TRUE(io::write_file_durably(fs, ours + "-9-00000000.lock", "").ok());
  for (const std::string& mine :
       {std::string("/d/.penstock-bench-notes"), ours + "-1-xyz", ours + "-00000000",
        std::string("/d/.penstock-bench-1-00000000"), std::string("/d/penstock-bench-h-1-00000000"),
        std::string("/d/.penstock-bench--1-00000000")}) {
    ASSERT_TRUE(io::write_file_durably(fs, mine, "mine").ok());
  }
  const auto removed = remove_bench_leftovers(fs, "/d").value();
  EXPECT_EQ(removed, (std::vector<std::string>{ours + "-123-00c0ffee", ours + "-9-00000000"}));
  EXPECT_EQ(list_tree(fs, "/d").size(), 6U + 2U);
  EXPECT_TRUE(fs.stat(living->path()).ok());
}

TEST(BenchScratchTest, WhatOtherHostsLeftIsOnlyNamed) {
  io::MemoryFileSystem fs;
  ASSERT_TRUE(fs.make_directory("/d").ok());
  const auto living = BenchScratch::create(fs, "/d").value();
  const std::string theirs = "/d/.penstock-bench-not-" + bench_host_name() + "-7-00c0ffee";
  ASSERT_TRUE(fs.make_directory(theirs).ok());
  EXPECT_THAT(remove_bench_leftovers(fs, "/d").value(), IsEmpty());
  EXPECT_TRUE(fs.stat(theirs).ok());
  EXPECT_EQ(find_foreign_scratch(fs, "/d").value(), std::vector<std::string>{theirs});
}

TEST(BenchScratchTest, ALeftoverThatAnotherRunRemovedFirstIsNoError) {
  io::MemoryFileSystem memory;
  ASSERT_TRUE(memory.make_directory("/d").ok());
  const std::string leftover = "/d/.penstock-bench-" + bench_host_name() + "-7-00c0ffee";
  for (const io::CallKind kind : {io::CallKind::kRemove, io::CallKind::kSyncFileSystem}) {
    ASSERT_TRUE(memory.make_directory(leftover).ok());
    io::FaultyFileSystem faulty({.fail_at = 1, .only = kind, .error = ENOENT}, memory);
    EXPECT_TRUE(remove_bench_leftovers(faulty, "/d").ok());
    EXPECT_TRUE(faulty.fault_hit());
  }
}

TEST(BenchStreamTest, AThreadThatCannotStartIsAnError) {
  pthread_attr_t usual;
  ASSERT_EQ(::pthread_getattr_default_np(&usual), 0);
  pthread_attr_t huge = usual;
  ASSERT_EQ(::pthread_attr_setstacksize(&huge, size_t{1} << 50), 0);
  std::vector<std::unique_ptr<BenchStream>> streams;
  for (int i = 0; i < 3; ++i) {
    streams.push_back(std::make_unique<ThreadStream>([](uint64_t) { return uint64_t{1}; }, 0));
  }
  BenchCase bench_case;
  bench_case.time_limit = std::chrono::seconds(60);
  ASSERT_EQ(::pthread_setattr_default_np(&huge), 0);
  const auto measured = measure_case(bench_case, streams, {}, {});
  ASSERT_EQ(::pthread_setattr_default_np(&usual), 0);
  ASSERT_FALSE(measured.ok());
  EXPECT_EQ(measured.error().code, ErrorCode::kBusy);
  EXPECT_EQ(measured.error().os_errno, EAGAIN);
  EXPECT_THAT(measured.error().detail, HasSubstr("ulimit -u"));
}

TEST(StoreBenchTest, RunsAllAndLeavesOthersObjectsAlone) {
  const auto store = store::make_memory_store();
  ASSERT_TRUE(store->put("mine", std::as_bytes(std::span("x", 1))).ok());
  const BenchPlan plan = tiny_store_plan();
  std::vector<CaseResult> results;
  const auto ran = run_store_bench(*store, plan, {}, results);
  ASSERT_TRUE(ran.ok()) << ran.error().to_string();
  ASSERT_EQ(results.size(), plan.cases.size());
  for (const CaseResult& result : results) {
    EXPECT_GT(result.ops, 0U) << bench_case_label(result.bench_case);
  }
  const auto page = store->list({}).value();
  ASSERT_EQ(page.objects.size(), 1U);
  EXPECT_EQ(page.objects[0].key, "mine");
}

TEST(StoreBenchTest, StoppingRemovesTheObjects) {
  const auto store = store::make_memory_store();
  BenchPlan plan = tiny_store_plan();
  for (BenchCase& c : plan.cases) c.time_limit = std::chrono::seconds(60);
  std::stop_source source;
  BenchContext context;
  context.stop = source.get_token();
  context.progress = [&](const BenchProgress&) { source.request_stop(); };
  std::vector<CaseResult> results;
  const auto ran = run_store_bench(*store, plan, context, results);
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.error().code, ErrorCode::kCancelled);
  EXPECT_THAT(store->list({})->objects, IsEmpty());
}

TEST(StoreBenchTest, FailuresAreReportedAndTheObjectsRemoved) {
  using enum store::CallKind;
  for (const store::CallKind kind : {kPut, kGet, kHead}) {
    store::FaultyStoreOptions options;
    options.kinds = {kind};
    options.fail_at = 3;
    store::FaultyStore faulty(store::make_memory_store(), options);
    std::vector<CaseResult> results;
    const auto ran = run_store_bench(faulty, tiny_store_plan(), {}, results);
    ASSERT_FALSE(ran.ok());
    EXPECT_EQ(ran.error().code, ErrorCode::kUnavailable);
    EXPECT_THAT(faulty.inner().list({})->objects, IsEmpty());
  }
}

TEST(StoreBenchTest, AShortReadIsAnError) {
  store::FaultyStoreOptions options;
  options.truncate_rate = 1;
  store::FaultyStore faulty(store::make_memory_store(), options);
  std::vector<CaseResult> results;
  const auto ran = run_store_bench(faulty, tiny_store_plan(), {}, results);
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.error().code, ErrorCode::kCorrupt);
}

TEST(StoreBenchTest, LeftoversAreNamed) {
  const auto store = store::make_memory_store();
  ASSERT_TRUE(store->put("penstock-bench-1-0/4096/1", {}).ok());
  ASSERT_TRUE(store->put("other/1", {}).ok());
  EXPECT_EQ(find_store_leftovers(*store).value(), std::vector<std::string>{"penstock-bench-1-0/"});
}

}  // namespace
}  // namespace penstock::tune
