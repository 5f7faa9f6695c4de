#include <fmt/core.h>

#include "store/counting_store.h"
#include "sync/odd_file_systems.h"
#include "sync/test_support.h"

namespace penstock::sync {

namespace {

using io::MemoryFileSystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

TEST(Run, TreeToTreeKeepsModesTimesLinksAndEmptyDirectories) {
  MemoryFileSystem fs;
  fill(fs, "/from");
  ASSERT_THAT(fs.make_directory("/from/hollow", 0700), IsOk());
  ASSERT_THAT(fs.make_symlink("d/e/large", "/from/link"), IsOk());
  ASSERT_THAT(fs.make_symlink("/nowhere/at all", "/from/out"), IsOk());
  const auto from = tree_place(fs, "/from");
  const auto to = tree_place(fs, "/new/to", true);
  const Report report = run_ok(*from, *to, small_options());
  EXPECT_EQ(tree_of(fs, "/new/to"), tree_of(fs, "/from"));
  EXPECT_EQ(fs.stat("/new/to/a")->mode, 0640u);
  EXPECT_EQ(fs.stat("/new/to/a")->mtime_ns, kTime);
  EXPECT_EQ(fs.stat("/new/to/d/e/large")->mtime_ns, kTime + 1);
  EXPECT_EQ(fs.stat("/new/to/d/e/large")->mode, 0755u);
  EXPECT_EQ(fs.stat("/new/to/hollow")->mode, 0700u);
  EXPECT_EQ(report.totals.copied, 7u);
  EXPECT_EQ(report.totals.listed, 7u);
  EXPECT_EQ(report.totals.copied_bytes, report.totals.to_copy_bytes);
  EXPECT_EQ(report.totals.moved_bytes, report.totals.copied_bytes);
  EXPECT_TRUE(report.totals.listing_done);
  const Report again = run_ok(*from, *to, small_options());
  EXPECT_EQ(again.totals.copied, 0u);
  EXPECT_EQ(again.totals.same, 7u);
}

TEST(Run, TreeToStoreAndBack) {
  MemoryFileSystem fs;
  fill(fs, "/from");
  const auto from = tree_place(fs, "/from");
  const auto middle = store_place(store::make_memory_store());
  const auto to = tree_place(fs, "/to", true);
  EXPECT_EQ(run_ok(*from, *middle, small_options()).totals.copied, 5u);
  EXPECT_EQ(run_ok(*from, *middle, small_options()).totals.copied, 0u);
  run_ok(*middle, *to, small_options());
  EXPECT_EQ(tree_of(fs, "/to"), tree_of(fs, "/from"));
  EXPECT_EQ(run_ok(*middle, *to, small_options()).totals.copied, 0u);
}

TEST(Run, StoreToStore) {
  const auto from = memory_place({{"a", "1"}, {"a/b", "2"}, {"large", large_text('y')}});
  const auto to = store_place(store::make_memory_store());
  run_ok(*from, *to, small_options());
  EXPECT_EQ(objects_of(*to->store), objects_of(*from->store));
  EXPECT_EQ(run_ok(*from, *to, small_options()).totals.copied, 0u);
}

TEST(Run, OnlyWhatDiffersIsCopied) {
  MemoryFileSystem fs;
  fill(fs, "/from");
  fill(fs, "/to");
  write_file(fs, "/to/a", "alphA", kTime);       // Other bytes, same size and time,
  write_file(fs, "/to/d/f", "effE", kTime + 7);  // another time,
  write_file(fs, "/to/empty", "x", kTime);       // another size.
  const auto from = tree_place(fs, "/from");
  const auto to = tree_place(fs, "/to");
  EXPECT_EQ(run_ok(*from, *to, small_options()).totals.copied, 2u);
  EXPECT_EQ(tree_of(fs, "/to")["a"], "alphA");
  Options checksum = small_options();
  checksum.checksum = true;
  EXPECT_EQ(run_ok(*from, *to, checksum).totals.copied, 1u);
  EXPECT_EQ(tree_of(fs, "/to"), tree_of(fs, "/from"));
}

TEST(Run, ChecksumCopiesNoEqualBytesAndKeepsTheTime) {
  MemoryFileSystem fs;
  fill(fs, "/from");
  fill(fs, "/to");
  write_file(fs, "/to/d/e/large", large_text('x'), kTime + 9, 0600);
  const auto from = tree_place(fs, "/from");
  const auto to = tree_place(fs, "/to");
  Options options = small_options();
  options.checksum = true;
  EXPECT_EQ(run_ok(*from, *to, options).totals.copied, 0u);
  EXPECT_EQ(fs.stat("/to/d/e/large")->mtime_ns, kTime + 1);
  EXPECT_EQ(fs.stat("/to/d/e/large")->mode, 0755u);
}

TEST(Run, AModeAloneIsKeptWithoutCopying) {
  MemoryFileSystem fs;
  fill(fs, "/from");
  const auto from = tree_place(fs, "/from");
  const auto to = tree_place(fs, "/to", true);
  run_ok(*from, *to, small_options());
  write_file(fs, "/from/a", "alpha", kTime, 0444);
  ASSERT_THAT((*fs.open("/from/d", {}))->set_attributes(0711, std::nullopt), IsOk());
  std::vector<std::string> acts;
  Options options = small_options();
  options.on_action = [&](Action action, const std::string& key, uint64_t, std::string_view why) {
    acts.push_back(fmt::format("{} {} {}", action_name(action), key, why));
  };
  EXPECT_EQ(run_ok(*from, *to, options).totals.copied, 0u);
  EXPECT_THAT(acts, UnorderedElementsAre("attributes a mode", "attributes d/ mode"));
  EXPECT_EQ(fs.stat("/to/a")->mode, 0444u);
  EXPECT_EQ(fs.stat("/to/d")->mode, 0711u);
}

void set_mode(io::FileSystem& fs, const std::string& path, uint32_t mode) {
  ASSERT_THAT((*fs.open(path, {}))->set_attributes(mode, std::nullopt), IsOk());
}

// Directories as packages and caches have them: an owner who is not root can write there only after
// a chmod.
TEST(Run, ReadOnlyDirectoriesAreSyncedAgainAndAgain) {
  MemoryFileSystem disk;
  GuardedFileSystem fs(disk);
  fill(disk, "/from");
  write_file(disk, "/from/d/e/gone", "x", kTime);
  write_file(disk, "/from/old/f", "x", kTime);
  for (const char* folder : {"/from/d/e", "/from/d", "/from/old", "/from"}) {
    set_mode(disk, folder, 0555);
  }
  const auto from = tree_place(disk, "/from");
  const auto to = tree_place(fs, "/to", true);
  Options options = small_options();
  options.delete_extra = true;
  run_ok(*from, *to, options);
  EXPECT_EQ(tree_of(disk, "/to"), tree_of(disk, "/from"));

  write_file(disk, "/from/d/e/large", "changed", kTime + 5);
  write_file(disk, "/from/d/new/g", "new", kTime);
  ASSERT_THAT(disk.make_symlink("f", "/from/d/link"), IsOk());
  ASSERT_THAT(disk.remove("/from/d/e/gone"), IsOk());
  ASSERT_THAT(io::remove_tree(disk, "/from/old"), IsOk());
  run_ok(*from, *to, options);
  EXPECT_EQ(tree_of(disk, "/to"), tree_of(disk, "/from"));
  for (const char* folder : {"/to", "/to/d", "/to/d/e"}) {
    EXPECT_EQ(disk.stat(folder)->mode, 0555u) << folder;
  }
}

TEST(Run, AReadOnlyDirectoryWhoseModeIsNotOursToKeepStaysSo) {
  MemoryFileSystem disk;
  GuardedFileSystem fs(disk);
  ASSERT_THAT(disk.make_directory("/to"), IsOk());
  ASSERT_THAT(disk.make_directory("/to/d", 0555), IsOk());
  const auto from = memory_place({{"d/f", "1"}, {"g", "2"}});
  const auto to = tree_place(fs, "/to");
  const Result<Report> report = run(*from, *to, small_options());
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(failed_keys(*report), ElementsAre("d/f"));
  EXPECT_EQ(disk.stat("/to/d")->mode, 0555u);
}

TEST(Run, DryRunWritesNothing) {
  MemoryFileSystem fs;
  fill(fs, "/from");
  const auto from = tree_place(fs, "/from");
  const auto to = tree_place(fs, "/to", true);
  Options options = small_options();
  options.dry_run = true;
  std::vector<std::string> acts;
  options.on_action = [&](Action, const std::string& key, uint64_t, std::string_view why) {
    acts.push_back(key + " " + std::string(why));
  };
  const Report report = run_ok(*from, *to, options);
  EXPECT_EQ(report.totals.to_copy, 5u);
  EXPECT_EQ(report.totals.copied, 0u);
  EXPECT_THAT(acts, ::testing::SizeIs(5));
  EXPECT_THAT(acts, Contains("d/e/large new"));
  EXPECT_THAT(fs.stat("/to"), FailsWith(ErrorCode::kNotFound));
}

TEST(Run, OneObject) {
  MemoryFileSystem fs;
  fill(fs, "/from");
  const auto from = tree_place(fs, "/from/d/f");
  EXPECT_EQ(from->only_key, "f");
  const auto to = tree_place(fs, "/to", true);
  run_ok(*from, *to, small_options());
  EXPECT_EQ(tree_of(fs, "/to"), (Tree{{"f", "effe"}}));
  EXPECT_EQ(run_ok(*from, *to, small_options()).totals.same, 1u);
  const auto onto = tree_place(fs, "/from/a");
  const auto other = tree_place(fs, "/to/f");
  run_ok(*onto, *other, small_options());
  EXPECT_EQ(tree_of(fs, "/to"), (Tree{{"f", "alpha"}}));
  const auto store = store_place(store::make_memory_store());
  run_ok(*from, *store, small_options());
  EXPECT_EQ(run_ok(*from, *store, small_options()).totals.same, 1u);
  EXPECT_EQ(objects_of(*store->store), (Tree{{"f", "effe"}}));
  Options options = small_options();
  options.delete_extra = true;
  EXPECT_THAT(run(*from, *to, options), FailsWith(ErrorCode::kInvalid));
  const auto whole = tree_place(fs, "/from");
  EXPECT_THAT(run(*whole, *other, small_options()), FailsWith(ErrorCode::kInvalid));
}

TEST(Run, PlacesMustLieApart) {
  MemoryFileSystem fs;
  fill(fs, "/a");
  ASSERT_THAT(fs.make_directory("/a/b"), IsOk());
  ASSERT_THAT(fs.make_symlink("/a", "/alias"), IsOk());
  const auto expect_refused = [&](const std::string& from, const std::string& to) {
    const auto source = tree_place(fs, from);
    const auto target = tree_place(fs, to, true);
    EXPECT_THAT(run(*source, *target, small_options()), FailsWith(ErrorCode::kInvalid))
        << from << " " << to;
  };
  expect_refused("/a", "/a");
  expect_refused("/a", "/alias");
  expect_refused("/a", "/a/b");
  expect_refused("/a", "/alias/b");
  expect_refused("/a", "/a/b/new");
  expect_refused("/a/b", "/a");
  expect_refused("/a", "/");
  expect_refused("/a/a", "/a");
  const auto from = tree_place(fs, "/a");
  const auto to = tree_place(fs, "/ab", true);
  run_ok(*from, *to, small_options());
}

TEST(Run, WrongOptionsAreRefused) {
  const auto from = memory_place({});
  const auto to = memory_place({});
  for (const auto& change : std::vector<std::function<void(Options&)>>{
           [](Options& options) { options.jobs = 0; },
           [](Options& options) { options.jobs = 1025; },
           [](Options& options) { options.memory_bytes = kMiB; },
           [](Options& options) { options.part_bytes = 1; },
           [](Options& options) {
             options.filters = {{true, ""}};
           }}) {
    Options options = small_options();
    change(options);
    EXPECT_THAT(run(*from, *to, options), FailsWith(ErrorCode::kInvalid));
  }
}

TEST(Run, OneJobAndManyJobs) {
  for (const uint32_t jobs : {1u, 2u, 200u, 1024u}) {
    MemoryFileSystem fs;
    fill(fs, "/from");
    for (int i = 0; i < 50; ++i) write_file(fs, fmt::format("/from/many/{}", i), "x", kTime);
    const auto from = tree_place(fs, "/from");
    const auto store = store_place(store::make_memory_store());
    const auto to = tree_place(fs, "/to", true);
    Options options = small_options();
    options.jobs = jobs;
    run_ok(*from, *store, options);
    run_ok(*store, *to, options);
    EXPECT_EQ(tree_of(fs, "/to"), tree_of(fs, "/from"));
  }
}

TEST(Run, TheRateIsLimited) {
  const auto from =
      memory_place({{"a", std::string(200'000, 'x')}, {"b", std::string(100'000, 'y')}});
  const auto to = memory_place({});
  Options options = small_options();
  options.bytes_per_second = 1'000'000;
  const Report report = run_ok(*from, *to, options);
  // 300,000 bytes, of which a quarter of a second's worth passes at once.
  EXPECT_GE(report.time, std::chrono::milliseconds(45));
  EXPECT_EQ(objects_of(*to->store), objects_of(*from->store));
}

TEST(Run, ProgressGrowsAndEndsWithTheTotals) {
  MemoryFileSystem fs;
  fill(fs, "/from");
  const auto from = tree_place(fs, "/from");
  const auto to = tree_place(fs, "/to", true);
  Options options = small_options();
  std::vector<Progress> seen;
  options.on_progress = [&](const Progress& progress) { seen.push_back(progress); };
  const Report report = run_ok(*from, *to, options);
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.back().copied, report.totals.copied);
  EXPECT_TRUE(seen.back().listing_done);
}

TEST(Run, UnchangedSmallObjectsCostNoReads) {
  auto counting = std::make_unique<store::CountingStore>(store::make_memory_store());
  store::CountingStore& counts = *counting;
  ASSERT_THAT(counting->put("a", bytes_of("x")), IsOk());
  const auto from = store_place(std::move(counting));
  MemoryFileSystem fs;
  const auto to = tree_place(fs, "/to", true);
  run_ok(*from, *to, small_options());
  const uint64_t gets = counts.counts(store::CallKind::kGet).calls;
  const uint64_t heads = counts.counts(store::CallKind::kHead).calls;
  run_ok(*from, *to, small_options());
  EXPECT_EQ(counts.counts(store::CallKind::kGet).calls, gets);
  EXPECT_EQ(counts.counts(store::CallKind::kHead).calls, heads);
}

TEST(Run, FoldersThatTheTargetLacksAreNotListedThere) {
  MemoryFileSystem fs;
  for (int i = 0; i < 20; ++i) write_file(fs, fmt::format("/from/{}/f", i), "x");
  const auto from = tree_place(fs, "/from");
  auto counting = std::make_unique<store::CountingStore>(store::make_memory_store());
  store::CountingStore& counts = *counting;
  const auto to = store_place(std::move(counting));
  run_ok(*from, *to, small_options());
  EXPECT_LE(counts.counts(store::CallKind::kList).calls, 2u);
}

}  // namespace

}  // namespace penstock::sync
