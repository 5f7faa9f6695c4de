// Hand-made results for tests.
#pragma once

#include "tune/bench_result.h"

namespace penstock::tune {

// A result at `ops_per_second` over one second.
inline CaseResult made_result(const BenchCase& bench_case, double ops_per_second,
                              int64_t p50_ns = 100'000) {
  CaseResult result;
  result.bench_case = bench_case;
  result.ops = static_cast<uint64_t>(ops_per_second);
  const bool moves = bench_case.op != BenchOp::kStat && bench_case.op != BenchOp::kHead;
  result.bytes = moves ? result.ops * bench_case.block_bytes : 0;
  result.seconds = 1;
  result.cpu_seconds = 0.25;
  result.latency = {.mean_ns = p50_ns,
                    .p50_ns = p50_ns,
                    .p90_ns = 2 * p50_ns,
                    .p99_ns = 3 * p50_ns,
                    .p999_ns = 4 * p50_ns,
                    .max_ns = 5 * p50_ns};
  return result;
}

inline BenchCase random_read(uint32_t depth) {
  return {.op = BenchOp::kRead, .pattern = BenchPattern::kRandom, .depth = depth};
}

inline BenchCase sequential(BenchOp op, BenchMode mode, BenchCache cache = BenchCache::kAny,
                            uint32_t depth = 8) {
  return {.op = op, .mode = mode, .cache = cache, .block_bytes = kMiB, .depth = depth};
}

// Samples of a tenth of a second each at these rates, in MB/s.
inline std::vector<RateSample> made_samples(const std::vector<double>& rates) {
  std::vector<RateSample> samples;
  for (const double rate : rates) {
    samples.push_back({.begin_seconds = static_cast<double>(samples.size()) * 0.1,
                       .seconds = 0.1,
                       .bytes = static_cast<uint64_t>(rate * 1e5),
                       .ops = 1});
  }
  return samples;
}

}  // namespace penstock::tune
