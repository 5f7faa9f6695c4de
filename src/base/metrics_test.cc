#include "base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

namespace penstock {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(Histogram, PercentilesAreWithinOneStepOfTheTruth) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> latencies(12, 2);
  Histogram histogram;
  std::vector<int64_t> exact;
  for (int i = 0; i < 20000; ++i) {
    exact.push_back(static_cast<int64_t>(latencies(random)));
    histogram.record(Nanoseconds(exact.back()));
  }
  std::sort(exact.begin(), exact.end());
  for (const double p : {0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const size_t rank = std::max<size_t>(1, static_cast<size_t>(std::ceil(p * 20000)));
    const auto truth = static_cast<double>(exact[rank - 1]);
    const auto seen = static_cast<double>(histogram.percentile(p).count());
    EXPECT_GE(seen, truth) << p;
    EXPECT_LE(seen, truth * 1.0626 + 1) << p;
  }
  EXPECT_EQ(histogram.max().count(), exact.back());
  EXPECT_EQ(histogram.count(), 20000u);
}

TEST(Histogram, TakesExtremes) {
  Histogram histogram;
  histogram.record(Nanoseconds(-5));
  histogram.record(0ns);
  histogram.record(Nanoseconds::max());
  EXPECT_EQ(histogram.count(), 3u);
  EXPECT_EQ(histogram.percentile(1), Nanoseconds::max());
  EXPECT_EQ(histogram.percentile(0.5), 0ns);
}

TEST(Histogram, MergeAddsUp) {
  Histogram a, b;
  a.record(10us);
  b.record(30us);
  b.record(50us);
  a.merge(b);
  EXPECT_EQ(a.count(), 3u);
  EXPECT_EQ(a.sum(), 90us);
  EXPECT_EQ(a.max(), 50us);
}

TEST(Metrics, SameNameAndLabelsIsTheSameMetric) {
  Metrics metrics;
  metrics.counter("penstock_reads_total", "Reads.", {{"mode", "direct"}}).add(2);
  metrics.counter("penstock_reads_total", "Reads.", {{"mode", "direct"}}).add(3);
  EXPECT_EQ(metrics.counter("penstock_reads_total", "Reads.", {{"mode", "direct"}}).value(), 5u);
  EXPECT_EQ(metrics.counter("penstock_reads_total", "Reads.", {{"mode", "buffered"}}).value(), 0u);
}

TEST(Metrics, DumpsPrometheusText) {
  Metrics metrics;
  metrics.counter("penstock_reads_total", "Reads done.", {{"path", "a\"b\\c\n"}}).add(7);
  metrics.gauge("penstock_buffers_bytes", "Bytes held.").set(-3);
  metrics.histogram("penstock_read_seconds", "Read latency.").record(2us);
  const std::string text = metrics.prometheus();
  EXPECT_THAT(
      text,
      HasSubstr("# HELP penstock_reads_total Reads done.\n# TYPE penstock_reads_total counter\n"
                "penstock_reads_total{path=\"a\\\"b\\\\c\\n\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("penstock_buffers_bytes -3\n"));
  EXPECT_THAT(text, HasSubstr("penstock_read_seconds_bucket{le=\"1.024e-06\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("penstock_read_seconds_bucket{le=\"4.096e-06\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("penstock_read_seconds_bucket{le=\"+Inf\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("penstock_read_seconds_sum 2e-06\npenstock_read_seconds_count 1\n"));
}

TEST(Metrics, CommonLabelsComeBeforeThoseOfEachSample) {
  Metrics metrics;
  metrics.counter("c_total", "C.").add(1);
  metrics.gauge("g", "G.", {{"a", "b"}}).set(2);
  metrics.histogram("h_seconds", "H.").record(2us);
  const std::string text = metrics.prometheus({{"volume", "tra\"in"}});
  EXPECT_THAT(text, HasSubstr("\nc_total{volume=\"tra\\\"in\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\ng{volume=\"tra\\\"in\",a=\"b\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("\nh_seconds_bucket{volume=\"tra\\\"in\",le=\"+Inf\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nh_seconds_count{volume=\"tra\\\"in\"} 1\n"));
}

TEST(Metrics, CountsFromManyThreads) {
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        metrics.counter("c_total", "C.").add();
        metrics.histogram("h_seconds", "H.").record(1us);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(metrics.counter("c_total", "C.").value(), 4000u);
  EXPECT_EQ(metrics.histogram("h_seconds", "H.").count(), 4000u);
}

}  // namespace
}  // namespace penstock
