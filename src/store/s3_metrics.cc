#include "store/s3_metrics.h"

#include "penstock/s3.h"

namespace penstock::store {

std::string_view s3_op_name(S3Op op) {
  constexpr std::array<std::string_view, kS3Ops> kNames = {"get",    "head", "put",   "list",
                                                           "remove", "copy", "upload"};
  return kNames[static_cast<size_t>(op)];
}

namespace {

S3Metrics register_metrics() {
  Metrics& all = Metrics::global();
  S3Metrics metrics;
  for (size_t i = 0; i < kS3Ops; ++i) {
    const Labels op = {{"op", std::string(s3_op_name(static_cast<S3Op>(i)))}};
    metrics.requests[i] = &all.counter("penstock_s3_requests_total",
                                       "Requests sent to S3; retries and hedges each count.", op);
    metrics.failures[i] = &all.counter("penstock_s3_failures_total",
                                       "S3 calls that ended in an error, after all retries.", op);
    metrics.latency[i] = &all.histogram("penstock_s3_call_seconds",
                                        "Time of S3 calls, waits and retries included.", op);
  }
  metrics.retries = &all.counter("penstock_s3_retries_total", "Requests sent again.");
  metrics.slow_downs =
      &all.counter("penstock_s3_slow_downs_total", "Answers that asked to slow down.");
  metrics.hedges = &all.counter("penstock_s3_hedges_total",
                                "Second requests sent because the first was slow to begin.");
  metrics.hedges_won =
      &all.counter("penstock_s3_hedges_won_total", "Hedges that answered before the first.");
  const auto bytes = [&all](const char* direction) {
    return &all.counter("penstock_s3_bytes_total", "Bytes of objects moved.",
                        {{"direction", direction}});
  };
  metrics.bytes_read = bytes("read");
  metrics.bytes_written = bytes("written");
  return metrics;
}

}  // namespace

const S3Metrics& S3Metrics::get() {
  static const S3Metrics metrics = register_metrics();
  return metrics;
}

S3Stats s3_stats() {
  const S3Metrics& metrics = S3Metrics::get();
  S3Stats stats;
  for (const Counter* counter : metrics.requests) stats.requests += counter->value();
  stats.retries = metrics.retries->value();
  stats.slow_downs = metrics.slow_downs->value();
  stats.hedges = metrics.hedges->value();
  stats.hedges_won = metrics.hedges_won->value();
  return stats;
}

}  // namespace penstock::store
