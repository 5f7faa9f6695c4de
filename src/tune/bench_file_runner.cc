#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "tune/bench_mapping.h"
#include "tune/bench_runner.h"
#include "tune/bench_scratch.h"
#include "tune/bench_small_files.h"
#include "tune/bench_stream.h"

namespace penstock::tune {

namespace {

using Files = std::vector<std::unique_ptr<io::File>>;
using OwnedStreams = std::vector<std::unique_ptr<BenchStream>>;

io::CacheMode cache_mode(BenchMode mode) {
  if (mode == BenchMode::kDirect) return io::CacheMode::kDirect;
  if (mode == BenchMode::kUncached) return io::CacheMode::kUncached;
  return io::CacheMode::kBuffered;
}

// Memory that a case moves data from or to.
uint64_t memory_of(const BenchCase& bench_case) {
  return bench_case.block_bytes * bench_case.depth * bench_case.jobs;
}

// How often each job of a case that counts calls may go; 0: only time counts.
uint64_t calls_per_job(const BenchCase& bench_case) {
  if (bench_case.limit_bytes == 0) return 0;
  return std::max<uint64_t>(1, bench_case.limit_bytes / bench_case.jobs / bench_case.block_bytes);
}

class FileBench {
 public:
  FileBench(const FileBenchTarget& target, const BenchPlan& plan, const BenchContext& context)
      : target_(target), fs_(target.fs), plan_(plan), context_(context) {}

  Result<void> prepare();
  Result<void> run(std::vector<CaseResult>& results);
  Result<void> clean_up() { return scratch_ ? scratch_->remove() : Result<void>(); }

 private:
  Result<CaseResult> run_case(BenchCase bench_case);
  Result<CaseResult> run_transfers(const BenchCase& bench_case);
  Result<CaseResult> run_synced_writes(const BenchCase& bench_case);
  Result<CaseResult> run_mapped(const BenchCase& bench_case);
  Result<CaseResult> run_small_files(const BenchCase& bench_case);

  Result<Files> open_files(const BenchCase& bench_case);
  Result<void> set_cache(const BenchCase& bench_case);
  Result<void> check_can_be_cold(const BenchCase& bench_case) const;
  Result<void> drop_pages(io::File& file, const BenchCase& bench_case);
  Result<void> read_through(io::File& file, uint64_t length, Deadline end);
  Result<void> fit_to_file(BenchCase& bench_case) const;
  io::MemorySlice memory_for(const BenchCase& bench_case, uint32_t job) const;

