#include "store/object_address.h"

#include <gtest/gtest.h>

#include "penstock/store.h"

namespace penstock::store {
namespace {

Result<std::unique_ptr<ObjectStore>> open_nowhere(std::string_view rest, const StoreOptions&) {
  return make_error(ErrorCode::kNotFound, "nowhere has no " + std::string(rest));
}

TEST(ObjectAddress, HasAStoreAndAKey) {
  for (const auto& [address, store, key] : {std::tuple{"s3://bucket", "s3://bucket", ""},
                                            {"s3://bucket/", "s3://bucket", ""},
                                            {"s3://bucket/a/b*", "s3://bucket", "a/b*"},
                                            {"s3://bucket/a/", "s3://bucket", "a/"},
                                            {"s3:///a", "s3://", "a"},
                                            {"s3://", "s3://", ""}}) {
    const auto parts = split_object_address(address);
    ASSERT_TRUE(parts) << address;
    EXPECT_EQ(parts->store, store) << address;
    EXPECT_EQ(parts->key, key) << address;
  }
}

TEST(ObjectAddress, IsOneOfASchemeThatIsKnown) {
  for (const char* other : {"", "/a", "a/s3://b", "tree:/a", "tree://a", "file:/a",
                            "memory:", "s3:/a", "S3://a", "later://place/a"}) {
    EXPECT_FALSE(is_object_address(other)) << other;
  }
  add_store_scheme("later", open_nowhere);
  ASSERT_TRUE(is_object_address("later://place/a"));
  EXPECT_EQ(split_object_address("later://place/a")->store, "later://place");
  const auto opened = open_store("later://place/a", {});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().detail, "nowhere has no place/a");
}

}  // namespace
}  // namespace penstock::store
