// What is only at the target, and what is in the way.
#include "sync/test_support.h"

namespace penstock::sync {

namespace {

using io::MemoryFileSystem;
using ::testing::UnorderedElementsAre;

TEST(Run, FiltersDecideWhatIsCopiedAndWhatIsDeleted) {
  MemoryFileSystem fs;
  fill(fs, "/from");
  write_file(fs, "/to/extra", "x");
  write_file(fs, "/to/d/extra.keep", "x");
  write_file(fs, "/to/only/extra", "x");
  write_file(fs, "/to/kept/extra.keep", "x");
  const auto from = tree_place(fs, "/from");
  const auto to = tree_place(fs, "/to");
  Options options = small_options();
  options.filters = {{false, "*.keep"}, {false, "/d/e/"}};
  options.delete_extra = true;
  const Report report = run_ok(*from, *to, options);
  EXPECT_EQ(report.totals.copied, 4u);
  EXPECT_EQ(report.totals.deleted, 3u);
  Tree expected = tree_of(fs, "/from");
  expected.erase("d/e");
  expected.erase("d/e/large");
  expected["d/extra.keep"] = "x";
  expected["kept"] = "/";
  expected["kept/extra.keep"] = "x";
  EXPECT_EQ(tree_of(fs, "/to"), expected);
}

TEST(Run, DeleteRemovesWhatOnlyTheTargetHas) {
  MemoryFileSystem fs;
  fill(fs, "/from");
  fill(fs, "/to");
  write_file(fs, "/to/x/y/z", "x");
  ASSERT_THAT(fs.make_directory("/to/x/hollow"), IsOk());
  ASSERT_THAT(fs.make_symlink("/from", "/to/x/link"), IsOk());
  write_file(fs, "/to/d/e/extra", "x");
  const auto from = tree_place(fs, "/from");
  const auto to = tree_place(fs, "/to");
  const Tree before = tree_of(fs, "/to");
  run_ok(*from, *to, small_options());
  EXPECT_EQ(tree_of(fs, "/to"), before);
  Options options = small_options();
  options.delete_extra = true;
  std::vector<std::string> deleted;
  options.on_action = [&](Action action, const std::string& key, uint64_t, std::string_view) {
    if (action == Action::kDelete) deleted.push_back(key);
  };
  const auto all = UnorderedElementsAre("d/e/extra", "x/y/z", "x/link", "x/hollow/", "x/y/", "x/");
  options.dry_run = true;
  EXPECT_EQ(run_ok(*from, *to, options).totals.deleted, 6u);
  EXPECT_THAT(std::exchange(deleted, {}), all);
  EXPECT_EQ(tree_of(fs, "/to"), before);
  options.dry_run = false;
  EXPECT_EQ(run_ok(*from, *to, options).totals.deleted, 6u);
  EXPECT_THAT(deleted, all);
  EXPECT_EQ(tree_of(fs, "/to"), tree_of(fs, "/from"));
}

TEST(Run, ADirectoryWithSomethingLeftOutIsNotDeleted) {
  MemoryFileSystem fs;
  write_file(fs, "/from/a", "a");
  write_file(fs, "/to/x/gone", "x");
  write_file(fs, "/to/x/y/stays.keep", "x");
  const auto from = tree_place(fs, "/from");
  const auto to = tree_place(fs, "/to");
  Options options = small_options();
  options.delete_extra = true;
  options.filters = {{false, "*.keep"}};
  for (const bool dry_run : {true, false}) {
    options.dry_run = dry_run;
    EXPECT_EQ(run_ok(*from, *to, options).totals.deleted, 1u);
  }
  EXPECT_EQ(tree_of(fs, "/to"),
            (Tree{{"a", "a"}, {"x", "/"}, {"x/y", "/"}, {"x/y/stays.keep", "x"}}));
}

TEST(Run, DeleteFromAStore) {
  const auto from = memory_place({{"a", "1"}, {"d/b", "2"}});
  const auto to =
      memory_place({{"a", "0"}, {"a2", "x"}, {"d/b/c", "x"}, {"e/f", "x"}, {"e/g", "x"}});
  Options options = small_options();
  options.delete_extra = true;
  EXPECT_EQ(run_ok(*from, *to, options).totals.deleted, 4u);
  EXPECT_THAT(objects_of(*to->store), ::testing::SizeIs(2));
  EXPECT_EQ(objects_of(*to->store)["d/b"], "2");
}

TEST(Run, NothingIsDeletedAfterAFailure) {
  MemoryFileSystem fs;
  write_file(fs, "/to/extra", "x");
  const auto from = memory_place({{"a", "1"}, {"a/b", "cannot be"}});
  const auto to = tree_place(fs, "/to");
  Options options = small_options();
  options.delete_extra = true;
  const Result<Report> report = run(*from, *to, options);
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->totals.failed, 1u);
  EXPECT_EQ(tree_of(fs, "/to"), (Tree{{"a", "1"}, {"extra", "x"}}));
}

// A file became a directory, a directory a file, and a link something else.
TEST(Run, KindsThatChangedAreReplacedWhenTheRestMayBeDeleted) {
  MemoryFileSystem fs;
  write_file(fs, "/from/file", "f");
  write_file(fs, "/from/directory/x", "x");
  write_file(fs, "/from/directory/deep/y", "y");
  ASSERT_THAT(fs.make_symlink("file", "/from/link"), IsOk());
  write_file(fs, "/to/file/old/z", "z");
  write_file(fs, "/to/directory", "d");
  write_file(fs, "/to/link/z", "z");
  const auto from = tree_place(fs, "/from");
  const auto to = tree_place(fs, "/to");
  const Tree before = tree_of(fs, "/to");
  const Result<Report> refused = run(*from, *to, small_options());
  ASSERT_THAT(refused, IsOk());
  EXPECT_THAT(failed_keys(*refused), UnorderedElementsAre("file", "directory/", "link"));
  EXPECT_EQ(tree_of(fs, "/to"), before);
  Options options = small_options();
  options.delete_extra = true;
  options.dry_run = true;
  EXPECT_EQ(run_ok(*from, *to, options).totals.to_copy, 4u);
  EXPECT_EQ(tree_of(fs, "/to"), before);
  options.dry_run = false;
  run_ok(*from, *to, options);
  EXPECT_EQ(tree_of(fs, "/to"), tree_of(fs, "/from"));
}

}  // namespace

}  // namespace penstock::sync
