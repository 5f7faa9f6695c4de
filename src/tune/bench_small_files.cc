#include "tune/bench_small_files.h"

#include <fmt/core.h>

#include <numeric>

namespace penstock::tune {

namespace {

constexpr uint64_t kFilesPerFolder = 1000;

// A different order from that of creation, without a table: a stride that shares no factor with the
// count visits every file once.
uint64_t stride_for(uint64_t count) {
  uint64_t stride = count * 5 / 8 + 1;
  while (std::gcd(stride, count) != 1) ++stride;
  return stride;
}

}  // namespace

Result<std::unique_ptr<SmallFileSet>> SmallFileSet::create(io::FileSystem& fs,
                                                           std::string directory,
                                                           uint64_t file_bytes, uint32_t jobs) {
  PENSTOCK_TRY(fs.make_directory(directory));
  return std::unique_ptr<SmallFileSet>(
      new SmallFileSet(fs, std::move(directory), file_bytes, jobs));
}

std::string SmallFileSet::folder(uint32_t job, uint64_t index) const {
  return fmt::format("{}/{}-{}", directory_, job, index / kFilesPerFolder);
}

std::string SmallFileSet::path(uint32_t job, uint64_t index) const {
  return fmt::format("{}/{}", folder(job, index), index);
}

Result<uint64_t> SmallFileSet::create_one(uint32_t job, uint64_t index,
                                          std::span<std::byte> memory) {
  if (index % kFilesPerFolder == 0) PENSTOCK_TRY(fs_.make_directory(folder(job, index)));
  stamp_block(memory, index << 8 | job);
  auto file = PENSTOCK_TRY(fs_.open(
      path(job, index), {.access = io::Access::kWrite, .create = io::Create::kMustNotExist}));
  PENSTOCK_TRY(file->write(0, memory));
  PENSTOCK_TRY(file->close());
  made_[job] = index + 1;
  return memory.size();
}

Result<uint64_t> SmallFileSet::read_one(uint32_t job, uint64_t index, std::span<std::byte> memory) {
  auto file = PENSTOCK_TRY(fs_.open(path(job, index), {}));
  const size_t got = PENSTOCK_TRY(file->read(0, memory));
  if (got != memory.size()) {
    return make_error(ErrorCode::kCorrupt, path(job, index) + " is shorter than it was written");
  }
  PENSTOCK_TRY(file->close());
  return got;
}

// The files' bytes leave the page cache; their inodes and names stay, as only root can drop those.
Result<void> SmallFileSet::make_cold(const BenchContext& context) {
  PENSTOCK_TRY(fs_.sync_file_system(directory_));
  for (uint32_t job = 0; job < jobs_; ++job) {
    for (uint64_t index = 0; index < made_[job]; ++index) {
      PENSTOCK_TRY(check_stop(context));
      auto file = PENSTOCK_TRY(fs_.open(path(job, index), {}));
      PENSTOCK_TRY(file->advise(io::Advice::kDontNeed, 0, file_bytes_));
    }
  }
  return {};
}

Result<CaseResult> SmallFileSet::run(const BenchCase& bench_case, std::span<std::byte> memory,
                                     const BenchContext& context) {
  const bool creates = bench_case.op == BenchOp::kCreate;
  if (bench_case.op == BenchOp::kReadFile) PENSTOCK_TRY(make_cold(context));
  std::vector<std::unique_ptr<BenchStream>> streams;
  for (uint32_t job = 0; job < jobs_; ++job) {
    if (!creates && made_[job] == 0) continue;
    const std::span<std::byte> own = memory.subspan(job * file_bytes_, file_bytes_);
    const uint64_t count = made_[job];
    const uint64_t stride = creates ? 1 : stride_for(count);
    const auto step = [=, this, op = bench_case.op](uint64_t call) -> Result<uint64_t> {
      if (op == BenchOp::kCreate) return create_one(job, call, own);
      const uint64_t index = call * stride % count;
      if (op == BenchOp::kReadFile) return read_one(job, index, own);
      PENSTOCK_TRY(fs_.stat(path(job, index)));
      return 0;
    };
    uint64_t calls_most = std::max<uint64_t>(1, bench_case.limit_bytes / file_bytes_ / jobs_);
    if (bench_case.op == BenchOp::kStat) calls_most = 0;
    if (bench_case.op == BenchOp::kReadFile) calls_most = count;  // A second read would be warm.
    streams.push_back(std::make_unique<ThreadStream>(step, calls_most));
  }
  return measure_case(bench_case, streams, {}, context);
}

Result<void> SmallFileSet::remove() {
  return io::remove_tree(fs_, directory_);
}

}  // namespace penstock::tune
