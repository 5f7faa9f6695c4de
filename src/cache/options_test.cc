#include "cache/options.h"

#include <gtest/gtest.h>

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
  refused([](CacheOptions& o) { o.window_bytes = 3 * kMiB; }, "power of two");
  refused([](CacheOptions& o) { o.window_bytes = 64 * kKiB; }, "power of two");
  refused([](CacheOptions& o) { o.memory_bytes = kMiB; }, "memory");
  refused([](CacheOptions& o) { o.quota = {.bytes = 0}; }, "quota");
  refused([](CacheOptions& o) { o.slow_after = Nanoseconds(0); }, "slow_after");
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
