// What `penstock bench` will measure: the list of cases, made by pure functions from the options
// and from what is known of the target, so that it can be looked at (and tested) before anything
// runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/result.h"
#include "penstock/units.h"

namespace penstock::tune {

enum class BenchOp : uint8_t {
  kRead,           // Blocks of the test file.
  kWrite,          // Blocks, with one fdatasync at the end, which counts.
  kWriteSync,      // A block and an fsync, again and again.
  kWriteDataSync,  // The same with fdatasync.
  kCreate,         // Small files: open, write, close.
  kStat,
  kReadFile,  // Open, read, close.
  kPut,       // Objects.
  kGet,
  kGetRange,  // Pieces of one large object.
  kHead,
  kList,  // Pages of up to 1000 keys.
  kRemove,
};

enum class BenchPattern : uint8_t {
  kSequential,
  kRandom,
  kAppend,  // At the end of a file that grows.
};

enum class BenchMode : uint8_t { kBuffered, kDirect, kUncached, kMmap };

// Of the pages of the file in the page cache, before the case begins.
enum class BenchCache : uint8_t { kAny, kCold, kWarm };

std::string_view bench_op_name(BenchOp op);
std::string_view bench_pattern_name(BenchPattern pattern);
std::string_view bench_mode_name(BenchMode mode);
std::string_view bench_cache_name(BenchCache cache);

// One measurement. It ends at `time_limit` or `limit_bytes`, whichever comes first; requests in
// flight then still finish.
struct BenchCase {
  BenchOp op = BenchOp::kRead;
  BenchPattern pattern = BenchPattern::kSequential;
  BenchMode mode = BenchMode::kDirect;
  BenchCache cache = BenchCache::kAny;
  uint64_t block_bytes = 4 * kKiB;  // Of a request; of a file or object where those are the unit.
  uint32_t depth = 1;               // Requests in flight, per job.
  uint32_t jobs = 1;                // Streams at once, each with its own file handle.
  uint64_t span_bytes = 0;          // The part of the test file in use, from its beginning.
  uint64_t limit_bytes = 0;         // Moves no more than this. 0: only time counts.
  Nanoseconds time_limit{};         // 0: only bytes count.
  bool lays_file = false;           // Writes the test file that the others use, all of it.

  bool on_objects() const { return op >= BenchOp::kPut; }
  bool on_small_files() const { return op >= BenchOp::kCreate && op <= BenchOp::kReadFile; }
  bool syncs_each() const { return op == BenchOp::kWriteSync || op == BenchOp::kWriteDataSync; }
  bool writes() const {
    return op == BenchOp::kWrite || syncs_each() || op == BenchOp::kCreate || op == BenchOp::kPut ||
           op == BenchOp::kRemove;
  }
};

// "random read, direct, 4 KiB, depth 32, 8 jobs": unique within a plan.
std::string bench_case_label(const BenchCase& bench_case);

enum class BenchProfile : uint8_t { kGeneral, kCheckpoint, kShards, kImages, kEmbeddings, kLogs };
std::string_view bench_profile_name(BenchProfile profile);
// kInvalid lists the names.
Result<BenchProfile> parse_bench_profile(std::string_view name);

// "read:random:direct:4KiB:32" or "...:32x8" for eight jobs. The op is read, write, fsync or
// fdatasync, the pattern sequential, random or append, the mode buffered, direct, uncached or mmap,
// with "-cold" or "-warm" after it where the page cache matters.
Result<BenchCase> parse_bench_case(std::string_view text);

struct BenchOptions {
  // Of the test file; of all objects together on a store. Unset: as much as makes sense here.
  std::optional<uint64_t> size_bytes = std::nullopt;
  std::optional<Nanoseconds> case_time = std::nullopt;  // Per case.
  BenchProfile profile = BenchProfile::kGeneral;
  bool quick = false;                 // A rough look within ten seconds.
  std::vector<BenchCase> cases = {};  // When given, these instead of a profile's.
};

enum class BenchTarget : uint8_t { kDirectory, kFile, kBlockDevice, kStore };
std::string_view bench_target_name(BenchTarget target);

struct BenchLimits {
  BenchTarget target = BenchTarget::kDirectory;
  uint64_t total_bytes = 0;      // Of the file system,
  uint64_t available_bytes = 0;  // and what is left of it.
  uint64_t total_inodes = 0;     // 0: made as needed.
  uint64_t free_inodes = 0;
  uint64_t existing_bytes = 0;   // Of a file or block device.
  uint64_t memory_bytes = kGiB;  // Available now, for what should fit in the page cache.
};

struct BenchPlan {
  BenchProfile profile = BenchProfile::kGeneral;
  uint64_t size_bytes = 0;
  Nanoseconds case_time{};
  bool size_was_given = false;
  std::vector<BenchCase> cases;
};

// Free space that a bench never uses: a tenth of the file system, 10 GiB at most.
uint64_t bench_reserve_bytes(uint64_t total_bytes);

// kInvalid for options that make no sense for the target (a write to an existing file), kNoSpace
// when the size would fill the disk.
Result<BenchPlan> make_bench_plan(const BenchOptions& options, const BenchLimits& limits);

}  // namespace penstock::tune
