#include "tune/bench_findings.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <map>

namespace penstock::tune {

namespace {

constexpr double kAlike = 0.10;  // Rates closer than this are not told apart.

std::string duration(int64_t ns) {
  return format_duration(Nanoseconds(ns));
}

std::string rate(const CaseResult& result) {
  return format_rate(result.bytes_per_second());
}

std::string times(double ratio) {
  return ratio >= 9.95 ? fmt::format("{:.0f} times", ratio) : fmt::format("{:.1f} times", ratio);
}

// The results, with the questions that findings ask of them.
class Findings {
 public:
  Findings(std::span<const CaseResult> results, const BenchFacts& facts)
      : results_(results), facts_(facts) {}

  std::vector<Finding> take() { return std::move(findings_); }

  void say_holes();
  void say_read_from_memory();
  void say_write_cliff();
  void say_saturation(BenchOp op, BenchPattern pattern, std::string_view id, std::string_view what);
  void say_store_saturation(BenchOp op, std::string_view what);
  void say_direct_against_buffered(BenchOp op);
  void say_page_cache();
  void say_uncached();
  void say_mmap();
  void say_random_against_sequential();
  void say_sync();
  void say_small_files();
  void say_tail();
  void say_checkpoint_time();

 private:
  using Wanted = std::function<bool(const BenchCase&)>;

  void say(std::string_view id, std::string text, std::string advice = {}) {
    findings_.push_back({std::string(id), std::move(text), std::move(advice)});
  }
  // The fastest measured case that is wanted; null when there is none.
  const CaseResult* best(const Wanted& wanted) const;
  const CaseResult* best_file(BenchOp op, BenchPattern pattern, BenchMode mode,
                              BenchCache cache) const;

