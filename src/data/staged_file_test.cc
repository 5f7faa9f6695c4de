#include "data/staged_file.h"

#include "data/far_store.h"
#include "data/test_support.h"

namespace penstock::data {
namespace {

constexpr uint64_t kWindow = 4 * kMiB;

class StagedFileTest : public ::testing::Test {
 protected:
  void open(uint64_t quota, uint64_t size) {
    text_.resize(size);
    for (size_t at = 0; at + 8 <= size; at += 8) std::memcpy(text_.data() + at, &at, 8);
    far_.put("a", text_);
    ASSERT_THAT(fs_.make_directory("/drive"), IsOk());
    cache::CacheOptions options;
    options.directories = {"/drive/cache"};
    options.quota = {.bytes = quota};
    options.free_floor = {.bytes = 0};
    options.file_system = &fs_;
    auto cache = cache::Cache::open(options);
    ASSERT_THAT(cache, IsOk());
    cache_ = *cache;
    auto source = open_source("far://bucket", fs_, /*real_file_system=*/false, nullptr, cache_);
    ASSERT_THAT(source, IsOk());
    source_ = std::make_unique<Source>(std::move(*source));
    const auto object = source_->store->head("a");
    ASSERT_THAT(object, IsOk());
    auto file = open_shard_file(*source_, *object, io::CacheMode::kBuffered, stop_.get_token());
    ASSERT_THAT(file, IsOk());
    file_ = make_staged_file(std::move(*file), *source_->cached, *object, stop_.get_token());
  }

  void expect_right(uint64_t offset, size_t size) {
    std::string got(size, '\0');
    ASSERT_THAT(file_->read(offset, std::as_writable_bytes(std::span(got))), IsOk());
    ASSERT_EQ(got, text_.substr(offset, size)) << offset;
  }

  io::MemoryFileSystem fs_;
  FarStore far_{"bucket"};
  std::string text_;
  std::shared_ptr<cache::Cache> cache_;
  std::unique_ptr<Source> source_;
  std::stop_source stop_;
  std::unique_ptr<ShardFile> file_;
};

TEST_F(StagedFileTest, IsReadFromFrontToBackAndStaysInTheCache) {
  open(kGiB, 40 * kMiB + 123);
  EXPECT_FALSE(file_->is_remote());
  const size_t step = 700'001;
  for (uint64_t at = 0; at < text_.size(); at += step) {
    expect_right(at, std::min<uint64_t>(step, text_.size() - at));
  }
  EXPECT_EQ(far_.fetched_bytes(), text_.size());
  EXPECT_GT(cache_->stats().fill_bytes, text_.size());
  EXPECT_EQ(cache_->stats().misses, 0);
}

TEST_F(StagedFileTest, WhatIsPassedOverIsNotFetched) {
  open(kGiB, 48 * kMiB);
  for (const uint64_t at : {0, 17, 40}) expect_right(at * kMiB, 512);
  EXPECT_EQ(far_.fetched_bytes(), 3 * kWindow);
  expect_right(17 * kMiB + 5, 100);
  expect_right(3 * kMiB, 2 * kMiB);  // Back, and over the end of a window.
  expect_right(text_.size() - 1, 1);
  EXPECT_EQ(far_.fetched_again_bytes(), 0);
}

TEST_F(StagedFileTest, ACacheWithoutRoomIsReadPast) {
  far_.put("before", std::string(26 * kMiB, 'x'));
  open(/*quota=*/32 * kMiB, 20 * kMiB);
  std::vector<std::byte> before(26 * kMiB);
  ASSERT_THAT(source_->store->get("before", 0, before), IsOk());
  cache_->settle(deadline_in(std::chrono::seconds(60)));
  const size_t step = 3 * kMiB;
  for (uint64_t at = 0; at < text_.size(); at += step) {
    expect_right(at, std::min<uint64_t>(step, text_.size() - at));
  }
  EXPECT_TRUE(file_->is_remote()) << "as without it";
}

TEST_F(StagedFileTest, AShardThatDoesNotFitIsLeftToItsReaders) {
  open(/*quota=*/20 * kMiB, 24 * kMiB);
  EXPECT_TRUE(file_->is_remote());
  expect_right(5 * kMiB, 100'000);
}

TEST_F(StagedFileTest, RangesThatAreNotThereAreRefused) {
  open(kGiB, kMiB);
  std::vector<std::byte> into(2);
  EXPECT_THAT(file_->read(kMiB - 1, into), FailsWith(ErrorCode::kInvalid));
  EXPECT_THAT(file_->read(UINT64_MAX, into), FailsWith(ErrorCode::kInvalid));
  EXPECT_THAT(file_->read(kMiB, std::span(into).first(0)), IsOk());
}

TEST_F(StagedFileTest, CanBeCancelled) {
  open(kGiB, 8 * kMiB);
  stop_.request_stop();
  std::vector<std::byte> into(2);
  EXPECT_THAT(file_->read(0, into), FailsWith(ErrorCode::kCancelled));
}

}  // namespace
}  // namespace penstock::data
