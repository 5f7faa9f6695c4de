#include "tune/bench_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <initializer_list>
#include <set>

namespace penstock::tune {

namespace {

constexpr uint64_t kSmallestFile = 16 * kMiB;  // Less than this measures nothing.
constexpr uint64_t kCachedMost =
    512 * kMiB;  // Of page cache that a case fills: enough for its time.
constexpr Nanoseconds kLayTimeMost = std::chrono::seconds(10);
constexpr uint64_t kSmallFilesMost = 20'000;  // Per case: enough for seconds on a fast disk.

// Room for what is made beside the test file, and removed again, by one case at a time.
uint64_t bench_extra_bytes(uint64_t size_bytes) {
  return size_bytes / 8;
}

// One block of each job, which is the least that a case writes.
uint64_t least_bytes(const BenchCase& bench_case) {
  return bench_case.block_bytes * bench_case.jobs;
}

bool appends_fit(const BenchCase& bench_case, uint64_t size_bytes) {
  return bench_case.pattern != BenchPattern::kAppend ||
         least_bytes(bench_case) <= bench_extra_bytes(size_bytes);
}

// Adds cases with the options' time and size filled in.
class PlanBuilder {
 public:
  PlanBuilder(BenchPlan& plan, const BenchLimits& limits, bool quick)
      : plan_(plan), limits_(limits), quick_(quick) {}

  void add(BenchCase bench_case) {
    if (!bench_case.lays_file) bench_case.time_limit = plan_.case_time;
    if (bench_case.span_bytes == 0) bench_case.span_bytes = span_of(bench_case);
    if (!fits(bench_case)) return;
    // What stays in the page cache goes through once: a second pass would measure memory.
    const bool cached = bench_case.mode != BenchMode::kDirect;
    const bool once = cached && (bench_case.cache == BenchCache::kCold || bench_case.writes());
    if (once && bench_case.limit_bytes == 0) bench_case.limit_bytes = bench_case.span_bytes;
    if (bench_case.pattern == BenchPattern::kAppend) {
      bench_case.limit_bytes = bench_extra_bytes(plan_.size_bytes);
    }
    plan_.cases.push_back(bench_case);
  }

  void lay_file(uint64_t block_bytes, uint32_t depth) {
    if (limits_.target != BenchTarget::kDirectory) return;
    add({.op = BenchOp::kWrite,
         .block_bytes = std::min(block_bytes, plan_.size_bytes),
         .depth = depth,
         .span_bytes = plan_.size_bytes,
         .limit_bytes = plan_.size_bytes,
         // Whoever names a size gets it, however long that takes: a write cliff shows only then.
         .time_limit = plan_.size_was_given ? Nanoseconds(0) : kLayTimeMost / (quick_ ? 5 : 1),
         .lays_file = true});
  }

  void sweep(BenchCase bench_case, std::initializer_list<uint64_t> blocks,
             std::initializer_list<uint32_t> depths) {
    for (const uint64_t block_bytes : blocks) {
      for (const uint32_t depth : depths) {
        bench_case.block_bytes = block_bytes;
        bench_case.depth = depth;
        add(bench_case);
      }
    }
  }

  void small_files(uint64_t file_bytes, uint32_t jobs) {
    if (limits_.target != BenchTarget::kDirectory) return;
    const uint64_t by_size = bench_extra_bytes(plan_.size_bytes) / file_bytes;
    uint64_t files = std::min(by_size, kSmallFilesMost);
    if (limits_.total_inodes != 0) files = std::min(files, limits_.free_inodes / 10);
    if (files < jobs) return;  // Each job makes one at least.
    BenchCase small{.op = BenchOp::kCreate,
                    .mode = BenchMode::kBuffered,
                    .block_bytes = file_bytes,
                    .jobs = jobs,
                    .span_bytes = files * file_bytes,
                    .limit_bytes = files * file_bytes};
    add(small);
    small.op = BenchOp::kStat;
    small.pattern = BenchPattern::kRandom;
    small.limit_bytes = 0;
    add(small);
    small.op = BenchOp::kReadFile;
    small.cache = BenchCache::kCold;
    add(small);
  }

