#include "loader/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/result_matchers.h"
#include "loader/fake_dataset.h"
#include "loader/pipeline_shared.h"

namespace penstock::loader {
namespace {

using testing::HasSubstr;

Field bytes_field(std::string name, std::string ext) {
  return {.name = std::move(name), .kind = FieldKind::kBytes, .from = {std::move(ext)}};
}
Field int_field(std::string name, std::string ext) {
  return {.name = std::move(name), .kind = FieldKind::kInt, .from = {std::move(ext)}};
}

PipelineOptions test_options(uint32_t batch_size) {
  PipelineOptions options;
  options.fields = {bytes_field("text", "txt"), int_field("number", "txt"),
                    int_field("label", "cls")};
  options.batch_size = batch_size;
  options.memory_bytes = 16 * kMiB;
  options.threads = 3;
  options.pin = io::PinPolicy::kNever;
  return options;
}

BatchOrder order_of(const std::vector<uint64_t>& samples) {
  BatchOrder order;
  for (const uint64_t sample : samples) order.slots.push_back({.sample = sample});
  return order;
}

std::string text_of(const Batch& batch, size_t column, uint32_t slot) {
  const Column& one = batch.columns()[column];
  return std::string(reinterpret_cast<const char*>(one.data.data()) + one.starts[slot],
                     static_cast<size_t>(one.lengths[slot]));
}

int64_t int_of(const Batch& batch, size_t column, uint32_t slot) {
  return reinterpret_cast<const int64_t*>(batch.columns()[column].data.data())[slot];
}

struct Way {
  const char* name;
  bool local;
  io::CacheMode mode;
};

class PipelineTest : public testing::TestWithParam<Way> {
 protected:
  std::shared_ptr<FakeDataset> make_dataset(std::vector<uint32_t> shards) {
    return std::make_shared<FakeDataset>(FakeDataset::Options{
        .shard_samples = std::move(shards), .local = GetParam().local, .mode = GetParam().mode});
  }
  static std::unique_ptr<Pipeline> make_pipeline(const PipelineOptions& options,
                                                 std::shared_ptr<data::Dataset> dataset) {
    auto made = Pipeline::create(options, {std::move(dataset)});
    EXPECT_THAT(made, IsOk());
    return std::move(*made);
  }
};

TEST_P(PipelineTest, EverySlotHasItsSampleWhateverTheOrder) {
  const auto dataset = make_dataset({40, 1, 60, 7});
  const auto pipeline = make_pipeline(test_options(32), dataset);
  std::mt19937_64 random(3);
  std::vector<WorkRef> under_way;
  for (int round = 0; round < 200; ++round) {
    std::vector<uint64_t> samples(32);
    const bool in_order = random() % 3 == 0;
    const uint64_t first = random() % (108 - 32);
    for (size_t i = 0; i < 32; ++i) samples[i] = in_order ? first + i : random() % 108;
    auto started = pipeline->start(order_of(samples), {});
    ASSERT_THAT(started, IsOk());
    under_way.push_back(*started);
    if (under_way.size() < 4) continue;
    for (const WorkRef& batch : under_way) {
      ASSERT_THAT(pipeline->wait(*batch), IsOk());
      for (uint32_t slot = 0; slot < 32; ++slot) {
        const uint64_t sample = batch->samples()[slot];
        ASSERT_EQ(text_of(*batch, 0, slot).find(std::to_string(sample)), 0U);
        ASSERT_EQ(static_cast<uint64_t>(int_of(*batch, 1, slot)), sample);
        ASSERT_EQ(static_cast<uint64_t>(int_of(*batch, 2, slot)), sample % 10);
        ASSERT_EQ(batch->mask()[slot], 1);
        ASSERT_EQ(batch->key(slot), "key-" + std::to_string(sample));
      }
    }
    under_way.clear();
  }
}

// Whoever holds a batch last ends its datasets, which waits for their reads: never on a thread of theirs.
TEST_P(PipelineTest, ACompletionThatIsKeptHoldsNoBatch) {
  const auto dataset = make_dataset({10, 10});
  dataset->keep_done = true;
  const auto pipeline = make_pipeline(test_options(4), dataset);
  auto batch = pipeline->start(order_of({1, 15, 3, 8}), {});
  ASSERT_THAT(batch, IsOk());
  ASSERT_THAT(pipeline->wait(**batch), IsOk());
  const std::weak_ptr<BatchWork> weak = *batch;
  batch = WorkRef();
  // A worker may have it for a moment longer.
  const Deadline end = deadline_in(std::chrono::seconds(10));
  while (!weak.expired() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_TRUE(weak.expired());
}

TEST_P(PipelineTest, ABrokenShardIsNamedAndTheNextBatchIsFine) {
  const auto dataset = make_dataset({10, 10, 10});
  dataset->broken_shards.insert(1);
  const auto pipeline = make_pipeline(test_options(3), dataset);
  const auto broken = pipeline->start(order_of({1, 15, 25}), {});
  ASSERT_THAT(broken, IsOk());
  const Result<void> outcome = pipeline->wait(**broken);
  ASSERT_THAT(outcome, FailsWith(ErrorCode::kIo));
  EXPECT_THAT(outcome.error().detail,
              HasSubstr("shard-1: sample 'key-15' (number 15, at offset 16384): a broken shard"));
  const auto fine = pipeline->start(order_of({1, 5, 25}), {});
  ASSERT_THAT(fine, IsOk());
  EXPECT_THAT(pipeline->wait(**fine), IsOk());
}

// kTimeout is what wait() says of its own deadline: whoever hears it asks again, and the batch would be gone.
TEST_P(PipelineTest, AReadThatTimesOutIsNoDeadlineThatPassed) {
  const auto dataset = make_dataset({10, 10});
  dataset->broken_shards.insert(1);
  dataset->broken_as = ErrorCode::kTimeout;
  const auto pipeline = make_pipeline(test_options(3), dataset);
  const auto batch = pipeline->start(order_of({1, 15, 3}), {});
  ASSERT_THAT(batch, IsOk());
  const Result<void> outcome = pipeline->wait(**batch);
  ASSERT_THAT(outcome, FailsWith(ErrorCode::kUnavailable));
  EXPECT_THAT(outcome.error().detail, HasSubstr("sample 'key-15'"));
}

TEST_P(PipelineTest, SkippingLeavesTheOthersInTheirPlaces) {
  const auto dataset = make_dataset({10, 10, 10});
  dataset->broken_shards.insert(1);
  PipelineOptions options = test_options(4);
  options.on_error = OnError::kSkip;
  const auto pipeline = make_pipeline(options, dataset);
  const auto batch = pipeline->start(order_of({1, 15, 25, 16}), {});
  ASSERT_THAT(batch, IsOk());
  ASSERT_THAT(pipeline->wait(**batch), IsOk());
  EXPECT_THAT((*batch)->mask(), testing::ElementsAre(1, 0, 1, 0));
  EXPECT_EQ(int_of(**batch, 1, 0), 1);
  EXPECT_EQ(int_of(**batch, 1, 1), 0);
  EXPECT_EQ(text_of(**batch, 0, 1), "");
  EXPECT_EQ(int_of(**batch, 1, 2), 25);
  const Report report = pipeline->stats()->report();
  EXPECT_EQ(report.skipped, 2U);
  ASSERT_EQ(report.skipped_list.size(), 2U);
  EXPECT_EQ(report.skipped_list[0].shard, "shard-1");
}

TEST_P(PipelineTest, AFieldThatIsNotThereIsSaid) {
  PipelineOptions options = test_options(2);
  options.fields = {bytes_field("image", "jpg")};
  const auto pipeline = make_pipeline(options, make_dataset({10}));
  const auto batch = pipeline->start(order_of({1, 2}), {});
  ASSERT_THAT(batch, IsOk());
  const Result<void> outcome = pipeline->wait(**batch);
  ASSERT_THAT(outcome, FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(outcome.error().detail, HasSubstr("the sample has no 'jpg'"));
}

// The memory of batches that are kept counts; it comes back with them.
TEST_P(PipelineTest, MemoryIsACeiling) {
  PipelineOptions options = test_options(64);
  options.memory_bytes = 4 * kMiB;
  const auto pipeline = make_pipeline(options, make_dataset({200}));
  std::vector<WorkRef> kept;
  std::stop_source stop;
  std::thread release([&] {
    while (pipeline->memory().in_use_bytes < 3 * kMiB)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop.request_stop();
  });
  std::vector<uint64_t> samples(64);
  for (uint64_t i = 0; i < 64; ++i) samples[i] = i;
  while (true) {
    auto started = pipeline->start(order_of(samples), stop.get_token());
    if (!started.ok()) {
      EXPECT_EQ(started.error().code, ErrorCode::kCancelled);
      break;
    }
    kept.push_back(*started);
    ASSERT_LT(kept.size(), 100U);
  }
  release.join();
  EXPECT_LE(pipeline->memory().peak_held_bytes, 4 * kMiB);
  kept.clear();
  const auto again = pipeline->start(order_of(samples), {});
  ASSERT_THAT(again, IsOk());
  EXPECT_THAT(pipeline->wait(**again), IsOk());
}

TEST_P(PipelineTest, BatchesOutliveTheirPipeline) {
  auto dataset = make_dataset({50});
  auto pipeline = make_pipeline(test_options(8), dataset);
  const auto batch = pipeline->start(order_of({1, 2, 3, 4, 5, 6, 7, 8}), {});
  ASSERT_THAT(batch, IsOk());
  ASSERT_THAT(pipeline->wait(**batch), IsOk());
  const auto dropped = pipeline->start(order_of({1, 2, 3, 4, 5, 6, 7, 8}), {});
  pipeline.reset();
  dataset.reset();
  EXPECT_EQ(int_of(**batch, 1, 3), 4);
  EXPECT_EQ((*batch)->columns()[0].name, "text");
}

TEST_P(PipelineTest, TooLittleMemoryIsRefusedAtOnce) {
  PipelineOptions options = test_options(1'000'000);
  EXPECT_THAT(Pipeline::create(options, {make_dataset({10})}), FailsWith(ErrorCode::kInvalid));
}

INSTANTIATE_TEST_SUITE_P(Ways, PipelineTest,
                         testing::Values(Way{"PageCache", true, io::CacheMode::kBuffered},
                                         Way{"Direct", true, io::CacheMode::kDirect},
                                         Way{"Remote", false, io::CacheMode::kBuffered}),
                         [](const auto& way) { return std::string(way.param.name); });

}  // namespace
}  // namespace penstock::loader
