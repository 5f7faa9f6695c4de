#include "loader/explain.h"

#include <fmt/core.h>

#include <algorithm>

namespace penstock::loader {

namespace {

double seconds(Nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

// Parts of the time that passed: of all worker threads, or of the wall clock.
struct Shares {
  double decode = 0;
  double read = 0;
  double idle = 0;
  double storage = 0;
  double memory = 0;
  double plan = 0;
  double next = 0;  // Of the caller's own time.

  explicit Shares(const Report& report) {
    const double wall = std::max(seconds(report.elapsed), 1e-9);
    const double workers = wall * std::max(1U, report.threads);
    decode = seconds(report.decode_busy) / workers;
    read = seconds(report.read_busy) / workers;
    idle = seconds(report.worker_wait) / workers;
    storage = seconds(report.storage_busy) / wall;
    memory = seconds(report.memory_wait) / wall;
    plan = seconds(report.plan_busy) / wall;
    const double caller = seconds(report.next_total) + seconds(report.away_total);
    next = caller > 0 ? seconds(report.next_total) / caller : 0;
  }
};

constexpr double kSmall = 0.05;
constexpr double kBusy = 0.85;

Limit find_limit(const Report& report, const Shares& shares) {
  if (report.batches < 2) return Limit::kNothing;
  if (shares.next < kSmall) return Limit::kConsumer;
  if (shares.decode + shares.read > kBusy)
    return shares.decode >= shares.read ? Limit::kDecode : Limit::kRead;
  if (shares.memory > 0.3) return Limit::kMemory;
  if (shares.storage > kBusy) return Limit::kStorage;
  if (shares.plan > kBusy) return Limit::kPlan;
  return Limit::kLatency;
}

// "1 batch", "2 batches".
std::string counted(uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string percent(double share) {
  return fmt::format("{:.0f} %", std::clamp(share, 0.0, 1.0) * 100);
}

std::string verdict_of(Limit limit, const Report& report, const Shares& shares) {
  const std::string threads = counted(report.threads, "thread", "threads");
  const double rate =
      static_cast<double>(report.bytes_read) / std::max(seconds(report.elapsed), 1e-9);
  switch (limit) {
    case Limit::kNothing:
      return "too few batches to say anything: run it for longer";
    case Limit::kConsumer:
      return fmt::format(
          "the loader keeps up: {:.1f} batches are ready on average, and next() takes "
          "{} of the time",
          report.ready_mean, percent(shares.next));
    case Limit::kDecode:
      return fmt::format("decode-bound: {} at {}, storage idle {}", threads,
                         percent(shares.decode + shares.read), percent(1 - shares.storage));
    case Limit::kRead:
      return fmt::format("read-bound: {} spend {} of their time in reads, {}", threads,
                         percent(shares.read), format_rate(rate));
    case Limit::kStorage:
      return fmt::format(
          "storage-bound: reads are under way {} of the time and bring {}, while {} "
          "are idle {}",
          percent(shares.storage), format_rate(rate), threads, percent(shares.idle));
    case Limit::kMemory:
      return fmt::format(
          "memory-bound: {} of the time nothing more could be begun for want of memory "
          "({} at most were in use)",
          percent(shares.memory), format_size(report.memory_peak_bytes));
    case Limit::kPlan:
      return fmt::format(
          "order-bound: finding out what comes next takes {} of the time: samples are "
          "very small",
          percent(shares.plan));
    case Limit::kLatency:
      return fmt::format("latency-bound: no stage is busy ({} idle {}, storage busy {})", threads,
                         percent(shares.idle), percent(shares.storage));
  }
  return "";
}

std::vector<std::string> advice_of(Limit limit, const Report& report) {
  switch (limit) {
    case Limit::kDecode:
      return {"more cores (threads=) for this process",
              "smaller images: penstock pack images --max-side 512 decodes several times faster",
              "decode on the GPU"};
    case Limit::kRead:
      return {
          "data in the page cache or on a faster drive; shards instead of single files "
          "(penstock pack)",
          "more threads, where they wait for a drive"};
    case Limit::kStorage:
      if (!report.cache)
        return {
            "a local disk cache (cache_dir=), where the data is remote: the second epoch reads it",
            "a faster drive or link: penstock bench shows what this one gives", "smaller samples"};
      return {"let it run: the second epoch reads from the cache",
              "stage before training: penstock cache warm"};
    case Limit::kMemory:
      return {"a larger memory=", "do not keep batches for longer than needed",
              "a smaller batch_size"};
    case Limit::kPlan:
      return {"larger samples: several in one record", "a larger batch_size"};
    case Limit::kLatency:
      return {"more ahead: batches_ahead= and memory=", "shuffle='local', which reads neighbours"};
    case Limit::kConsumer:
    case Limit::kNothing:
      return {};
  }
  return {};
}

std::string describe(const Staged& staged) {
  std::string text = format_size(staged.bytes);
  if (staged.failed_bytes > 0)
    text += fmt::format(", and {} could not be", format_size(staged.failed_bytes));
  return text;
}

}  // namespace

std::string_view limit_name(Limit limit) {
  constexpr std::string_view kNames[] = {"nothing", "consumer", "decode", "read",
                                         "storage", "memory",   "plan",   "latency"};
  return kNames[static_cast<size_t>(limit)];
}

Explanation explain(const Report& report, std::optional<Nanoseconds> step, uint32_t batch_size) {
  const Shares shares(report);
  Explanation made;
  made.limit = find_limit(report, shares);
  made.verdict = verdict_of(made.limit, report, shares);
  made.advice = advice_of(made.limit, report);
  made.idle_share = shares.next;
  made.samples_per_second =
      static_cast<double>(report.samples) / std::max(seconds(report.elapsed), 1e-9);
  if (!step || batch_size == 0 || made.limit == Limit::kNothing) return made;
  const double wanted = batch_size / seconds(*step);
  const std::string pace = fmt::format(" (a step of {} wants {} samples/s)", format_duration(*step),
                                       format_count(wanted));
  if (made.samples_per_second >= wanted * 0.98) {
    made.verdict = "fast enough: " + made.verdict + pace;
  } else {
    made.verdict += pace;
  }
  return made;
}

std::string to_text(const Report& report, const Explanation& explanation) {
  const Shares shares(report);
  const double wall = std::max(seconds(report.elapsed), 1e-9);
  std::string text = fmt::format(
      "{} in {}, {}: {} samples/s, {}\n"
      "  next()    p50 {}, p99 {}, max {}; {:.1f} batches ready on average; first batch after {}\n"
      "  threads   {}: decode {}, read {}, idle {}\n"
      "  storage   busy {} of the time, {}; {}\n"
      "  memory    at most {}; waited for {} of the time\n",
      counted(report.samples, "sample", "samples"), counted(report.batches, "batch", "batches"),
      format_duration(report.elapsed), format_count(explanation.samples_per_second),
      format_rate(static_cast<double>(report.bytes_read) / wall), format_duration(report.next_p50),
      format_duration(report.next_p99), format_duration(report.next_max), report.ready_mean,
      format_duration(report.first_batch), report.threads, percent(shares.decode),
      percent(shares.read), percent(shares.idle), percent(shares.storage),
      counted(report.reads, "read", "reads"), report.page_cache,
      format_size(report.memory_peak_bytes), percent(shares.memory));
  if (!report.tuned.empty()) text += fmt::format("  tuned     {}\n", report.tuned);
  if (report.cache) {
    const cache::CacheStats& cache = *report.cache;
    const uint64_t hits = cache.hit_bytes + cache.memory_hit_bytes;
    text += fmt::format("  cache     {} of {} from it", format_size(hits),
                        format_size(hits + cache.miss_bytes));
    if (report.staged) text += "; staged ahead: " + describe(*report.staged);
    text += "\n";
  }
  if (report.skipped > 0) {
    const Skipped& first = report.skipped_list.front();
    text += fmt::format("  skipped   {}; the first: {} '{}': {}\n",
                        counted(report.skipped, "sample", "samples"), first.shard, first.key,
                        first.reason);
  }
  text += "=> " + explanation.verdict + "\n";
  for (const std::string& one : explanation.advice) text += "   - " + one + "\n";
  return text;
}

}  // namespace penstock::loader
