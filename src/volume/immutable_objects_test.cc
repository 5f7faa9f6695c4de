#include "volume/immutable_objects.h"

#include "io/memory_file_system.h"
#include "store/counting_store.h"
#include "volume/host_test_support.h"
#include "volume/object_format.h"

namespace penstock::volume {
namespace {

class ImmutableObjects : public ::testing::Test {
 protected:
  void SetUp() override {
    auto counting = std::make_unique<store::CountingStore>(*store::open_store("memory:", {}));
    counting_ = counting.get();
    ASSERT_THAT(counting->put(key_, bytes_), IsOk());
    cache_ = *cache::Cache::open(
        {.directories = {"/cache"}, .mode = io::CacheMode::kBuffered, .file_system = &fs_});
    objects_ = cache_objects(std::move(counting), cache_, [this](meta::ObjectId) { return size_; });
  }
  void expect_read() {
    Bytes into(5'000);
    const auto got = objects_->get(key_, 70'000, into);
    ASSERT_THAT(got, IsOk());
    EXPECT_TRUE(std::ranges::equal(into, std::span(bytes_).subspan(70'000, 5'000)));
  }

  io::MemoryFileSystem fs_;
  const std::string key_ = object_key({}, {1, 7});
  const Bytes bytes_ = random_bytes(100'000, 1);
  std::optional<uint64_t> size_ = bytes_.size();
  store::CountingStore* counting_ = nullptr;
  std::shared_ptr<cache::Cache> cache_;
  std::unique_ptr<store::ObjectStore> objects_;
};

TEST_F(ImmutableObjects, TheStoreIsNotAskedWhichVersionThereIs) {
  for (int i = 0; i < 3; ++i) expect_read();
  EXPECT_EQ(counting_->counts(store::CallKind::kHead).calls, 0u);
}

TEST_F(ImmutableObjects, OneOfUnknownSizeIsReadToo) {
  size_.reset();
  for (int i = 0; i < 3; ++i) expect_read();
}

TEST_F(ImmutableObjects, PastTheCacheTheyAreTheSame) {
  expect_read();
  store::GetOptions options;
  options.bypass_cache = true;
  Bytes into(bytes_.size());
  ASSERT_THAT(objects_->get(key_, 0, into, options), IsOk());
  EXPECT_EQ(into, bytes_);
}

TEST_F(ImmutableObjects, WhatIsNotThereIsNotFound) {
  Bytes into(10);
  const auto got = objects_->get(object_key({}, {1, 8}), 0, into);
  ASSERT_THAT(got, FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(got.error().detail, ::testing::HasSubstr("memory:"));
}

TEST(ObjectKey, IsReadAsItIsWritten) {
  const meta::ObjectId id{0x12345678, 0x9abcdef0};
  EXPECT_EQ(parse_object_key(object_key({}, id)), id);
  for (const char* text : {"", "a", "0123456789abcdef0123456789abcdef/00000001+00000001",
                           "0123456789abcdef0123456789abcdef/0000000x-00000001"}) {
    EXPECT_EQ(parse_object_key(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace penstock::volume
