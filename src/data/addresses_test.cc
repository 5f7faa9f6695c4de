#include "data/addresses.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace penstock::data {
namespace {

TEST(Addresses, Paths) {
  EXPECT_EQ(path_of_address("/a/b/"), "/a/b");
  EXPECT_EQ(path_of_address("tree:/a"), "/a");
  EXPECT_EQ(path_of_address("/"), "/");
  EXPECT_EQ(path_of_address("./a:b"), "./a:b");
  for (const char* other : {"s3://bucket/a", "file:/a", "memory:"})
    EXPECT_EQ(path_of_address(other), "") << other;
}

TEST(Addresses, RelativePaths) {
  const std::string here = "tree:" + std::filesystem::current_path().string();
  EXPECT_EQ(*make_path_absolute("a/*.tar"), here + "/a/*.tar");
  EXPECT_EQ(*make_path_absolute("./a"), here + "/a");
  EXPECT_EQ(*make_path_absolute(".//a/"), here + "/a");
  EXPECT_EQ(*make_path_absolute("."), here);
  EXPECT_EQ(*make_path_absolute("./"), here);
  EXPECT_EQ(*make_path_absolute("tree:a"), here + "/a");
  for (const char* same : {"/a/", "s3://bucket/a", "file:a"})
    EXPECT_EQ(*make_path_absolute(same), same);
}

TEST(Addresses, RootsOfClassFolders) {
  EXPECT_EQ(root_of_address("/data"), "");
  EXPECT_EQ(root_of_address("s3://bucket"), "");
  EXPECT_EQ(root_of_address("s3://bucket/"), "");
  EXPECT_EQ(root_of_address("s3://bucket/a/b"), "a/b/");
  EXPECT_EQ(root_of_address("s3://bucket/a/b/"), "a/b/");
  EXPECT_EQ(root_of_address("s3://bucket/a/*"), "a/");
  EXPECT_EQ(root_of_address("s3://bucket/*"), "");
  EXPECT_EQ(root_of_address("other://bucket/a/b"), "");
}

TEST(Addresses, Patterns) {
  EXPECT_TRUE(is_named_by({"/x", "/a/{1,2}-*.tar"}, "/a/2-b.tar"));
  EXPECT_FALSE(is_named_by({"/x", "/a/{1,2}-*.tar"}, "/a/3-b.tar"));
  EXPECT_FALSE(is_named_by({"s3://bucket/a"}, "/a"));
}

TEST(Addresses, Wids) {
  EXPECT_TRUE(is_wids_address("/a/list.json"));
  EXPECT_FALSE(is_wids_address("/a/*.json"));
  EXPECT_EQ(wids_address("/a/list.json", "x.tar"), "/a/x.tar");
  EXPECT_EQ(wids_address("list.json", "x.tar"), "x.tar");
  EXPECT_EQ(wids_address("/a/list.json", "/b/x.tar"), "/b/x.tar");
  EXPECT_EQ(wids_address("s3://bucket/list.json", "a[1].tar"), "s3://bucket/a\\[1\\].tar");
  EXPECT_EQ(wids_address("/a/list.json", "s3://bucket/x.tar"), "s3://bucket/x.tar");
}

}  // namespace
}  // namespace penstock::data
