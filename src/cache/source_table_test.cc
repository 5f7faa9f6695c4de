#include "cache/source_table.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

TEST(SourceTable, SumsByFolder) {
  SourceTable table;
  table.add("s3://host/bucket/train/a.tar", 10);
  table.add("s3://host/bucket/train/b.tar", 5);
  table.add("s3://host/bucket/x", 1);
  table.add("tree:/mnt/data/y", 20);
  EXPECT_THAT(table.rows(10), ElementsAre(SourceUse{"tree:/mnt/data/", 1, 20},
                                          SourceUse{"s3://host/bucket/train/", 2, 15},
                                          SourceUse{"s3://host/bucket/", 1, 1}));
}

TEST(SourceTable, FoldsTheDeepestFirst) {
  SourceTable table;
  for (int i = 0; i < 5; ++i) table.add(fmt::format("tree:/mnt/data/deep/{}/x", i), 1);
  table.add("tree:/mnt/data/flat", 100);
  EXPECT_THAT(table.rows(3), ElementsAre(SourceUse{"tree:/mnt/data/", 1, 100},
                                         SourceUse{"tree:/mnt/data/deep/", 5, 5}));
  EXPECT_THAT(table.rows(1), ElementsAre(SourceUse{"tree:/mnt/data/", 6, 105}));
}

TEST(SourceTable, NeverFoldsBucketsOrStoresIntoOneAnother) {
  SourceTable table;
  for (const char* url : {"s3://host/b1/f/x", "s3://host/b2/f/x", "tree:/a/x", "memory:12ab/k/x"}) {
    table.add(url, 1);
  }
  std::vector<std::string> folders;
  for (const SourceUse& row : table.rows(1)) folders.push_back(row.folder);
  EXPECT_THAT(folders, ElementsAre("memory:12ab/", "s3://host/b1/", "s3://host/b2/", "tree:/"));
}

TEST(SourceTable, IsBoundedWhateverComes) {
  SourceTable folders;
  SourceTable buckets;
  for (int i = 0; i < 30'000; ++i) {
    folders.add(fmt::format("s3://h/b/{}/{}/x", i % 100, i), 2);
    buckets.add(fmt::format("s3://h/{}/x", i), 2);
  }
  uint64_t bytes = 0;
  for (const SourceUse& row : folders.rows(SIZE_MAX)) bytes += row.bytes;
  EXPECT_EQ(bytes, 60'000u);
  EXPECT_LE(folders.rows(SIZE_MAX).size(), 10'000u);
  EXPECT_THAT(folders.rows(100), SizeIs(100));
  const std::vector<SourceUse> rows = buckets.rows(10);
  EXPECT_LE(rows.size(), 10'001u);
  EXPECT_EQ(rows[0].folder, "");
  EXPECT_GE(rows[0].entries, 19'999u);
}

TEST(SourceTable, OddUrls) {
  SourceTable table;
  for (const char* url : {"", "x", "/", ":", "a:", "a:/", "a://", "a:///", "a//b//c"}) {
    table.add(url, 1);
  }
  uint64_t entries = 0;
  for (const SourceUse& row : table.rows(1)) entries += row.entries;
  EXPECT_EQ(entries, 9u);
}

}  // namespace
}  // namespace penstock::cache
