#include "sync/publisher.h"

#include <fmt/core.h>

#include <future>

#include "io/faulty_file_system.h"
#include "sync/test_support.h"

namespace penstock::sync {

namespace {

using io::FaultyFileSystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr PublishLimits kNever{
    .files = 1000, .age = std::chrono::hours(1), .idle = std::chrono::hours(1)};

std::unique_ptr<StagedFile> stage(io::FileSystem& fs, int number, bool sync = false) {
  auto file = StagedFile::create(fs, fmt::format("/d/.penstock-tmp-{}", number),
                                 fmt::format("/d/{}", number), 0600);
  EXPECT_THAT(file, IsOk());
  EXPECT_THAT((*file)->write(0, bytes_of("bytes"), true), IsOk());
  EXPECT_THAT((*file)->finish(5, 0600, 1, sync), IsOk());
  return std::move(*file);
}

std::unique_ptr<io::MemoryFileSystem> disk() {
  auto fs = std::make_unique<io::MemoryFileSystem>();
  EXPECT_THAT(fs->make_directory("/d"), IsOk());
  return fs;
}

size_t count_calls(const FaultyFileSystem& fs, std::string_view name) {
  size_t count = 0;
  for (const std::string& call : fs.trace()) {
    count += call.find(fmt::format(" {} ", name)) != std::string::npos ? 1 : 0;
  }
  return count;
}

TEST(Publisher, AGroupIsSyncedOnceAndThenRenamed) {
  FaultyFileSystem fs({}, disk());
  std::vector<std::future<Result<void>>> done;
  {
    Publisher publisher(
        fs, "/d", {}, {.files = 100, .age = std::chrono::hours(1), .idle = std::chrono::hours(1)});
    for (int i = 0; i < 100; ++i) {
      auto promise = std::make_shared<std::promise<Result<void>>>();
      done.push_back(promise->get_future());
      publisher.add(stage(fs, i), io::RenameMode::kReplace,
                    [promise](Result<void> result) { promise->set_value(std::move(result)); });
    }
    for (auto& one : done) EXPECT_THAT(one.get(), IsOk());
  }
  EXPECT_EQ(count_calls(fs, "sync_file_system"), 1u);
  bool synced = false;
  for (const std::string& call : fs.trace()) {
    synced = synced || call.find("sync_file_system") != std::string::npos;
    EXPECT_TRUE(synced || call.find(" rename ") == std::string::npos) << call;
  }
  EXPECT_EQ(tree_of(fs.disk(), "/d").size(), 100u);
  EXPECT_EQ(tree_of(fs.disk(), "/d")["42"], "bytes");
}

TEST(Publisher, TimeAndIdlenessPublishToo) {
  for (const bool by_age : {true, false}) {
    FaultyFileSystem fs({}, disk());
    PublishLimits limits = kNever;
    (by_age ? limits.age : limits.idle) = std::chrono::milliseconds(1);
    Publisher publisher(fs, "/d", {}, limits);
    std::promise<Result<void>> promise;
    publisher.add(stage(fs, 1), io::RenameMode::kReplace,
                  [&](Result<void> result) { promise.set_value(std::move(result)); });
    EXPECT_THAT(promise.get_future().get(), IsOk());
  }
}

TEST(Publisher, HurryPublishesWhatWaits) {
  FaultyFileSystem fs({}, disk());
  Publisher publisher(fs, "/d", {}, kNever);
  std::promise<Result<void>> promise;
  publisher.add(stage(fs, 1), io::RenameMode::kReplace,
                [&](Result<void> result) { promise.set_value(std::move(result)); });
  publisher.hurry();
  EXPECT_THAT(promise.get_future().get(), IsOk());
}

TEST(Publisher, FilesThatAreDurableNeedNoBarrier) {
  FaultyFileSystem fs({}, disk());
  Publisher publisher(fs, "/d", {}, kNever);
  std::promise<Result<void>> promise;
  publisher.add(stage(fs, 1, /*sync=*/true), io::RenameMode::kReplace,
                [&](Result<void> result) { promise.set_value(std::move(result)); });
  publisher.hurry();
  EXPECT_THAT(promise.get_future().get(), IsOk());
  EXPECT_EQ(count_calls(fs, "sync_file_system"), 0u);
}

TEST(Publisher, AFailedSyncFailsTheGroupAndLeavesNothing) {
  FaultyFileSystem fs({.fail_at = 1, .only = io::CallKind::kSyncFileSystem}, disk());
  Publisher publisher(fs, "/d", {}, kNever);
  std::promise<Result<void>> promises[2];
  for (int i = 0; i < 2; ++i) {
    publisher.add(stage(fs, i), io::RenameMode::kReplace,
                  [&, i](Result<void> result) { promises[i].set_value(std::move(result)); });
  }
  publisher.hurry();
  for (auto& promise : promises) {
    EXPECT_THAT(promise.get_future().get(), FailsWith(ErrorCode::kIo));
  }
  EXPECT_THAT(tree_of(fs.disk(), "/d"), IsEmpty());
}

TEST(Publisher, WhatMustBeFreeIsNotReplaced) {
  FaultyFileSystem fs({}, disk());
  write_file(fs.disk(), "/d/1", "old");
  Publisher publisher(fs, "/d", {}, kNever);
  std::promise<Result<void>> promise;
  publisher.add(stage(fs, 1), io::RenameMode::kNoReplace,
                [&](Result<void> result) { promise.set_value(std::move(result)); });
  publisher.hurry();
  EXPECT_THAT(promise.get_future().get(), FailsWith(ErrorCode::kExists));
  EXPECT_EQ(tree_of(fs.disk(), "/d"), (std::map<std::string, std::string>{{"1", "old"}}));
}

TEST(Publisher, AStopThrowsAwayWhatWaits) {
  FaultyFileSystem fs({}, disk());
  std::stop_source stop;
  Publisher publisher(fs, "/d", stop.get_token(), kNever);
  std::promise<Result<void>> promise;
  publisher.add(stage(fs, 1), io::RenameMode::kReplace,
                [&](Result<void> result) { promise.set_value(std::move(result)); });
  stop.request_stop();
  EXPECT_THAT(promise.get_future().get(), FailsWith(ErrorCode::kCancelled));
  Result<void> late;
  publisher.add(stage(fs, 2), io::RenameMode::kReplace,
                [&](Result<void> result) { late = result; });
  EXPECT_THAT(late, FailsWith(ErrorCode::kCancelled));
  EXPECT_THAT(tree_of(fs.disk(), "/d"), IsEmpty());
}

TEST(Publisher, TheDestructorThrowsAwayWhatWaits) {
  FaultyFileSystem fs({}, disk());
  Result<void> outcome;
  {
    Publisher publisher(fs, "/d", {}, kNever);
    publisher.add(stage(fs, 1), io::RenameMode::kReplace,
                  [&](Result<void> result) { outcome = result; });
  }
  EXPECT_THAT(outcome, FailsWith(ErrorCode::kCancelled));
  EXPECT_THAT(tree_of(fs.disk(), "/d"), IsEmpty());
}

// A full group holds back who brings more, until it was published.
TEST(Publisher, AddWaitsWhileTheGroupIsFull) {
  FaultyFileSystem fs({}, disk());
  std::atomic<int> published{0};  // Outlives the publisher, which tells of the last when it ends.
  Publisher publisher(fs, "/d", {},
                      {.files = 2, .age = std::chrono::hours(1), .idle = std::chrono::hours(1)});
  for (int i = 0; i < 20; ++i) {
    publisher.add(stage(fs, i), io::RenameMode::kReplace,
                  [&](const Result<void>& result) { published += result.ok() ? 1 : 0; });
    EXPECT_GE(published + 4, i);  // One group waits, one is under way.
  }
}

TEST(StagedFile, AnotherSizeThanWrittenIsFound) {
  io::MemoryFileSystem fs;
  const auto file = *StagedFile::create(fs, "/t", "/f", 0600);
  ASSERT_THAT(file->write(0, bytes_of("abc"), true), IsOk());
  const auto other = *fs.open("/t", {.access = io::Access::kWrite});
  ASSERT_THAT(other->truncate(1), IsOk());
  EXPECT_THAT(file->finish(3, std::nullopt, std::nullopt, false), FailsWith(ErrorCode::kCorrupt));
}

TEST(StagedFile, IsGoneUnlessPublished) {
  io::MemoryFileSystem fs;
  { const auto file = *StagedFile::create(fs, "/t", "/f", 0600); }
  EXPECT_THAT(fs.stat("/t"), FailsWith(ErrorCode::kNotFound));
  {
    const auto file = *StagedFile::create(fs, "/t", "/f", 0600);
    ASSERT_THAT(file->finish(0, 0600, 7, true), IsOk());
    ASSERT_THAT(file->publish(io::RenameMode::kReplace), IsOk());
  }
  EXPECT_EQ(fs.stat("/f")->mode, 0600u);
  EXPECT_EQ(fs.stat("/f")->mtime_ns, 7);
  { const auto link = *StagedFile::create_link(fs, "/t", "/l", "x"); }
  EXPECT_THAT(fs.stat_link("/t"), FailsWith(ErrorCode::kNotFound));
}

}  // namespace

}  // namespace penstock::sync
