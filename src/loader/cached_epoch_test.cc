// What a dataset that is far away costs the first time: its index, and its first epoch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/far_store.h"
#include "data/test_support.h"
#include "penstock/loader.h"

namespace penstock::loader {
namespace {

using data::FarStore;

constexpr uint64_t kShards = 4;
constexpr uint64_t kShardBytes = 24 * kMiB;

class CachedEpochTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_THAT(fs_.make_directory("/drive"), IsOk());
    cache::CacheOptions options;
    options.directories = {"/drive/cache"};
    options.quota = {.bytes = kGiB};
    options.free_floor = {.bytes = 0};
    options.memory_bytes = 64 * kMiB;  // Less than the data: what is not kept is gone.
    options.file_system = &fs_;
    auto cache = cache::Cache::open(options);
    ASSERT_THAT(cache, IsOk());
    cache_ = *cache;
  }

  // Shards of samples of about this size.
  void fill(size_t sample_bytes) {
    for (uint64_t shard = 0; shard < kShards; ++shard) {
      data::TarWriter tar;
      for (uint64_t i = 0; tar.size() < kShardBytes; ++i) {
        tar.add(fmt::format("{:04}-{:06}.bin", shard, i), std::string(sample_bytes, 'x'));
        ++samples_;
      }
      const std::string bytes = tar.finish();
      far_.put(fmt::format("train-{}.tar", shard), bytes);
      bytes_ += bytes.size();
    }
  }

  LoaderOptions options(Shuffle shuffle) {
    LoaderOptions options;
    options.sources = {{.addresses = {"far://bucket/train-*.tar"}}};
    options.fields = {{.name = "data", .kind = FieldKind::kBytes, .from = {"bin"}}};
    options.batch_size = 8;
    options.shuffle = shuffle;
    options.last = Last::kPad;
    options.threads = 2;
    options.memory_bytes = 256 * kMiB;
    options.open.cache = cache_;
    options.open.file_system = &fs_;
    options.open.index_dir = "/index";
    return options;
  }

  static uint64_t read_epoch(Loader& loader) {
    uint64_t samples = 0;
    while (true) {
      const auto batch = loader.next();
      EXPECT_THAT(batch, IsOk());
      if (!batch.ok() || *batch == nullptr) return samples;
      for (const uint8_t there : (*batch)->mask()) samples += there;
    }
  }

  io::MemoryFileSystem fs_;
  FarStore far_{"bucket"};
  std::shared_ptr<cache::Cache> cache_;
  uint64_t samples_ = 0;
  uint64_t bytes_ = 0;
};

// A drive of the cache that is slower than the source, as this one is, must not cost a byte.
TEST_F(CachedEpochTest, IndexAndFirstEpochFetchEachByteOnce) {
  fill(/*sample_bytes=*/100'000);
  const auto loader = Loader::open(options(Shuffle::kNone));
  ASSERT_THAT(loader, IsOk());
  EXPECT_EQ(read_epoch(**loader), samples_);
  EXPECT_EQ(far_.fetched_again_bytes(), 0);
  EXPECT_EQ(far_.fetched_bytes(), bytes_);
}

TEST_F(CachedEpochTest, SoDoShuffledEpochs) {
  fill(/*sample_bytes=*/100'000);
  const auto loader = Loader::open(options(Shuffle::kGlobal));
  ASSERT_THAT(loader, IsOk());
  EXPECT_EQ(read_epoch(**loader), samples_);
  EXPECT_EQ(far_.fetched_again_bytes(), 0);
}

// Of which the index wants only some parts.
TEST_F(CachedEpochTest, SoDoLargeSamples) {
  fill(/*sample_bytes=*/10'000'000);
  const auto loader = Loader::open(options(Shuffle::kNone));
  ASSERT_THAT(loader, IsOk());
  EXPECT_LT(far_.fetched_bytes(), bytes_);
  EXPECT_EQ(read_epoch(**loader), samples_);
  EXPECT_LE(far_.fetched_again_bytes(), bytes_ / 4) << "some are read while they are staged";
}

// Who asks with a deadline that passes just when a batch is there gets that batch the next time.
TEST_F(CachedEpochTest, DeadlinesThatPassLoseNoBatch) {
  fill(/*sample_bytes=*/20'000);
  const auto loader = Loader::open(options(Shuffle::kNone));
  ASSERT_THAT(loader, IsOk());
  for (int epoch = 0; epoch < 3; ++epoch) {
    uint64_t samples = 0;
    for (int wait = 0;; ++wait) {
      const auto batch = (*loader)->next(deadline_in(std::chrono::microseconds(wait % 100)));
      if (!batch.ok()) {
        ASSERT_THAT(batch, FailsWith(ErrorCode::kTimeout));
        continue;
      }
      if (*batch == nullptr) break;
      for (const uint8_t there : (*batch)->mask()) samples += there;
    }
    EXPECT_EQ(samples, samples_);
  }
}

}  // namespace
}  // namespace penstock::loader
