#include "tune/bench_measure.h"

#include <sys/resource.h>

namespace penstock::tune {

namespace {

using Clock = std::chrono::steady_clock;
using Streams = std::span<const std::unique_ptr<BenchStream>>;

double to_seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Totals {
  uint64_t bytes = 0;
  uint64_t ops = 0;
};

Totals totals_of(Streams streams) {
  Totals totals;
  for (const auto& stream : streams) {
    totals.bytes += stream->meter().bytes.load(std::memory_order_relaxed);
    totals.ops += stream->meter().ops.load(std::memory_order_relaxed);
  }
  return totals;
}

bool wait_all(Streams streams, Deadline time) {
  bool ended = true;
  for (const auto& stream : streams) ended = stream->wait_until(time) && ended;
  return ended;
}

void show(const BenchContext& context, const std::string& label, const Totals& totals,
          double seconds) {
  if (!context.progress) return;
  context.progress({.case_number = context.case_number,
                    .case_count = context.case_count,
                    .label = label,
                    .bytes_per_second = static_cast<double>(totals.bytes) / seconds,
                    .ops_per_second = static_cast<double>(totals.ops) / seconds});
}

// One that cannot start ends the case: the others then have nothing to go on for.
void start_all(Streams streams, Deadline end) {
  for (const auto& stream : streams) {
    stream->start(end);
    if (!stream->error()) continue;
    for (const auto& started : streams) started->stop();
    return;
  }
}

// Until all streams ended; the rate is noted at every step.
void watch(Streams streams, const std::string& label, Deadline begin, RateRecorder& rate,
           const BenchContext& context) {
  Deadline next = begin;
  while (true) {
    next += std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(rate.step_seconds()));
    const bool ended = wait_all(streams, next);
    if (context.stop.stop_requested()) {
      for (const auto& stream : streams) stream->stop();
    }
    if (ended) return;
    const Totals totals = totals_of(streams);
    const double seconds = to_seconds(Clock::now() - begin);
    rate.note(seconds, totals.bytes, totals.ops);
    show(context, label, totals, seconds);
  }
}

}  // namespace

Result<void> check_stop(const BenchContext& context) {
  if (!context.stop.stop_requested()) return {};
  return make_error(ErrorCode::kCancelled, "interrupted");
}

Result<CaseResult> measure_case(const BenchCase& bench_case, Streams streams,
                                const std::function<Result<void>()>& finish,
                                const BenchContext& context) {
  const std::string label = bench_case_label(bench_case);
  CaseResult result{.bench_case = bench_case, .skipped = {}, .latency = {}, .rate = {}};
  RateRecorder rate;
  const double cpu_begin = cpu_seconds();
  const Deadline begin = Clock::now();
  const bool timed = bench_case.time_limit.count() != 0;
  const Deadline end = timed ? begin + bench_case.time_limit : kNoDeadline;
  start_all(streams, end);
  watch(streams, label, begin, rate, context);

  Deadline finished = begin;
  Histogram latency;
  for (const auto& stream : streams) {
    if (const auto error = stream->error()) return error->with_context(label);
    finished = std::max(finished, stream->finished_at());
    latency.merge(stream->meter().latency);
  }
  PENSTOCK_TRY(check_stop(context));
  if (finish) {
    PENSTOCK_TRY(finish());
    finished = Clock::now();
  }
  const Totals totals = totals_of(streams);
  result.seconds = to_seconds(finished - begin);
  result.cpu_seconds = cpu_seconds() - cpu_begin;
  result.bytes = totals.bytes;
  result.ops = totals.ops;
  result.latency = summarize(latency);
  rate.note(result.seconds, totals.bytes, totals.ops);
  result.rate = rate.take();
  return result;
}

}  // namespace penstock::tune