  const FileBenchTarget& target_;
  io::FileSystem& fs_;
  const BenchPlan& plan_;
  BenchContext context_;
  std::unique_ptr<BenchScratch> scratch_;
  std::string path_;         // Of the file under test.
  uint64_t laid_bytes_ = 0;  // How much of it there is.
  double lay_rate_ = 0;      // At which it was written, bytes per second.
  io::Buffer memory_;
  std::unique_ptr<SmallFileSet> small_files_;
  uint32_t small_file_sets_ = 0;
};

Result<void> FileBench::prepare() {
  uint64_t memory_bytes = 2 * kMiB;  // The least that a provider takes.
  for (const BenchCase& bench_case : plan_.cases) {
    memory_bytes = std::max(memory_bytes, memory_of(bench_case));
    laid_bytes_ = std::max(laid_bytes_, bench_case.span_bytes);
  }
  const io::BufferOptions options{.budget_bytes = memory_bytes, .registrar = target_.registrar};
  const auto provider = PENSTOCK_TRY(io::BufferProvider::create(options));
  memory_ = PENSTOCK_TRY(provider->take(memory_bytes));
  fill_incompressible(memory_.bytes(), 1);
  path_ = target_.path;
  if (target_.kind != BenchTarget::kDirectory) return {};
  scratch_ = PENSTOCK_TRY(BenchScratch::create(fs_, target_.path));
  path_ = scratch_->path() + "/data";
  laid_bytes_ = 0;
  return {};
}

Result<void> FileBench::run(std::vector<CaseResult>& results) {
  context_.case_count = plan_.cases.size();
  for (const BenchCase& bench_case : plan_.cases) {
    ++context_.case_number;
    PENSTOCK_TRY(check_stop(context_));
    Result<CaseResult> result = run_case(bench_case);
    if (!result.ok() && result.error().code == ErrorCode::kUnsupported) {
      CaseResult skipped;
      skipped.bench_case = bench_case;
      skipped.skipped = result.error().detail;
      result = std::move(skipped);
    }
    results.push_back(PENSTOCK_TRY(std::move(result)));
  }
  return {};
}

Result<CaseResult> FileBench::run_case(BenchCase bench_case) {
  PENSTOCK_TRY(check_can_be_cold(bench_case));
  if (bench_case.on_small_files()) return run_small_files(bench_case);
  if (bench_case.lays_file || bench_case.pattern == BenchPattern::kAppend) {
    return bench_case.lays_file ? run_transfers(bench_case) : run_synced_writes(bench_case);
  }
  PENSTOCK_TRY(fit_to_file(bench_case));
  PENSTOCK_TRY(set_cache(bench_case));
  if (bench_case.mode == BenchMode::kMmap) return run_mapped(bench_case);
  if (bench_case.syncs_each()) return run_synced_writes(bench_case);
  return run_transfers(bench_case);
}

// Laying the file may have ended early: then the cases make do with what there is. And a slow
// device does not get a whole file to write back after each buffered case.
Result<void> FileBench::fit_to_file(BenchCase& bench_case) const {
  bench_case.span_bytes = std::min(bench_case.span_bytes, laid_bytes_);
  if (bench_case.span_bytes < bench_case.block_bytes * bench_case.jobs) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("the test file has only {}", format_size(laid_bytes_)));
  }
  if (bench_case.limit_bytes == 0) return {};
  bench_case.limit_bytes = std::min(bench_case.limit_bytes, bench_case.span_bytes);
  if (bench_case.op != BenchOp::kWrite) return {};
  const double seconds = std::chrono::duration<double>(plan_.case_time).count();
  const auto affordable = static_cast<uint64_t>(lay_rate_ * seconds * 2);
  bench_case.limit_bytes =
      std::min(bench_case.limit_bytes, std::max(affordable, memory_of(bench_case)));
  return {};
}

// Brings the pages of the file into the state that the case asks for. Before a cold case the file
// is read once, as far as a second goes: on virtual machines, memory that lay idle is handed out
// slowly, and the case would measure that instead of reading.
Result<void> FileBench::set_cache(const BenchCase& bench_case) {
  // Somebody else's file stays in memory as it is, unless the case asks for more.
  if (!scratch_ && bench_case.cache == BenchCache::kAny) return {};
  const auto file = PENSTOCK_TRY(fs_.open(path_, {}));
  if (bench_case.cache == BenchCache::kWarm) {
    return read_through(*file, bench_case.span_bytes, kNoDeadline);
  }
  if (bench_case.mode != BenchMode::kDirect) {
    PENSTOCK_TRY(read_through(*file, bench_case.span_bytes, deadline_in(std::chrono::seconds(1))));
  }
  // Pages that wait to be written cannot be dropped. In somebody else's file there rarely are any.
  if (scratch_) PENSTOCK_TRY(file->data_sync());
  return drop_pages(*file, bench_case);
}

// The kernel takes the wish to drop pages as advice: whether they are gone is looked at.
Result<void> FileBench::drop_pages(io::File& file, const BenchCase& bench_case) {
  constexpr double kCachedMost = 0.03;
  PENSTOCK_TRY(file.advise(io::Advice::kDontNeed, 0, laid_bytes_));
  if (bench_case.cache != BenchCache::kCold) return {};
  const auto still_cached = [&] { return cached_share(path_, bench_case.span_bytes).value_or(0); };
  if (still_cached() <= kCachedMost) return {};
  PENSTOCK_TRY(file.data_sync());
  PENSTOCK_TRY(file.advise(io::Advice::kDontNeed, 0, laid_bytes_));
  const double share = still_cached();
  if (share <= kCachedMost) return {};
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("{:.0f} % of the file stay in the page cache (other programs use "
                                "it, or its file system keeps it): a read would not be cold",
                                100 * share));
}

