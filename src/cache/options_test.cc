#include "cache/options.h"

#include <gtest/gtest.h>

#include "io/memory_file_system.h"

namespace penstock::cache {
namespace {

CacheOptions sensible() {
  return {.directories = {"/a", "/b"}};
}

TEST(CacheOptions, DefaultsAreAccepted) {
  EXPECT_TRUE(check_options(sensible()).ok());
}

TEST(CacheOptions, WhatMakesNoSenseIsRefusedByName) {
  const auto refused = [](auto change, const std::string& word) {
    CacheOptions options = sensible();
    change(options);
    const Result<void> checked = check_options(options);
    ASSERT_FALSE(checked.ok()) << word;
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalid);
    EXPECT_NE(checked.error().detail.find(word), std::string::npos) << checked.error().detail;
  };
  refused([](CacheOptions& o) { o.directories.clear(); }, "at least one");
  refused([](CacheOptions& o) { o.directories = {"/a", ""}; }, "empty");
  refused([](CacheOptions& o) { o.directories = {"/a", "/a/"}; }, "twice");
  refused([](CacheOptions& o) { o.directories = {"/x/../a", "/a"}; }, "twice");
  refused([](CacheOptions& o) { o.directories = {"/a", "/a-b", "/a/b"}; }, "/a/b lies inside /a");
  refused([](CacheOptions& o) { o.window_bytes = 3 * kMiB; }, "power of two");
  refused([](CacheOptions& o) { o.window_bytes = 64 * kKiB; }, "power of two");
  refused([](CacheOptions& o) { o.memory_bytes = kMiB; }, "memory");
  refused([](CacheOptions& o) { o.quota = {.bytes = 0}; }, "quota");
  refused([](CacheOptions& o) { o.slow_after = Nanoseconds(0); }, "slow_after");
}

TEST(CacheOptions, DirectoriesAreTheSameByWhateverPath) {
  io::MemoryFileSystem fs;
  for (const char* path : {"/a", "/a/b", "/a-b"}) ASSERT_TRUE(fs.make_directory(path).ok());
  ASSERT_TRUE(fs.make_symlink("a", "/alias").ok());
  EXPECT_TRUE(check_apart(fs, {"/a", "/a-b", "/missing"}).ok());
  const auto refused = [&](const std::vector<std::string>& directories, std::string_view words) {
    const Result<void> checked = check_apart(fs, directories);
    ASSERT_FALSE(checked.ok()) << words;
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalid);
    EXPECT_NE(checked.error().detail.find(words), std::string::npos) << checked.error().detail;
  };
  refused({"/a-b", "/alias", "/a"}, "/alias and /a are the same");
  refused({"/alias/b", "/a"}, "/alias/b lies inside /a");
  refused({"/a", "/alias/b"}, "/alias/b lies inside /a");
}

TEST(CacheOptions, ADirectoryHasOneName) {
  EXPECT_EQ(normal_directory("/nvme//cache/", true), "/nvme/cache");
  EXPECT_EQ(normal_directory("/nvme/./x/../cache", true), "/nvme/cache");
  EXPECT_EQ(normal_directory("/", true), "/");
  EXPECT_EQ(normal_directory("cache/", false), "cache");
  EXPECT_TRUE(normal_directory("cache", true).starts_with('/'));
  EXPECT_TRUE(normal_directory("cache", true).ends_with("/cache"));
  EXPECT_EQ(normal_directory("./cache//", true), normal_directory("cache", true));
}

}  // namespace
}  // namespace penstock::cache
