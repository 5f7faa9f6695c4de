#include <fmt/core.h>

#include "sync/test_support.h"

namespace penstock::sync {

namespace {

using io::MemoryFileSystem;

constexpr int64_t kTime = 1'600'000'000'123'456'789;

Report run_ok(Place& from, Place& to, const Options& options) {
  Result<Report> report = run(from, to, options);
  EXPECT_THAT(report, IsOk());
  if (!report.ok()) return {};
  EXPECT_EQ(report->totals.failed, 0u) << failures_of(*report);
  return *report;
}

TEST(Run, TreeToTree) {
  MemoryFileSystem fs;
  write_file(fs, "/from/a", "alpha", kTime, 0640);
  write_file(fs, "/from/d/e/b", std::string(100'000, 'x'), kTime + 1, 0755);
  write_file(fs, "/from/empty", "", kTime);
  ASSERT_THAT(fs.make_directory("/from/hollow", 0700), IsOk());
  ASSERT_THAT(fs.make_symlink("d/e/b", "/from/link"), IsOk());
  const auto from = tree_place(fs, "/from");
  const auto to = tree_place(fs, "/to", true);
  const Report report = run_ok(*from, *to, small_options());
  EXPECT_EQ(tree_of(fs, "/to"), tree_of(fs, "/from"));
  EXPECT_EQ(fs.stat("/to/a")->mode, 0640u);
  EXPECT_EQ(fs.stat("/to/a")->mtime_ns, kTime);
  EXPECT_EQ(fs.stat("/to/d/e/b")->mtime_ns, kTime + 1);
  EXPECT_EQ(fs.stat("/to/d/e/b")->mode, 0755u);
  EXPECT_EQ(fs.stat("/to/hollow")->mode, 0700u);
  EXPECT_EQ(report.totals.copied, 4u);
  const Report again = run_ok(*from, *to, small_options());
  EXPECT_EQ(again.totals.copied, 0u);
  EXPECT_EQ(again.totals.same, 4u);
}

TEST(Run, TreeToStoreAndBack) {
  MemoryFileSystem fs;
  write_file(fs, "/from/a", "alpha", kTime, 0640);
  write_file(fs, "/from/d/e/b", std::string(100'000, 'x'), kTime + 1, 0755);
  write_file(fs, "/from/empty", "", kTime);
  const auto from = tree_place(fs, "/from");
  const auto middle = store_place(store::make_memory_store());
  const auto to = tree_place(fs, "/to", true);
  const Report report = run_ok(*from, *middle, small_options());
  EXPECT_EQ(report.totals.copied, 3u);
  EXPECT_EQ(run_ok(*from, *middle, small_options()).totals.copied, 0u);
  run_ok(*middle, *to, small_options());
  EXPECT_EQ(tree_of(fs, "/to"), tree_of(fs, "/from"));
  EXPECT_EQ(run_ok(*middle, *to, small_options()).totals.copied, 0u);
}

}  // namespace

}  // namespace penstock::sync
