// Stops, objects that change meanwhile, disks that rot.
#include "sync/odd_file_systems.h"
#include "sync/test_support.h"

namespace penstock::sync {

namespace {

using io::MemoryFileSystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Stops when the first large object is half read.
class StoppingStore : public PassingStore {
 public:
  StoppingStore(std::unique_ptr<store::ObjectStore> inner, std::stop_source stop)
      : PassingStore(std::move(inner)), stop_(std::move(stop)) {}
  void async_get(std::string key, uint64_t offset, std::span<std::byte> into,
                 store::GetOptions options, store::Done<store::GetResult> done) override {
    if (offset >= 40'000) stop_.request_stop();
    PassingStore::async_get(std::move(key), offset, into, std::move(options), std::move(done));
  }

 private:
  std::stop_source stop_;
};

// What is in its way has to go first; what only lies beside it stays.
TEST(Run, AStopWhileSomethingIsReplacedDeletesNothingElse) {
  MemoryFileSystem fs;
  write_file(fs, "/to/large/old", "in the way");
  write_file(fs, "/to/extra", "precious");
  std::stop_source stop;
  auto source = memory_place({{"large", large_text('z')}});
  const auto from = store_place(std::make_unique<StoppingStore>(std::move(source->store), stop));
  const auto to = tree_place(fs, "/to");
  Options options = small_options();
  options.delete_extra = true;
  options.stop = stop.get_token();
  const Result<Report> report = run(*from, *to, options);
  ASSERT_THAT(report, IsOk());
  EXPECT_TRUE(report->stopped);
  EXPECT_EQ(tree_of(fs, "/to"), (Tree{{"extra", "precious"}}));
  options.stop = {};
  run_ok(*from, *to, options);
  EXPECT_EQ(tree_of(fs, "/to"), objects_of(*from->store));
}

TEST(Run, AStopLeavesNothingHalfWritten) {
  for (const bool to_tree : {true, false}) {
    MemoryFileSystem fs;
    std::stop_source stop;
    auto source = memory_place({{"large", large_text('z')}, {"small", "s"}});
    const auto from = store_place(std::make_unique<StoppingStore>(std::move(source->store), stop));
    const auto to = to_tree ? tree_place(fs, "/to", true) : memory_place({});
    Options options = small_options();
    options.stop = stop.get_token();
    const Result<Report> report = run(*from, *to, options);
    ASSERT_THAT(report, IsOk());
    EXPECT_TRUE(report->stopped);
    EXPECT_EQ(report->totals.failed, 0u) << failures_of(*report);
    const Tree left = to_tree ? tree_of(fs, "/to") : objects_of(*to->store);
    for (const auto& [key, text] : left) EXPECT_EQ(key + text, "smalls");
    options.stop = {};
    run_ok(*from, *to, options);
    EXPECT_EQ(to_tree ? tree_of(fs, "/to") : objects_of(*to->store), objects_of(*from->store));
  }
}

TEST(Run, StoppedBeforeItBegins) {
  MemoryFileSystem fs;
  fill(fs, "/from");
  const auto from = tree_place(fs, "/from");
  const auto to = tree_place(fs, "/to", true);
  std::stop_source stop;
  stop.request_stop();
  Options options = small_options();
  options.stop = stop.get_token();
  const Result<Report> report = run(*from, *to, options);
  ASSERT_THAT(report, IsOk());
  EXPECT_TRUE(report->stopped);
  EXPECT_THAT(tree_of(fs, "/to"), IsEmpty());
}

// An object that gets new bytes while it is read, so many times.
class ChangingStore : public PassingStore {
 public:
  ChangingStore(std::unique_ptr<store::ObjectStore> inner, int changes, std::string replacement)
      : PassingStore(std::move(inner)), changes_(changes), replacement_(std::move(replacement)) {}
  void async_get(std::string key, uint64_t offset, std::span<std::byte> into,
                 store::GetOptions options, store::Done<store::GetResult> done) override {
    const bool changes = key == "k" && changes_-- > 0;
    PassingStore::async_get(
        key, offset, into, std::move(options),
        [this, changes, key, done = std::move(done)](Result<store::GetResult> got) {
          if (!changes) return done(std::move(got));
          auto text = std::make_shared<std::string>(replacement_);
          inner().async_put(key, bytes_of(*text), {},
                            [text, done, got](const Result<store::ObjectInfo>&) { done(got); });
        });
  }

 private:
  std::atomic<int> changes_;
  const std::string replacement_;
};

TEST(Run, AnObjectThatChangesIsCopiedInItsNewVersion) {
  for (const bool to_tree : {true, false}) {
    MemoryFileSystem fs;
    auto source = memory_place({{"k", large_text('1')}});
    const std::string replacement = large_text('2') + "longer";
    const auto from =
        store_place(std::make_unique<ChangingStore>(std::move(source->store), 1, replacement));
    const auto to = to_tree ? tree_place(fs, "/to", true) : memory_place({});
    Options options = small_options();
    options.jobs = 1;  // So that the change comes before the second range is read.
    const Report report = run_ok(*from, *to, options);
    EXPECT_EQ(report.totals.copied, 1u);
    EXPECT_EQ(report.totals.copied_bytes, replacement.size());
    const Tree there = to_tree ? tree_of(fs, "/to") : objects_of(*to->store);
    EXPECT_EQ(there, (Tree{{"k", replacement}}));
  }
}

TEST(Run, AnObjectThatKeepsChangingIsAFailure) {
  MemoryFileSystem fs;
  auto source = memory_place({{"k", large_text('1')}, {"other", "o"}});
  const auto from =
      store_place(std::make_unique<ChangingStore>(std::move(source->store), 1000, large_text('2')));
  const auto to = tree_place(fs, "/to", true);
  const Result<Report> report = run(*from, *to, small_options());
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(failed_keys(*report), ElementsAre("k"));
  EXPECT_EQ(report->failures[0].error.code, ErrorCode::kChanged);
  EXPECT_THAT(failures_of(*report), HasSubstr("it changed while it was copied, 4 times in a row"));
  EXPECT_EQ(tree_of(fs, "/to"), (Tree{{"other", "o"}}));
}

TEST(Run, BytesThatRotOnTheWayToTheDiskAreWrittenAnew) {
  MemoryFileSystem disk;
  RottenFileSystem fs(disk, 7);
  const auto from = memory_place({{"a", "1"},
                                  {"large", large_text('r')},
                                  {"c", "3"},
                                  {"d", "4"},
                                  {"e", "5"},
                                  {"f", "6"},
                                  {"g", "7"},
                                  {"h", "8"}});
  const auto to = tree_place(fs, "/to", true);
  Options options = small_options();
  options.part_bytes = 64 * kKiB;
  run_ok(*from, *to, options);
  EXPECT_EQ(tree_of(disk, "/to"), objects_of(*from->store));
}

TEST(Run, ADiskThatAlwaysRotsIsAFailureAndNothingWrongAppears) {
  MemoryFileSystem disk;
  RottenFileSystem fs(disk, 1);
  const auto from = memory_place({{"a", "1"}, {"large", large_text('r')}});
  const auto to = tree_place(fs, "/to", true);
  const Result<Report> report = run(*from, *to, small_options());
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->totals.failed, 2u);
  EXPECT_EQ(report->failures[0].error.code, ErrorCode::kCorrupt);
  EXPECT_THAT(tree_of(disk, "/to"), IsEmpty());
}

}  // namespace

}  // namespace penstock::sync