  bool quick() const { return quick_; }

 private:
  uint64_t span_of(const BenchCase& bench_case) const {
    const uint64_t whole =
        limits_.target == BenchTarget::kDirectory ? plan_.size_bytes : limits_.existing_bytes;
    if (bench_case.mode == BenchMode::kDirect) return whole;
    // Cached cases must fit in memory with room to spare, or they measure eviction.
    return std::min(
        {whole, plan_.size_bytes, kCachedMost, std::max<uint64_t>(limits_.memory_bytes / 4, kMiB)});
  }

  // Every stream needs at least one block of its own, also of the room for appends, and a target
  // that is only read is not written.
  bool fits(const BenchCase& bench_case) const {
    if (bench_case.writes() && limits_.target != BenchTarget::kDirectory) return false;
    if (!appends_fit(bench_case, plan_.size_bytes)) return false;
    return bench_case.on_small_files() || bench_case.span_bytes >= least_bytes(bench_case);
  }

  BenchPlan& plan_;
  const BenchLimits& limits_;
  bool quick_;
};

constexpr BenchCase kSequentialRead{.op = BenchOp::kRead};
constexpr BenchCase kRandomRead{.op = BenchOp::kRead, .pattern = BenchPattern::kRandom};
constexpr BenchCase kSequentialWrite{.op = BenchOp::kWrite};
constexpr BenchCase kRandomWrite{.op = BenchOp::kWrite, .pattern = BenchPattern::kRandom};

BenchCase with_mode(BenchCase bench_case, BenchMode mode, BenchCache cache = BenchCache::kAny) {
  bench_case.mode = mode;
  bench_case.cache = cache;
  return bench_case;
}

BenchCase with_jobs(BenchCase bench_case, uint32_t jobs) {
  bench_case.jobs = jobs;
  return bench_case;
}

BenchCase append(BenchOp op, uint64_t block_bytes, BenchMode mode = BenchMode::kBuffered) {
  return {.op = op, .pattern = BenchPattern::kAppend, .mode = mode, .block_bytes = block_bytes};
}

BenchCase overwrite(BenchOp op, uint64_t block_bytes, BenchMode mode = BenchMode::kBuffered) {
  return {.op = op, .mode = mode, .block_bytes = block_bytes};
}

// The page cache has read-ahead and write-behind of its own, which deep queues may disturb: both
// are tried, where there is time.
void sweep_cached(PlanBuilder& plan, const BenchCase& bench_case) {
  plan.sweep(bench_case, {kMiB}, {1});
  if (!plan.quick()) plan.sweep(bench_case, {kMiB}, {8});
}

void add_cached_reads(PlanBuilder& plan) {
  using enum BenchMode;
  sweep_cached(plan, with_mode(kSequentialRead, kBuffered, BenchCache::kCold));
  plan.sweep(with_mode(kSequentialRead, kBuffered, BenchCache::kWarm), {kMiB}, {1});
  sweep_cached(plan, with_mode(kSequentialRead, kUncached, BenchCache::kCold));
  plan.sweep(with_mode(kSequentialRead, kMmap, BenchCache::kCold), {kMiB}, {1});
  if (plan.quick()) return;
  plan.sweep(with_mode(kSequentialRead, kMmap, BenchCache::kWarm), {kMiB}, {1});
}

void plan_general(PlanBuilder& plan) {
  using enum BenchMode;
  plan.lay_file(kMiB, 8);
  if (plan.quick()) {
    plan.sweep(kSequentialWrite, {kMiB}, {1, 8});
  } else {
    plan.sweep(kSequentialWrite, {kMiB}, {1, 2, 4, 8});
  }
  sweep_cached(plan, with_mode(kSequentialWrite, kBuffered));
  sweep_cached(plan, with_mode(kSequentialWrite, kUncached));
  if (plan.quick()) {
    plan.sweep(kSequentialRead, {kMiB}, {1, 2, 8});
  } else {
    plan.sweep(kSequentialRead, {128 * kKiB}, {1, 4, 16});
    plan.sweep(kSequentialRead, {kMiB}, {1, 2, 4, 8, 16});
  }
  add_cached_reads(plan);
  if (plan.quick()) {
    plan.sweep(kRandomRead, {4 * kKiB}, {1, 8, 32, 64});
  } else {
    plan.sweep(kRandomRead, {4 * kKiB}, {1, 4, 16, 32, 64});
    plan.sweep(kRandomRead, {64 * kKiB}, {1, 4, 16});
    plan.sweep(with_mode(kRandomRead, kBuffered, BenchCache::kCold), {4 * kKiB}, {32});
    plan.sweep(with_mode(kRandomRead, kMmap, BenchCache::kCold), {4 * kKiB}, {1});
  }
  plan.sweep(kRandomWrite, {4 * kKiB}, {1, 32});
  plan.add(append(BenchOp::kWriteSync, 4 * kKiB));
  plan.add(append(BenchOp::kWriteDataSync, 4 * kKiB));
  plan.small_files(4 * kKiB, 1);
}

// Large sequential writes made durable, past the cliff when the size is; then the restore.
void plan_checkpoint(PlanBuilder& plan) {
  plan.lay_file(4 * kMiB, 8);
  plan.sweep(kSequentialWrite, {4 * kMiB}, {1, 2, 4, 8});
  plan.sweep(with_mode(kSequentialWrite, BenchMode::kBuffered), {4 * kMiB}, {1, 8});
  plan.sweep(with_mode(kSequentialWrite, BenchMode::kUncached), {4 * kMiB}, {1, 8});
  plan.sweep(kSequentialRead, {4 * kMiB}, {1, 4, 8});
}

// Sixteen readers, each streaming its own shard.
void plan_shards(PlanBuilder& plan) {
  using enum BenchMode;
  plan.lay_file(kMiB, 8);
  plan.sweep(with_jobs(kSequentialRead, 16), {64 * kKiB, 256 * kKiB, kMiB}, {1, 4});
  for (const BenchMode mode : {kBuffered, kUncached}) {
    const BenchCase cold = with_mode(kSequentialRead, mode, BenchCache::kCold);
    plan.sweep(with_jobs(cold, 16), {64 * kKiB, kMiB}, {1});
  }
}

// Loose small files, and small pieces of large ones.
void plan_images(PlanBuilder& plan) {
  plan.lay_file(kMiB, 8);
  for (const uint64_t file_bytes : {4 * kKiB, 32 * kKiB, 128 * kKiB}) {
    plan.small_files(file_bytes, 1);
    plan.small_files(file_bytes, 8);
  }
  plan.sweep(kRandomRead, {4 * kKiB, 16 * kKiB, 64 * kKiB, 128 * kKiB}, {1, 8, 32});
  plan.sweep(with_mode(kRandomRead, BenchMode::kBuffered, BenchCache::kCold), {128 * kKiB}, {8});
}

// Rows of large tables, from many threads at once.
void plan_embeddings(PlanBuilder& plan) {
  using enum BenchMode;
  plan.lay_file(kMiB, 8);
  plan.sweep(with_jobs(kRandomRead, 8), {4 * kKiB}, {1, 8, 64});
  plan.sweep(kRandomRead, {4 * kKiB}, {1, 64});
  const BenchCase buffered = with_mode(kRandomRead, kBuffered, BenchCache::kCold);
  plan.sweep(with_jobs(buffered, 8), {4 * kKiB}, {64});
  const BenchCase mapped = with_mode(kRandomRead, kMmap, BenchCache::kCold);
  plan.sweep(with_jobs(mapped, 8), {4 * kKiB}, {1});
  plan.sweep(with_jobs(with_mode(mapped, kMmap, BenchCache::kWarm), 8), {4 * kKiB}, {1});
}

// Small records that must be durable before they are acknowledged.
void plan_logs(PlanBuilder& plan) {
  plan.lay_file(kMiB, 8);
  for (const BenchOp op : {BenchOp::kWriteSync, BenchOp::kWriteDataSync}) {
    plan.add(append(op, 4 * kKiB));
    plan.add(append(op, 64 * kKiB));
    plan.add(append(op, 4 * kKiB, BenchMode::kDirect));
    plan.add(overwrite(op, 4 * kKiB));
    plan.add(with_jobs(append(op, 4 * kKiB), 8));
  }
}

void plan_store(BenchPlan& plan) {
  using enum BenchOp;
  const auto add = [&plan](BenchOp op, uint64_t object_bytes, uint32_t concurrency) {
    // A quarter of the size for each of the four sizes of object, but enough objects that no two
    // requests in flight are for the same one.
    const uint64_t share = std::max(plan.size_bytes / 4, object_bytes * concurrency);
    plan.cases.push_back({.op = op,
                          .pattern = BenchPattern::kRandom,
                          .block_bytes = object_bytes,
                          .depth = concurrency,
                          .span_bytes = share,
                          .time_limit = plan.case_time});
  };
  for (const BenchOp op : {kPut, kGet}) {
    for (const uint64_t object_bytes : {4 * kKiB, kMiB, 4 * kMiB}) {
      for (const uint32_t concurrency : {1U, 8U, 32U}) add(op, object_bytes, concurrency);
    }
  }
  for (const uint32_t concurrency : {1U, 4U, 8U}) add(kGetRange, 8 * kMiB, concurrency);
  for (const uint32_t concurrency : {1U, 32U}) add(kHead, 4 * kKiB, concurrency);
  add(kList, 4 * kKiB, 1);
  add(kRemove, 4 * kKiB, 1);
}

void add_profile(PlanBuilder& plan, BenchProfile profile) {
  switch (profile) {
    case BenchProfile::kGeneral:
      return plan_general(plan);
    case BenchProfile::kCheckpoint:
      return plan_checkpoint(plan);
    case BenchProfile::kShards:
      return plan_shards(plan);
    case BenchProfile::kImages:
      return plan_images(plan);
    case BenchProfile::kEmbeddings:
      return plan_embeddings(plan);
    case BenchProfile::kLogs:
      return plan_logs(plan);
  }
}

Result<void> check_options(const BenchOptions& options, const BenchLimits& limits) {
  const auto refuse = [](std::string why) {
    return make_error(ErrorCode::kInvalid, std::move(why));
  };
  if (options.size_bytes && *options.size_bytes < kMiB)
    return refuse("the size must be 1 MiB or more");
  if (options.case_time && options.case_time->count() <= 0)
    return refuse("the time must be above 0");
  const bool named = options.profile != BenchProfile::kGeneral;
  if (named && !options.cases.empty()) return refuse("give a profile or cases, not both");
  if (limits.target == BenchTarget::kStore) {
    if (named) return refuse("profiles are for paths; an object store has one plan of its own");
    if (!options.cases.empty()) return refuse("single cases are for paths, not for object stores");
  }
  const bool read_only =
      limits.target == BenchTarget::kFile || limits.target == BenchTarget::kBlockDevice;
  for (const BenchCase& bench_case : options.cases) {
    if (read_only && bench_case.writes()) {
      return refuse("an existing file or device is only read; give a directory to measure writes");
    }
  }
  return {};
}

Result<uint64_t> size_in_directory(const BenchOptions& options, const BenchLimits& limits) {
  const uint64_t reserve = bench_reserve_bytes(limits.total_bytes);
  const uint64_t left = limits.available_bytes > reserve ? limits.available_bytes - reserve : 0;
  const uint64_t room = left - left / 8;  // bench_extra_bytes(room) fits beside it.
  if (options.size_bytes) {
    if (*options.size_bytes <= room) return *options.size_bytes;
    return make_error(
        ErrorCode::kNoSpace,
        fmt::format("a test of {} would fill the disk: {} are available and {} stay free; at most "
                    "--size {}MiB is possible",
                    format_size(*options.size_bytes), format_size(limits.available_bytes),
                    format_size(reserve), room / kMiB));
  }
  const uint64_t usual = options.quick ? 256 * kMiB : kGiB;
  const uint64_t size =
      std::min({usual, room / 2, std::max(limits.memory_bytes / 4, kSmallestFile)});
  if (size >= kSmallestFile) return size / kMiB * kMiB;
  return make_error(
      ErrorCode::kNoSpace,
      fmt::format("too little room for a test: {} are available and {} of them stay free",
                  format_size(limits.available_bytes), format_size(reserve)));
}

Result<uint64_t> choose_size(const BenchOptions& options, const BenchLimits& limits) {
  if (limits.target == BenchTarget::kDirectory) return size_in_directory(options, limits);
  if (limits.target == BenchTarget::kStore) {
    return options.size_bytes.value_or(options.quick ? 128 * kMiB : 512 * kMiB);
  }
  if (limits.existing_bytes < 4 * kKiB) {
    return make_error(ErrorCode::kInvalid, "the file is too small to measure: less than 4 KiB");
  }
  return std::min(options.size_bytes.value_or(kGiB), limits.existing_bytes);
}

Result<void> check_appends(const std::vector<BenchCase>& cases, uint64_t size_bytes) {
  for (const BenchCase& bench_case : cases) {
    if (appends_fit(bench_case, size_bytes)) continue;
    const uint64_t enough = least_bytes(bench_case) * 8;
    return make_error(
        ErrorCode::kInvalid,
        fmt::format("{}: appends need {} beside the test file, and a test of {} sets {} aside for "
                    "them; give smaller blocks, fewer jobs or --size {}MiB",
                    bench_case_label(bench_case), format_size(least_bytes(bench_case)),
                    format_size(size_bytes), format_size(bench_extra_bytes(size_bytes)),
                    (enough + kMiB - 1) / kMiB));
  }
  return {};
}

// The label is what tells results apart.
Result<void> check_distinct(const std::vector<BenchCase>& cases) {
  std::set<std::string> labels;
  for (const BenchCase& bench_case : cases) {
    const std::string label = bench_case_label(bench_case);
    if (labels.insert(label).second) continue;
    return make_error(ErrorCode::kInvalid, fmt::format("the case \"{}\" is given twice", label));
  }
  return {};
}

Result<void> add_given_cases(PlanBuilder& builder, const BenchPlan& plan,
                             const std::vector<BenchCase>& cases) {
  PENSTOCK_TRY(check_distinct(cases));
  PENSTOCK_TRY(check_appends(cases, plan.size_bytes));
  builder.lay_file(kMiB, 8);
  const size_t laid = plan.cases.size();
  for (const BenchCase& bench_case : cases) builder.add(bench_case);
  if (plan.cases.size() - laid == cases.size()) return {};
  return make_error(ErrorCode::kInvalid,
                    fmt::format("a case needs a larger file than {}: every job reads its own part",
                                format_size(plan.size_bytes)));
}

}  // namespace

uint64_t bench_reserve_bytes(uint64_t total_bytes) {
  return std::min(total_bytes / 10, 10 * kGiB);
}

Result<BenchPlan> make_bench_plan(const BenchOptions& options, const BenchLimits& limits) {
  PENSTOCK_TRY(check_options(options, limits));
  BenchPlan plan;
  plan.profile = options.profile;
  plan.size_bytes = PENSTOCK_TRY(choose_size(options, limits));
  plan.size_was_given = options.size_bytes.has_value();
  // Requests over a network take longer, so fewer of them fit.
  const int64_t factor = limits.target == BenchTarget::kStore ? 2 : 1;
  const auto usual = std::chrono::milliseconds(factor * (options.quick ? 200 : 500));
  plan.case_time = options.case_time.value_or(usual);

  PlanBuilder builder(plan, limits, options.quick);
  if (limits.target == BenchTarget::kStore) {
    plan_store(plan);
  } else if (!options.cases.empty()) {
    PENSTOCK_TRY(add_given_cases(builder, plan, options.cases));
  } else {
    add_profile(builder, options.profile);
  }
  if (plan.cases.empty()) {
    return make_error(ErrorCode::kInvalid,
                      "nothing in this profile can be measured here; give a directory");
  }
  return plan;
}

}  // namespace penstock::tune
