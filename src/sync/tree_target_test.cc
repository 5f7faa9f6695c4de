#include "sync/tree_target.h"

#include "sync/odd_file_systems.h"
#include "sync/test_support.h"

namespace penstock::sync {

namespace {

using ::testing::ElementsAre;

class TreeTargetTest : public ::testing::Test {
 protected:
  static std::unique_ptr<TreeTarget> open(io::FileSystem& fs, TreeTarget::Settings settings = {}) {
    auto target = std::make_unique<TreeTarget>(fs, "/to", std::move(settings));
    EXPECT_THAT(target->prepare(), IsOk());
    return target;
  }
  static void put(TreeTarget& target, const std::string& key) {
    auto file = target.start(key, false);
    ASSERT_THAT(file, IsOk());
    ASSERT_THAT((*file)->finish(0, std::nullopt, std::nullopt, false), IsOk());
    ASSERT_THAT((*file)->publish(io::RenameMode::kReplace), IsOk());
  }

  io::MemoryFileSystem fs_;
};

TEST_F(TreeTargetTest, MakesDirectoriesAndTellsEachOnce) {
  std::vector<std::string> made;
  const auto target =
      open(fs_, {.mode_of_folder = {},
                 .on_directory = [&](const std::string& path) { made.push_back(path); }});
  put(*target, "a/b/f");
  put(*target, "a/b/g");
  put(*target, "a/h");
  EXPECT_THAT(made, ElementsAre("", "a", "a/b"));
  EXPECT_THAT(target->finish(true), IsOk());
}

TEST_F(TreeTargetTest, NamesThatLeadOutOrCannotBeAreRefused) {
  const auto target = open(fs_);
  for (const std::string& key :
       {std::string("../x"), std::string("a/../x"), std::string("/x"), std::string("a//x"),
        std::string("./x"), std::string(""), std::string("x/"), std::string("a\0b", 3),
        std::string(256, 'x'), std::string(256, 'x') + "/f", std::string(".penstock-tmp-x"),
        "d/" + std::string(".penstock-tmp-x/f"), std::string(1025, 'x')}) {
    EXPECT_THAT(target->start(key, true), FailsWith(ErrorCode::kInvalid)) << key;
    EXPECT_THAT(target->start_link(key, "x"), FailsWith(ErrorCode::kInvalid)) << key;
  }
  EXPECT_THAT(tree_of(fs_, "/to"), ::testing::IsEmpty());
}

TEST_F(TreeTargetTest, WritesThroughNoLink) {
  ASSERT_THAT(fs_.make_directory("/elsewhere"), IsOk());
  ASSERT_THAT(fs_.make_directory("/to"), IsOk());
  ASSERT_THAT(fs_.make_symlink("/elsewhere", "/to/link"), IsOk());
  const auto target = open(fs_);
  EXPECT_THAT(target->start("link/f", true), FailsWith(ErrorCode::kExists));
  put(*target, "link");  // A link in the way of a file is replaced.
  EXPECT_THAT(tree_of(fs_, "/elsewhere"), ::testing::IsEmpty());
  EXPECT_EQ(fs_.stat_link("/to/link")->kind, io::FileKind::kFile);
}

TEST_F(TreeTargetTest, AFileInTheWayOfADirectoryStays) {
  write_file(fs_, "/to/a", "old");
  const auto target = open(fs_);
  EXPECT_THAT(target->start("a/b", true), FailsWith(ErrorCode::kExists));
  EXPECT_EQ(tree_of(fs_, "/to")["a"], "old");
}

TEST_F(TreeTargetTest, ProbesCaseAndTimes) {
  EXPECT_FALSE(open(fs_)->folds_case());
  EXPECT_EQ(open(fs_)->time_step_ns(), 1);
  FoldingFileSystem folding(fs_);
  EXPECT_TRUE(open(folding)->folds_case());
  for (const int64_t step : {int64_t{100}, int64_t{1000}, int64_t{1'000'000}}) {
    CoarseFileSystem coarse(fs_, step);
    EXPECT_EQ(open(coarse)->time_step_ns(), step);
  }
  for (const int64_t step : {int64_t{1'000'000'000}, int64_t{2'000'000'000}}) {
    CoarseFileSystem coarse(fs_, step);
    EXPECT_EQ(open(coarse)->time_step_ns(), 2'000'000'000);
  }
  EXPECT_THAT(tree_of(fs_, "/to"), ::testing::IsEmpty());
}

TEST_F(TreeTargetTest, DirectoriesGetTheirModesAndThoseThatLockUsOutGetThemLast) {
  const auto target = open(fs_, {.mode_of_folder =
                                     [](const std::string& folder) {
                                       return std::optional<uint32_t>(folder == "a" ? 0555 : 0711);
                                     },
                                 .on_directory = {}});
  put(*target, "a/b/f");
  EXPECT_EQ(fs_.stat("/to/a")->mode, 0755u);
  EXPECT_EQ(fs_.stat("/to/a/b")->mode, 0711u);
  EXPECT_THAT(target->finish(true), IsOk());
  EXPECT_EQ(fs_.stat("/to/a")->mode, 0555u);
  EXPECT_EQ(fs_.stat("/to/a/b")->mode, 0711u);
}

TEST_F(TreeTargetTest, ADirectoryThatWasOpenedUpGetsItsModeBackWhateverHappens) {
  GuardedFileSystem fs(fs_);
  ASSERT_THAT(fs_.make_directory("/to"), IsOk());
  ASSERT_THAT(fs_.make_directory("/to/a", 0500), IsOk());
  auto target = open(
      fs, {.mode_of_folder = [](const std::string&) { return std::nullopt; }, .on_directory = {}});
  put(*target, "a/f");
  EXPECT_EQ(fs_.stat("/to/a")->mode, 0700u);
  target.reset();  // Not finished.
  EXPECT_EQ(fs_.stat("/to/a")->mode, 0500u);
}

TEST_F(TreeTargetTest, WhatWillHaveAModeIsNobodyElsesBefore) {
  const auto target = open(fs_);
  const auto secret = *target->start("secret", true);
  const auto plain = *target->start("plain", false);
  std::multiset<uint32_t> modes;
  for (const auto& [path, text] : tree_of(fs_, "/to")) modes.insert(fs_.stat("/to/" + path)->mode);
  EXPECT_THAT(modes, ElementsAre(0600u, 0644u));
}

TEST_F(TreeTargetTest, RemovesOnlyEmptyDirectories) {
  const auto target = open(fs_);
  put(*target, "a/b/f");
  EXPECT_FALSE(*target->remove_folder("a/"));
  EXPECT_THAT(target->remove("a/b/f"), IsOk());
  EXPECT_THAT(target->remove("a/b/f"), IsOk());
  EXPECT_TRUE(*target->remove_folder("a/b/"));
  EXPECT_TRUE(*target->remove_folder("a/b/"));
  put(*target, "a/b/f");  // It is made anew.
  EXPECT_EQ(tree_of(fs_, "/to").size(), 3u);
}

TEST_F(TreeTargetTest, OldUnfinishedFilesGo) {
  int64_t now = 1;
  io::MemoryFileSystem fs({.now_ns = [&] { return now; }});
  write_file(fs, "/to/.penstock-tmp-old", "x");
  now = std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  write_file(fs, "/to/.penstock-tmp-new", "x", /*mtime_ns=*/1);
  const auto target = open(fs);
  target->remove_if_old(".penstock-tmp-old");
  target->remove_if_old(".penstock-tmp-new");
  target->remove_if_old(".penstock-tmp-missing");
  EXPECT_THAT(fs.stat("/to/.penstock-tmp-old"), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(fs.stat("/to/.penstock-tmp-new"), IsOk());
}

}  // namespace

}  // namespace penstock::sync