  std::span<const CaseResult> results_;
  const BenchFacts& facts_;
  std::vector<Finding> findings_;
};

const CaseResult* Findings::best(const Wanted& wanted) const {
  const CaseResult* found = nullptr;
  for (const CaseResult& result : results_) {
    if (!result.measured() || !wanted(result.bench_case)) continue;
    if (found == nullptr ||
        result.ops_per_second() * static_cast<double>(result.bench_case.block_bytes) >
            found->ops_per_second() * static_cast<double>(found->bench_case.block_bytes)) {
      found = &result;
    }
  }
  return found;
}

const CaseResult* Findings::best_file(BenchOp op, BenchPattern pattern, BenchMode mode,
                                      BenchCache cache) const {
  return best([=](const BenchCase& c) {
    return c.op == op && c.pattern == pattern && c.mode == mode && c.cache == cache && !c.lays_file;
  });
}

void Findings::say_holes() {
  const bool read = best([](const BenchCase& c) { return c.op == BenchOp::kRead; }) != nullptr;
  if (!facts_.has_holes || !read) return;
  say("file_has_holes", "The file has holes; reads of them touch no device.",
      "These numbers are not those of the disk; measure a file that was written whole.");
}

// A device that answers as fast as memory is memory: a RAM disk, or a host's cache behind a virtual
// disk or loop image.
void Findings::say_read_from_memory() {
  if (facts_.has_holes) return;  // Those are quick on any device.
  const auto alone = [this](BenchMode mode, BenchCache cache) {
    return best([=](const BenchCase& c) {
      return c.op == BenchOp::kRead && c.pattern == BenchPattern::kSequential && c.mode == mode &&
             c.cache == cache && c.depth == 1 && c.jobs == 1 && c.block_bytes == kMiB;
    });
  };
  const CaseResult* direct = alone(BenchMode::kDirect, BenchCache::kAny);
  const CaseResult* warm = alone(BenchMode::kBuffered, BenchCache::kWarm);
  if (direct == nullptr || warm == nullptr) return;
  // The median of single reads, unlike the rate, hardly depends on what else the machine does.
  if (static_cast<double>(direct->latency.p50_ns) >
      1.25 * static_cast<double>(warm->latency.p50_ns)) {
    return;
  }
  say("reads_from_memory",
      fmt::format("A direct read of 1 MiB takes {}, one from the page cache {}: there is memory "
                  "behind this, not a disk.",
                  duration(direct->latency.p50_ns), duration(warm->latency.p50_ns)),
      "A RAM disk or a loop image without direct I/O looks like this; measure the disk itself.");
}

void Findings::say_write_cliff() {
  for (const CaseResult& result : results_) {
    if (!result.measured() || !result.bench_case.lays_file) continue;
    const auto cliff = find_write_cliff(result.rate);
    if (!cliff) {
      if (result.seconds < 5) continue;
      say("no_write_cliff", fmt::format("No write cliff within {}: the rate stayed near {}.",
                                        format_size(result.bytes), rate(result)));
      continue;
    }
    say("write_cliff",
        fmt::format("Write cliff: after {} the rate fell from {} to {}, and stayed there.",
                    format_size(cliff->bytes_before), format_rate(cliff->rate_before),
                    format_rate(cliff->rate_after)),
        fmt::format("Plan checkpoints with {}, the sustained rate.",
                    format_rate(cliff->rate_after)));
  }
}

// One sentence per block size that was swept over depths.
void Findings::say_saturation(BenchOp op, BenchPattern pattern, std::string_view id,
                              std::string_view what) {
  std::map<std::pair<uint64_t, uint32_t>, std::vector<const CaseResult*>> sweeps;
  for (const CaseResult& result : results_) {
    const BenchCase& c = result.bench_case;
    const bool wanted = c.op == op && c.pattern == pattern && c.mode == BenchMode::kDirect;
    if (result.measured() && wanted && !c.lays_file) {
      sweeps[{c.block_bytes, c.jobs}].push_back(&result);
    }
  }
  for (const auto& [key, sweep] : sweeps) {
    const auto found = find_saturation(sweep);
    if (!found || sweep.size() < 3) continue;
    const auto& [block_bytes, jobs] = key;
    const bool small = block_bytes <= 64 * kKiB;
    const auto amount = [small](const CaseResult& result) {
      return small ? format_count(result.ops_per_second()) + " IOPS" : rate(result);
    };
    const std::string streams = jobs > 1 ? fmt::format(" from {} jobs", jobs) : "";
    const uint32_t depth = found->at->bench_case.depth;
    if (found->still_rising()) {
      say(id,
          fmt::format("{} of {}{} still gain at depth {}, the deepest tried: {}.", what,
                      format_size(block_bytes), streams, depth, amount(*found->at)),
          "Keep as many requests in flight as memory allows, or use more jobs.");
      continue;
    }
    say(id,
        fmt::format("{} of {}{} saturate the device at depth {}: {}. Deeper queues gain nothing.",
                    what, format_size(block_bytes), streams, depth, amount(*found->at)),
        fmt::format("Keep {} request{} in flight{}.", depth, depth == 1 ? "" : "s",
                    jobs > 1 ? " per job" : ""));
  }
}

void Findings::say_store_saturation(BenchOp op, std::string_view what) {
  std::map<uint64_t, std::vector<const CaseResult*>> sweeps;
  for (const CaseResult& result : results_) {
    const BenchCase& c = result.bench_case;
    if (result.measured() && c.op == op) sweeps[c.block_bytes].push_back(&result);
  }
  for (const auto& [object_bytes, sweep] : sweeps) {
    const auto found = find_saturation(sweep);
    if (!found) continue;
    const CaseResult& at = *found->at;
    const bool small = object_bytes < kMiB;
    const std::string amount = small ? format_count(at.ops_per_second()) + " per second" : rate(at);
    const CaseResult& alone = *sweep.front();
    const std::string id = fmt::format("{}_concurrency", bench_op_name(op));
    if (at.bench_case.depth == alone.bench_case.depth) {
      say(id,
          fmt::format("{} of {} gain nothing from concurrency: one after the other reaches {} ({} "
                      "each).",
                      what, format_size(object_bytes), amount, duration(alone.latency.p50_ns)));
      continue;
    }
    say(id,
        fmt::format(
            "{} of {} reach {} with {} at once, {} what one after the other gives ({} each).", what,
            format_size(object_bytes), amount, at.bench_case.depth,
            times(at.ops_per_second() / alone.ops_per_second()), duration(alone.latency.p50_ns)),
        found->still_rising() ? "More at once may give more."
                              : fmt::format("Keep {} requests in flight.", at.bench_case.depth));
  }
}

void Findings::say_direct_against_buffered(BenchOp op) {
  using enum BenchMode;
  const bool reads = op == BenchOp::kRead;
  const BenchCache cold = reads ? BenchCache::kCold : BenchCache::kAny;
  const auto* buffered = best_file(op, BenchPattern::kSequential, kBuffered, cold);
  if (buffered == nullptr) return;
  const auto* direct = best([&](const BenchCase& c) {
    return c.op == op && c.pattern == BenchPattern::kSequential && c.mode == kDirect &&
           !c.lays_file && c.jobs == buffered->bench_case.jobs &&
           c.block_bytes == buffered->bench_case.block_bytes;
  });
  if (direct == nullptr) return;
  const double ratio = direct->bytes_per_second() / buffered->bytes_per_second();
  const std::string verb = reads ? "reads" : "writes";
  const std::string id = fmt::format("direct_against_buffered_{}", bench_op_name(op));
  const std::string direct_rate = rate(*direct);
  const std::string buffered_rate = rate(*buffered) + (reads ? " read cold" : " with the fsync");
  if (ratio > 1 + kAlike) {
    say(id,
        fmt::format("Direct {} beat buffered ones {}: {} against {}.", verb, times(ratio),
                    direct_rate, buffered_rate),
        reads ? "Read data that is used once (shards larger than memory, checkpoints) directly."
              : "Write checkpoints directly; the page cache only delays them.");
  } else if (ratio < 1 - kAlike) {
    say(id,
        fmt::format("Buffered {} beat direct ones {}: {} against {}.", verb, times(1 / ratio),
                    buffered_rate, direct_rate),
        reads ? "The kernel's read-ahead does better here; try deeper queues or larger blocks."
              : "The page cache gathers writes better than this queue depth does; try it deeper.");
  } else {
    say(id,
        fmt::format("Direct and buffered {} are equally fast: {} against {}.", verb, direct_rate,
                    buffered_rate),
        "Direct ones leave the page cache to those who need it.");
  }
}

void Findings::say_page_cache() {
  using enum BenchMode;
  const auto* warm =
      best_file(BenchOp::kRead, BenchPattern::kSequential, kBuffered, BenchCache::kWarm);
  const auto* direct =
      best_file(BenchOp::kRead, BenchPattern::kSequential, kDirect, BenchCache::kAny);
  if (warm == nullptr || direct == nullptr) return;
  const double ratio = warm->bytes_per_second() / direct->bytes_per_second();
  if (ratio < 1.25) return;
  say("page_cache",
      fmt::format("Data that is already in the page cache comes at {}, {} the device.", rate(*warm),
                  times(ratio)),
      "A data set that fits in memory is best read buffered, so that later epochs find it there.");
}

void Findings::say_uncached() {
  using enum BenchMode;
  const auto* uncached =
      best_file(BenchOp::kRead, BenchPattern::kSequential, kUncached, BenchCache::kCold);
  const auto* buffered =
      best_file(BenchOp::kRead, BenchPattern::kSequential, kBuffered, BenchCache::kCold);
  if (uncached == nullptr || buffered == nullptr) return;
  const double ratio = uncached->bytes_per_second() / buffered->bytes_per_second();
  say("uncached",
      fmt::format("Uncached reads (RWF_DONTCACHE) run at {:.0f} % of buffered ones: {}.",
                  100 * ratio, rate(*uncached)),
      ratio > 1 - kAlike ? "They keep read-ahead and leave no pages behind." : "");
}

void Findings::say_mmap() {
  using enum BenchMode;
  const auto* mapped = best_file(BenchOp::kRead, BenchPattern::kRandom, kMmap, BenchCache::kCold);
  const auto* direct = best_file(BenchOp::kRead, BenchPattern::kRandom, kDirect, BenchCache::kAny);
  if (mapped == nullptr || direct == nullptr) return;
  if (mapped->bench_case.block_bytes != direct->bench_case.block_bytes) {
    direct = best([&](const BenchCase& c) {
      return c.op == BenchOp::kRead && c.pattern == BenchPattern::kRandom && c.mode == kDirect &&
             c.block_bytes == mapped->bench_case.block_bytes;
    });
  }
  if (direct == nullptr) return;
  const double ratio = direct->ops_per_second() / mapped->ops_per_second();
  if (ratio < 1.5) return;
  say("mmap_random",
      fmt::format("Random {} rows through mmap come one page fault at a time: {} a second, where "
                  "direct reads in flight together give {}.",
                  format_size(mapped->bench_case.block_bytes),
                  format_count(mapped->ops_per_second()), format_count(direct->ops_per_second())),
      "For tables larger than memory, read rows in batches instead of mapping them.");
}

void Findings::say_random_against_sequential() {
  using enum BenchMode;
  const auto* random = best([](const BenchCase& c) {
    return c.op == BenchOp::kRead && c.pattern == BenchPattern::kRandom && c.mode == kDirect &&
           c.block_bytes == 4 * kKiB;
  });
  const auto* sequential =
      best_file(BenchOp::kRead, BenchPattern::kSequential, kDirect, BenchCache::kAny);
  if (random == nullptr || sequential == nullptr) return;
  const double ratio = sequential->bytes_per_second() / random->bytes_per_second();
  if (ratio < 1.5) return;
  say("random_against_sequential",
      fmt::format("Random 4 KiB reads move {} at best, sequential ones {}: {} as much.",
                  rate(*random), rate(*sequential), times(ratio)),
      "Large sequential reads (shards) are what this device is good at.");
}

void Findings::say_sync() {
  const auto find = [this](BenchOp op) {
    const CaseResult* found = nullptr;
    for (const CaseResult& result : results_) {
      const BenchCase& c = result.bench_case;
      const bool wanted = c.op == op && c.pattern == BenchPattern::kAppend && c.jobs == 1;
      if (found == nullptr && result.measured() && wanted) found = &result;
    }
    return found;
  };
  const auto* full = find(BenchOp::kWriteSync);
  if (full == nullptr) return;
  std::string text = fmt::format(
      "A {} append made durable with fsync takes {} (99 % within {}): {} a "
      "second from one writer.",
      format_size(full->bench_case.block_bytes), duration(full->latency.p50_ns),
      duration(full->latency.p99_ns), format_count(full->ops_per_second()));
  if (const auto* data = find(BenchOp::kWriteDataSync)) {
    text += fmt::format(" With fdatasync {}.", duration(data->latency.p50_ns));
  }
  const int64_t ns = full->latency.p50_ns;
  std::string advice = "Cheap enough to sync often.";
  if (ns > 200'000) advice = "Gather several records for each fsync.";
  if (ns > 5'000'000)
    advice = "Very slow: gather many records for each fsync, or use a faster disk.";
  if (ns < 15'000)
    advice = "So fast that nothing can have reached a disk: memory, or a disk that lies.";
  say("fsync", std::move(text), std::move(advice));
}

void Findings::say_small_files() {
  const auto find = [this](BenchOp op) {
    return best([op](const BenchCase& c) { return c.op == op && c.block_bytes == 4 * kKiB; });
  };
  const auto* created = find(BenchOp::kCreate);
  const auto* read = find(BenchOp::kReadFile);
  if (created == nullptr || read == nullptr) return;
  std::string text =
      fmt::format("Small files of 4 KiB: {} created, {} read a second",
                  format_count(created->ops_per_second()), format_count(read->ops_per_second()));
  if (const auto* looked = find(BenchOp::kStat)) {
    text += fmt::format(", {} looked up", format_count(looked->ops_per_second()));
  }
  text += fmt::format(". Read one by one they give {}.", rate(*read));
  say("small_files", std::move(text), "Pack small files into shards for training.");
}

// How bad the slowest reads are, one at a time, when nothing else is going on.
void Findings::say_tail() {
  const CaseResult* alone = best([](const BenchCase& c) {
    return c.op == BenchOp::kRead && c.pattern == BenchPattern::kRandom &&
           c.mode == BenchMode::kDirect && c.block_bytes == 4 * kKiB && c.depth == 1 && c.jobs == 1;
  });
  if (alone == nullptr || alone->ops < 1000) return;
  const LatencySummary& latency = alone->latency;
  const bool long_tail = latency.p999_ns > 20 * latency.p50_ns;
  say("read_latency",
      fmt::format("One random 4 KiB read takes {}, one in a thousand {} or more.",
                  duration(latency.p50_ns), duration(latency.p999_ns)),
      long_tail ? "That tail is long: a step that waits for many reads will meet it every time."
                : "");
}

void Findings::say_checkpoint_time() {
  for (const CaseResult& result : results_) {
    const BenchCase& c = result.bench_case;
    if (!result.measured() || !c.lays_file || c.block_bytes < 4 * kMiB) continue;
    const auto cliff = find_write_cliff(result.rate);
    const double sustained = cliff ? cliff->rate_after : result.bytes_per_second();
    const double seconds = 100e9 / sustained;
    say("checkpoint_time",
        fmt::format("At the sustained rate of {}, a checkpoint of 100 GB takes {}.",
                    format_rate(sustained),
                    format_duration(Nanoseconds(static_cast<int64_t>(seconds * 1e9)))),
        cliff || result.seconds > 30 ? ""
                                     : "Use a --size larger than the drive's fast part (10 to 50 "
                                       "GB on consumer flash) to be "
                                       "sure that the rate holds.");
  }
}

}  // namespace

std::vector<Finding> find_findings(std::span<const CaseResult> results, const BenchFacts& facts) {
  using enum BenchPattern;
  Findings findings(results, facts);
  findings.say_holes();
  findings.say_read_from_memory();
  findings.say_write_cliff();
  findings.say_checkpoint_time();
  findings.say_saturation(BenchOp::kRead, kRandom, "random_read_saturation", "Random reads");
  findings.say_saturation(BenchOp::kRead, kSequential, "sequential_read_saturation",
                          "Sequential reads");
  findings.say_saturation(BenchOp::kWrite, kSequential, "sequential_write_saturation",
                          "Sequential writes");
  findings.say_tail();
  findings.say_sync();
  findings.say_direct_against_buffered(BenchOp::kRead);
  findings.say_direct_against_buffered(BenchOp::kWrite);
  findings.say_page_cache();
  findings.say_uncached();
  findings.say_random_against_sequential();
  findings.say_mmap();
  findings.say_small_files();
  findings.say_store_saturation(BenchOp::kGet, "Reads of objects");
  findings.say_store_saturation(BenchOp::kGetRange, "Ranged reads of one object, in pieces");
  findings.say_store_saturation(BenchOp::kPut, "Writes of objects");
  return findings.take();
}

}  // namespace penstock::tune