Result<void> FileBench::check_can_be_cold(const BenchCase& bench_case) const {
  // Device nodes lie in memory, the devices do not.
  const bool on_files = target_.kind != BenchTarget::kBlockDevice;
  if (bench_case.cache != BenchCache::kCold || !on_files) return {};
  if (!is_kept_in_memory(target_.path)) return {};
  return make_error(ErrorCode::kUnsupported, "this file system is memory: nothing is ever cold");
}

Result<void> FileBench::read_through(io::File& file, uint64_t length, Deadline end) {
  const std::span<std::byte> memory = memory_.bytes().first(kMiB);
  for (uint64_t offset = 0; offset < length; offset += memory.size()) {
    PENSTOCK_TRY(check_stop(context_));
    if (std::chrono::steady_clock::now() >= end) break;
    PENSTOCK_TRY(file.read(offset, memory));
  }
  return {};
}

// One handle for each job.
Result<Files> FileBench::open_files(const BenchCase& bench_case) {
  io::OpenOptions options{.mode = cache_mode(bench_case.mode)};
  if (bench_case.writes()) options.access = io::Access::kReadWrite;
  if (bench_case.lays_file) {
    options.create = io::Create::kMustNotExist;
    options.require_mode = false;  // Without direct I/O (some network and memory file systems).
  }
  const bool random = bench_case.pattern == BenchPattern::kRandom;
  options.advice = random ? io::Advice::kRandom : io::Advice::kSequential;
  Files files;
  for (uint32_t job = 0; job < bench_case.jobs; ++job) {
    auto opened = fs_.open(path_, options);
    if (!opened.ok() && opened.error().code == ErrorCode::kUnsupported) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("{} I/O is not supported by this file system or kernel",
                                    bench_mode_name(bench_case.mode)));
    }
    files.push_back(PENSTOCK_TRY(std::move(opened)));
  }
  return files;
}

io::MemorySlice FileBench::memory_for(const BenchCase& bench_case, uint32_t job) const {
  const uint64_t each = bench_case.block_bytes * bench_case.depth;
  return memory_.slice(job * each, each);
}

Result<CaseResult> FileBench::run_transfers(const BenchCase& bench_case) {
  const Files files = PENSTOCK_TRY(open_files(bench_case));
  BenchCase actual = bench_case;
  if (files[0]->mode() != cache_mode(bench_case.mode)) actual.mode = BenchMode::kBuffered;
  if (bench_case.lays_file) {
    // Blocks are reserved first: writes that extend a file wait for each other. Where it cannot be
    // done, the writes do it.
    const Result<void> reserved = files[0]->allocate(0, bench_case.span_bytes);
    if (!reserved.ok() && reserved.error().code != ErrorCode::kUnsupported) return reserved.error();
  }
  const bool random = bench_case.pattern == BenchPattern::kRandom;
  const uint64_t part = random ? bench_case.span_bytes : bench_case.span_bytes / bench_case.jobs;
  OwnedStreams streams;
  for (uint32_t job = 0; job < bench_case.jobs; ++job) {
    const uint64_t begin = part / bench_case.block_bytes * bench_case.block_bytes * job;
    const FileStreamOptions options{.write = bench_case.op == BenchOp::kWrite,
                                    .random = random,
                                    .begin = random ? 0 : begin,
                                    .span = part,
                                    .block_bytes = bench_case.block_bytes,
                                    .depth = bench_case.depth,
                                    .limit_bytes = bench_case.limit_bytes / bench_case.jobs,
                                    .seed = context_.case_number * 256 + job};
    streams.push_back(
        std::make_unique<FileStream>(*files[job], options, memory_for(bench_case, job)));
  }
  const auto sync = [&]() -> Result<void> { return files[0]->data_sync(); };
  const bool writes = bench_case.op == BenchOp::kWrite;
  CaseResult result = PENSTOCK_TRY(
      measure_case(actual, streams, writes ? sync : std::function<Result<void>()>(), context_));
  if (bench_case.lays_file) {
    laid_bytes_ = result.bytes;
    lay_rate_ = result.bytes_per_second();
  }
  return result;
}

