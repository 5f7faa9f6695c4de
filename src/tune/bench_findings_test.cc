#include "tune/bench_findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tune/bench_test_support.h"

namespace penstock::tune {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

const Finding* find(const std::vector<Finding>& findings, std::string_view id) {
  for (const Finding& finding : findings) {
    if (finding.id == id) return &finding;
  }
  return nullptr;
}

std::vector<CaseResult> depth_sweep(const std::vector<std::pair<uint32_t, double>>& points) {
  std::vector<CaseResult> results;
  for (const auto& [depth, ops] : points) results.push_back(made_result(random_read(depth), ops));
  return results;
}

TEST(BenchFindings, NothingMeasuredSaysNothing) {
  EXPECT_THAT(find_findings({}), IsEmpty());
  CaseResult skipped;
  skipped.skipped = "not here";
  EXPECT_THAT(find_findings(std::vector<CaseResult>{skipped, skipped}), IsEmpty());
}

TEST(BenchFindings, SaturationIsTheSmallestDepthNearTheBest) {
  const auto results =
      depth_sweep({{1, 10'000}, {4, 40'000}, {16, 128'000}, {32, 135'000}, {64, 134'000}});
  const auto findings = find_findings(results);
  const Finding* found = find(findings, "random_read_saturation");
  ASSERT_NE(found, nullptr);
  EXPECT_THAT(found->text, HasSubstr("saturate the device at depth 32: 135 k IOPS"));
  EXPECT_THAT(found->advice, HasSubstr("Keep 32 requests in flight"));
}

TEST(BenchFindings, FivePerCentIsTheMargin) {
  // 129 k is 95.6 % of 135 k, 127 k is 94 %.
  const auto enough = depth_sweep({{1, 10'000}, {16, 129'000}, {32, 135'000}});
  EXPECT_THAT(find(find_findings(enough), "random_read_saturation")->text, HasSubstr("depth 16"));
  const auto less = depth_sweep({{1, 10'000}, {16, 127'000}, {32, 135'000}});
  const auto findings = find_findings(less);
  EXPECT_THAT(find(findings, "random_read_saturation")->text,
              HasSubstr("still gain at depth 32, the deepest tried"));
}

TEST(BenchFindings, DirectAgainstBufferedThreeWays) {
  const auto text = [](double direct, double buffered) {
    const std::vector<CaseResult> results = {
        made_result(sequential(BenchOp::kRead, BenchMode::kDirect), direct),
        made_result(sequential(BenchOp::kRead, BenchMode::kBuffered, BenchCache::kCold), buffered)};
    return find(find_findings(results), "direct_against_buffered_read")->text;
  };
  EXPECT_THAT(
      text(2800, 1400),
      HasSubstr(
          "Direct reads beat buffered ones 2.0 times: 2.94 GB/s against 1.47 GB/s read cold."));
  EXPECT_THAT(
      text(1400, 2800),
      HasSubstr(
          "Buffered reads beat direct ones 2.0 times: 2.94 GB/s read cold against 1.47 GB/s."));
  EXPECT_THAT(text(2800, 2700), HasSubstr("equally fast"));
}

TEST(BenchFindings, WritesAreComparedAlsoAndTheNewFileIsNot) {
  CaseResult laid = made_result(sequential(BenchOp::kWrite, BenchMode::kDirect), 9000);
  laid.bench_case.lays_file = true;
  const std::vector<CaseResult> results = {
      laid, made_result(sequential(BenchOp::kWrite, BenchMode::kDirect), 2000),
      made_result(sequential(BenchOp::kWrite, BenchMode::kBuffered), 1000)};
  const auto findings = find_findings(results);
  EXPECT_THAT(find(findings, "direct_against_buffered_write")->text, HasSubstr("2.0 times"));
}

TEST(BenchFindings, WarmReadsAreNotColdOnes) {
  const std::vector<CaseResult> results = {
      made_result(sequential(BenchOp::kRead, BenchMode::kDirect), 2800),
      made_result(sequential(BenchOp::kRead, BenchMode::kBuffered, BenchCache::kWarm), 8000)};
  const auto findings = find_findings(results);
  EXPECT_EQ(find(findings, "direct_against_buffered_read"), nullptr);
  EXPECT_THAT(find(findings, "page_cache")->text, HasSubstr("2.9 times the device"));
  EXPECT_EQ(find(findings, "reads_from_memory"), nullptr);
}

TEST(BenchFindings, ADiskAsQuickAsMemoryIsMemory) {
  const auto says = [](int64_t direct_ns, int64_t warm_ns) {
    using enum BenchMode;
    // A busy machine: the rates are equal and say nothing.
    const std::vector<CaseResult> results = {
        made_result(sequential(BenchOp::kRead, kDirect, BenchCache::kAny, 1), 3000, direct_ns),
        made_result(sequential(BenchOp::kRead, kBuffered, BenchCache::kWarm, 1), 3000, warm_ns)};
    return find(find_findings(results), "reads_from_memory") != nullptr;
  };
  EXPECT_TRUE(says(170'000, 160'000));
  EXPECT_FALSE(says(190'000, 50'000));
}

TEST(BenchFindings, HolesAreNotMemory) {
  using enum BenchMode;
  const std::vector<CaseResult> results = {
      made_result(sequential(BenchOp::kRead, kDirect, BenchCache::kAny, 1), 3000, 100'000),
      made_result(sequential(BenchOp::kRead, kBuffered, BenchCache::kWarm, 1), 3000, 100'000)};
  BenchFacts facts;
  facts.has_holes = true;
  const auto findings = find_findings(results, facts);
  EXPECT_EQ(find(findings, "reads_from_memory"), nullptr);
  EXPECT_THAT(find(findings, "file_has_holes")->text, HasSubstr("touch no device"));
  EXPECT_EQ(find(find_findings(results), "file_has_holes"), nullptr);
}

TEST(BenchFindings, FsyncCostAndAdvice) {
  const auto finding = [](int64_t p50_ns) {
    const BenchCase append{
        .op = BenchOp::kWriteSync, .pattern = BenchPattern::kAppend, .mode = BenchMode::kBuffered};
    BenchCase data = append;
    data.op = BenchOp::kWriteDataSync;
    const double ops = 1e9 / static_cast<double>(p50_ns);
    return *find(find_findings(std::vector<CaseResult>{made_result(append, ops, p50_ns),
                                                       made_result(data, ops, p50_ns / 2)}),
                 "fsync");
  };
  EXPECT_THAT(finding(140'000).text, HasSubstr("fsync takes 140 us (99 % within 420 us): 7.14 k"));
  EXPECT_THAT(finding(140'000).text, HasSubstr("With fdatasync 70 us"));
  EXPECT_THAT(finding(140'000).advice, HasSubstr("Cheap enough"));
  EXPECT_THAT(finding(1'000'000).advice, HasSubstr("Gather several"));
  EXPECT_THAT(finding(20'000'000).advice, HasSubstr("Very slow"));
  EXPECT_THAT(finding(3'000).advice, HasSubstr("nothing can have reached a disk"));
}

TEST(BenchFindings, SmallFilesAndShards) {
  const BenchCase create{.op = BenchOp::kCreate, .mode = BenchMode::kBuffered};
  BenchCase read = create;
  read.op = BenchOp::kReadFile;
  BenchCase look = create;
  look.op = BenchOp::kStat;
  const std::vector<CaseResult> results = {
      made_result(create, 20'000), made_result(look, 900'000), made_result(read, 15'000),
      made_result(random_read(32), 135'000),
      made_result(sequential(BenchOp::kRead, BenchMode::kDirect), 2700)};
  const auto findings = find_findings(results);
  EXPECT_THAT(find(findings, "small_files")->text,
              HasSubstr("20 k created, 15 k read a second, 900 k looked up"));
  EXPECT_THAT(find(findings, "random_against_sequential")->text, HasSubstr("5.1 times as much"));
}

TEST(BenchFindings, StoreConcurrency) {
  std::vector<CaseResult> results;
  for (const auto& [depth, ops] :
       std::vector<std::pair<uint32_t, double>>{{1, 100}, {8, 700}, {32, 690}}) {
    results.push_back(made_result({.op = BenchOp::kGet, .block_bytes = 4 * kMiB, .depth = depth},
                                  ops, 10'000'000));
  }
  const auto findings = find_findings(results);
  EXPECT_THAT(find(findings, "get_concurrency")->text,
              HasSubstr("Reads of objects of 4 MiB reach 2.94 GB/s with 8 at once, 7.0 times"));
  EXPECT_THAT(find(findings, "get_concurrency")->advice, HasSubstr("Keep 8 requests"));
  results[0] = made_result({.op = BenchOp::kGet, .block_bytes = 4 * kMiB, .depth = 1}, 699);
  EXPECT_THAT(find(find_findings(results), "get_concurrency")->text,
              HasSubstr("gain nothing from concurrency"));
}

TEST(WriteCliffTest, AStepDownIsFound) {
  std::vector<double> rates(20, 2000);
  rates.insert(rates.end(), 30, 500);
  const auto cliff = find_write_cliff(made_samples(rates));
  ASSERT_TRUE(cliff.has_value());
  EXPECT_EQ(cliff->bytes_before, 20 * uint64_t{200'000'000});
  EXPECT_DOUBLE_EQ(cliff->rate_before, 2e9);
  EXPECT_DOUBLE_EQ(cliff->rate_after, 5e8);
}

TEST(WriteCliffTest, NoiseIsNotACliff) {
  std::vector<double> rates;
  for (int i = 0; i < 60; ++i) rates.push_back(i % 3 == 0 ? 1300 : 2000);  // Within 35 %.
  EXPECT_FALSE(find_write_cliff(made_samples(rates)).has_value());
}

TEST(WriteCliffTest, ADipThatRecoversIsNotACliff) {
  std::vector<double> rates(20, 2000);
  rates.insert(rates.end(), 10, 400);
  rates.insert(rates.end(), 20, 2000);
  EXPECT_FALSE(find_write_cliff(made_samples(rates)).has_value());
}

TEST(WriteCliffTest, ARateThatOnlyRisesIsNotACliff) {
  std::vector<double> rates;
  for (int i = 0; i < 40; ++i) rates.push_back(500 + 50 * i);
  EXPECT_FALSE(find_write_cliff(made_samples(rates)).has_value());
}

TEST(WriteCliffTest, TooFewSamplesSayNothing) {
  EXPECT_FALSE(find_write_cliff(made_samples({2000, 2000, 2000, 100, 100, 100})).has_value());
}

TEST(WriteCliffTest, IsSpokenOf) {
  CaseResult laid = made_result(sequential(BenchOp::kWrite, BenchMode::kDirect), 1000);
  laid.bench_case.lays_file = true;
  std::vector<double> rates(20, 2000);
  rates.insert(rates.end(), 30, 500);
  laid.rate = made_samples(rates);
  const auto findings = find_findings(std::vector<CaseResult>{laid});
  EXPECT_THAT(find(findings, "write_cliff")->text, HasSubstr("fell from 2 GB/s to 500 MB/s"));
}

TEST(RateRecorderTest, KeepsTotalsInBoundedMemory) {
  RateRecorder recorder;
  double at = 0;
  uint64_t bytes = 0;
  for (int i = 0; i < 100'000; ++i) {
    at += recorder.step_seconds();
    bytes += 1000 + static_cast<uint64_t>(i);
    recorder.note(at, bytes, static_cast<uint64_t>(i) + 1);
  }
  const auto samples = recorder.take();
  EXPECT_LE(samples.size(), RateRecorder::kSamplesMost);
  EXPECT_GE(samples.size(), RateRecorder::kSamplesMost / 4);
  uint64_t total = 0;
  double end = 0;
  for (const RateSample& sample : samples) {
    EXPECT_NEAR(sample.begin_seconds, end, 1e-6 * at);
    end = sample.begin_seconds + sample.seconds;
    total += sample.bytes;
  }
  EXPECT_EQ(total, bytes);
  EXPECT_NEAR(end, at, 1e-6 * at);
}

TEST(RateRecorderTest, AStubAtTheEndJoinsItsNeighbour) {
  RateRecorder recorder;
  recorder.note(0.05, 1000, 1);
  recorder.note(0.051, 1500, 2);
  const auto samples = recorder.take();
  ASSERT_EQ(samples.size(), 1U);
  EXPECT_EQ(samples[0].bytes, 1500U);
  EXPECT_DOUBLE_EQ(samples[0].seconds, 0.051);
}

}  // namespace
}  // namespace penstock::tune
