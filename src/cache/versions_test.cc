#include "cache/versions.h"

#include <gtest/gtest.h>

namespace penstock::cache {
namespace {

store::ObjectInfo info_of(const std::string& key, const std::string& etag, uint64_t size) {
  return {.key = key, .size = size, .etag = etag};
}

store::GetOptions naming(const std::string& etag, std::optional<uint64_t> size = {}) {
  store::GetOptions options;
  options.if_match = etag;
  options.size = size;
  return options;
}

TEST(Versions, WhatTheCallerKnowsIsTaken) {
  Versions versions("s3://b/", Nanoseconds(0));
  const VersionRef version = versions.find("k", naming("e", 10));
  ASSERT_TRUE(version);
  EXPECT_EQ(version->object, (ObjectVersion{"s3://b/k", "e", 10}));
  EXPECT_EQ(version->id, version_id(version->object));
  EXPECT_FALSE(versions.find("other", naming("e"))) << "its size is not known";
  EXPECT_TRUE(versions.find("k", naming("e"))) << "its size is known by now";
}

TEST(Versions, WhatACallerSaidIsNotBelievedForThoseWhoNameNone) {
  Versions versions("x/", std::chrono::hours(1));
  (void)versions.find("k", naming("e", 10));
  EXPECT_FALSE(versions.find("k", {}));
  versions.learn(info_of("k", "e", 10));
  EXPECT_TRUE(versions.find("k", {}));
}

TEST(Versions, NothingIsBelievedForLongerThanAllowed) {
  Versions versions("x/", Nanoseconds(0));
  versions.learn(info_of("k", "e", 10));
  EXPECT_FALSE(versions.find("k", {}));
  EXPECT_TRUE(versions.find("k", naming("e")));
}

TEST(Versions, AnotherVersionThanTheOneWrittenMustBeAskedFor) {
  Versions versions("x/", Nanoseconds(0));
  versions.learn(info_of("k", "new", 10));
  EXPECT_FALSE(versions.find("k", naming("old", 10)));
  EXPECT_FALSE(versions.find("k", naming("new", 11))) << "the size differs";
  versions.doubt("k");
  EXPECT_FALSE(versions.find("k", naming("new", 10)));
}

TEST(Versions, TheLeastUsedAreForgotten) {
  Versions versions("x/", std::chrono::hours(1));
  for (int i = 0; i < 20000; ++i) versions.learn(info_of("k" + std::to_string(i), "e", 1));
  EXPECT_FALSE(versions.find("k0", {}));
  EXPECT_TRUE(versions.find("k19999", {}));
}

}  // namespace
}  // namespace penstock::cache