// A block and its fsync, as a log or a database does. Appending jobs have a file each; overwriting
// ones a part of the test file each.
Result<CaseResult> FileBench::run_synced_writes(const BenchCase& bench_case) {
  const bool appends = bench_case.pattern == BenchPattern::kAppend;
  const bool whole = bench_case.op == BenchOp::kWriteSync;
  const uint64_t block_bytes = bench_case.block_bytes;
  const uint64_t blocks = bench_case.span_bytes / bench_case.jobs / block_bytes;
  Files files;
  OwnedStreams streams;
  std::vector<std::string> paths;
  for (uint32_t job = 0; job < bench_case.jobs; ++job) {
    paths.push_back(appends ? fmt::format("{}/append-{}", scratch_->path(), job) : path_);
    files.push_back(PENSTOCK_TRY(
        fs_.open(paths.back(), {.access = io::Access::kReadWrite,
                                .create = appends ? io::Create::kTruncate : io::Create::kNever,
                                .mode = cache_mode(bench_case.mode)})));
    const io::MemorySlice memory = memory_for(bench_case, job);
    const uint64_t begin = appends ? 0 : blocks * block_bytes * job;
    const auto step = [=, &file = *files.back()](uint64_t call) -> Result<uint64_t> {
      const std::span<std::byte> block(memory.data, memory.size);
      stamp_block(block, call);
      const uint64_t index = appends ? call : call % blocks;
      PENSTOCK_TRY(file.write(begin + index * block_bytes, block));
      PENSTOCK_TRY(whole ? file.sync() : file.data_sync());
      return block_bytes;
    };
    streams.push_back(std::make_unique<ThreadStream>(step, calls_per_job(bench_case)));
  }
  CaseResult result = PENSTOCK_TRY(measure_case(bench_case, streams, {}, context_));
  for (const std::string& path : paths) {
    if (appends) PENSTOCK_TRY(fs_.remove(path));
  }
  return result;
}

Result<CaseResult> FileBench::run_mapped(const BenchCase& bench_case) {
  const bool random = bench_case.pattern == BenchPattern::kRandom;
  const auto mapping = PENSTOCK_TRY(BenchMapping::open(path_, bench_case.span_bytes, random));
  const uint64_t block_bytes = bench_case.block_bytes;
  const uint64_t part = random ? bench_case.span_bytes : bench_case.span_bytes / bench_case.jobs;
  const uint64_t blocks = part / block_bytes;
  OwnedStreams streams;
  for (uint32_t job = 0; job < bench_case.jobs; ++job) {
    const uint64_t begin = random ? 0 : blocks * block_bytes * job;
    const std::span<std::byte> into(memory_for(bench_case, job).data, block_bytes);
    const auto step = [=, &from = *mapping,
                       picker = BlockPicker(job + 1)](uint64_t call) mutable -> Result<uint64_t> {
      const uint64_t block = random ? picker.next(blocks) : call % blocks;
      PENSTOCK_TRY(from.copy(begin + block * block_bytes, into));
      return block_bytes;
    };
    streams.push_back(std::make_unique<ThreadStream>(step, calls_per_job(bench_case)));
  }
  return measure_case(bench_case, streams, {}, context_);
}

// A create case begins a new set of files and removes the one before.
Result<CaseResult> FileBench::run_small_files(const BenchCase& bench_case) {
  if (bench_case.op == BenchOp::kCreate) {
    if (small_files_) PENSTOCK_TRY(small_files_->remove());
    const std::string directory = fmt::format("{}/small-{}", scratch_->path(), ++small_file_sets_);
    small_files_ =
        PENSTOCK_TRY(SmallFileSet::create(fs_, directory, bench_case.block_bytes, bench_case.jobs));
  }
  return small_files_->run(bench_case, memory_.bytes(), context_);
}

}  // namespace

Result<void> run_file_bench(const FileBenchTarget& target, const BenchPlan& plan,
                            const BenchContext& context, std::vector<CaseResult>& results) {
  FileBench bench(target, plan, context);
  PENSTOCK_TRY(bench.prepare());
  PENSTOCK_TRY(bench.run(results));
  return bench.clean_up();
}

}  // namespace penstock::tune
