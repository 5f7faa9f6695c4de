#include "tune/bench_result.h"

namespace penstock::tune {

LatencySummary summarize(const Histogram& latency) {
  return {.mean_ns = latency.mean().count(),
          .p50_ns = latency.percentile(0.5).count(),
          .p90_ns = latency.percentile(0.9).count(),
          .p99_ns = latency.percentile(0.99).count(),
          .p999_ns = latency.percentile(0.999).count(),
          .max_ns = latency.max().count()};
}

void RateRecorder::note(double at_seconds, uint64_t bytes, uint64_t ops) {
  const double last =
      samples_.empty() ? 0 : samples_.back().begin_seconds + samples_.back().seconds;
  // The end of a run leaves a piece too short to give a rate: it belongs to its neighbour.
  const bool too_short = !samples_.empty() && at_seconds - last < step_seconds_ / 2;
  if (!too_short) samples_.push_back({.begin_seconds = last});
  RateSample& sample = samples_.back();
  sample.seconds = at_seconds - sample.begin_seconds;
  sample.bytes += bytes - bytes_;
  sample.ops += ops - ops_;
  bytes_ = bytes;
  ops_ = ops;
  if (samples_.size() >= kSamplesMost) join_neighbours();
}

void RateRecorder::join_neighbours() {
  size_t kept = 0;
  for (size_t i = 0; i < samples_.size(); ++i) {
    if (i % 2 == 0) {
      samples_[kept++] = samples_[i];
      continue;
    }
    RateSample& into = samples_[kept - 1];
    into.seconds += samples_[i].seconds;
    into.bytes += samples_[i].bytes;
    into.ops += samples_[i].ops;
  }
  samples_.resize(kept);
  step_seconds_ *= 2;
}

}  // namespace penstock::tune
