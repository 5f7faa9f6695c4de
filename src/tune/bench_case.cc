// Names of cases, and cases from names.
#include <fmt/core.h>

#include <array>
#include <charconv>

#include "tune/bench_plan.h"
#include "tune/text.h"

namespace penstock::tune {

namespace {

template <typename Value, size_t N>
using Names = std::array<std::pair<Value, std::string_view>, N>;

constexpr Names<BenchOp, 13> kOps = {{
    {BenchOp::kRead, "read"},
    {BenchOp::kWrite, "write"},
    {BenchOp::kWriteSync, "fsync"},
    {BenchOp::kWriteDataSync, "fdatasync"},
    {BenchOp::kCreate, "create"},
    {BenchOp::kStat, "stat"},
    {BenchOp::kReadFile, "read_file"},
    {BenchOp::kPut, "put"},
    {BenchOp::kGet, "get"},
    {BenchOp::kGetRange, "get_range"},
    {BenchOp::kHead, "head"},
    {BenchOp::kList, "list"},
    {BenchOp::kRemove, "remove"},
}};
constexpr Names<BenchPattern, 3> kPatterns = {{
    {BenchPattern::kSequential, "sequential"},
    {BenchPattern::kRandom, "random"},
    {BenchPattern::kAppend, "append"},
}};
constexpr Names<BenchMode, 4> kModes = {{
    {BenchMode::kBuffered, "buffered"},
    {BenchMode::kDirect, "direct"},
    {BenchMode::kUncached, "uncached"},
    {BenchMode::kMmap, "mmap"},
}};
constexpr Names<BenchCache, 3> kCaches = {{
    {BenchCache::kAny, "any"},
    {BenchCache::kCold, "cold"},
    {BenchCache::kWarm, "warm"},
}};
constexpr Names<BenchProfile, 6> kProfiles = {{
    {BenchProfile::kGeneral, "general"},
    {BenchProfile::kCheckpoint, "checkpoint"},
    {BenchProfile::kShards, "shards"},
    {BenchProfile::kImages, "images"},
    {BenchProfile::kEmbeddings, "embeddings"},
    {BenchProfile::kLogs, "logs"},
}};
constexpr Names<BenchTarget, 4> kTargets = {{
    {BenchTarget::kDirectory, "directory"},
    {BenchTarget::kFile, "file"},
    {BenchTarget::kBlockDevice, "block_device"},
    {BenchTarget::kStore, "store"},
}};

template <typename Value, size_t N>
std::string_view name_of(const Names<Value, N>& names, Value value) {
  for (const auto& [candidate, name] : names) {
    if (candidate == value) return name;
  }
  return "unknown";
}

// The first `count` names are the ones a user may give.
template <typename Value, size_t N>
Result<Value> find_name(const Names<Value, N>& names, std::string_view text, std::string_view what,
                        size_t count = N) {
  std::string expected;
  for (size_t i = 0; i < count; ++i) {
    if (names[i].second == text) return names[i].first;
    expected += fmt::format("{}{}", i == 0 ? "" : ", ", names[i].second);
  }
  return make_error(ErrorCode::kInvalid, fmt::format("\"{}\" is not {}; expected one of {}",
                                                     doctor::printable(text), what, expected));
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Result<uint32_t> parse_count(std::string_view text, std::string_view what, uint32_t most) {
  uint32_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size() || value == 0 ||
      value > most) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("\"{}\" is not a {}; expected 1 to {}", text, what, most));
  }
  return value;
}

Result<void> parse_mode(std::string_view text, BenchCase& parsed) {
  const std::vector<std::string_view> parts = split(text, '-');
  parsed.mode = PENSTOCK_TRY(find_name(kModes, parts[0], "a mode"));
  if (parts.size() > 2) {
    return make_error(ErrorCode::kInvalid, fmt::format("\"{}\" is not a mode", text));
  }
  if (parts.size() == 2) parsed.cache = PENSTOCK_TRY(find_name(kCaches, parts[1], "a cache state"));
  return {};
}

Result<void> check_case(const BenchCase& parsed) {
  const auto refuse = [](std::string_view why) {
    return make_error(ErrorCode::kInvalid, std::string(why));
  };
  if (parsed.block_bytes < 512 || parsed.block_bytes > 64 * kMiB) {
    return refuse("the block size must be from 512 B to 64 MiB");
  }
  if (parsed.mode == BenchMode::kDirect && parsed.block_bytes % 512 != 0) {
    return refuse("direct I/O moves whole blocks: the block size must be a multiple of 512 B");
  }
  if (uint64_t{parsed.depth} * parsed.jobs > 4096) {
    return refuse("depth times jobs must be 4096 at most");
  }
  if (parsed.block_bytes * parsed.depth * parsed.jobs > kGiB) {
    return refuse("block size times depth times jobs must be 1 GiB at most: that is memory");
  }
  if (parsed.mode == BenchMode::kMmap && (parsed.op != BenchOp::kRead || parsed.depth != 1)) {
    return refuse("mmap can only be read, at depth 1; use jobs for more");
  }
  if (parsed.syncs_each() && parsed.depth != 1) {
    return refuse("fsync and fdatasync run at depth 1; use jobs for more");
  }
  if (parsed.pattern == BenchPattern::kAppend && !parsed.syncs_each()) {
    return refuse("append goes with fsync or fdatasync");
  }
  return {};
}

std::string file_case_label(const BenchCase& c) {
  const std::string_view pattern = bench_pattern_name(c.pattern);
  std::string text;
  if (c.syncs_each()) {
    const std::string_view verb = c.pattern == BenchPattern::kAppend ? "append" : "overwrite";
    text = fmt::format("{} + {}", verb, bench_op_name(c.op));
  } else {
    text = fmt::format("{} {}", pattern, bench_op_name(c.op));
  }
  if (c.lays_file) text += " of a new file";
  text += fmt::format(", {}", bench_mode_name(c.mode));
  if (c.cache != BenchCache::kAny) text += fmt::format(" {}", bench_cache_name(c.cache));
  return text;
}

std::string object_case_label(const BenchCase& c) {
  switch (c.op) {
    case BenchOp::kCreate:
      return "create small files";
    case BenchOp::kStat:
      return "stat small files";
    case BenchOp::kReadFile:
      return fmt::format("read small files, {}", bench_cache_name(c.cache));
    case BenchOp::kGetRange:
      return "get ranges of one object";
    case BenchOp::kList:
      return "list objects";
    case BenchOp::kRemove:
      return "remove objects";
    default:
      return fmt::format("{} objects", bench_op_name(c.op));
  }
}

}  // namespace

std::string_view bench_op_name(BenchOp op) {
  return name_of(kOps, op);
}
std::string_view bench_pattern_name(BenchPattern pattern) {
  return name_of(kPatterns, pattern);
}
std::string_view bench_mode_name(BenchMode mode) {
  return name_of(kModes, mode);
}
std::string_view bench_cache_name(BenchCache cache) {
  return name_of(kCaches, cache);
}
std::string_view bench_profile_name(BenchProfile profile) {
  return name_of(kProfiles, profile);
}
std::string_view bench_target_name(BenchTarget target) {
  return name_of(kTargets, target);
}

std::string bench_case_label(const BenchCase& c) {
  const bool whole_things = c.on_objects() || c.on_small_files();
  std::string text = whole_things ? object_case_label(c) : file_case_label(c);
  if (c.op != BenchOp::kList) text += fmt::format(", {}", format_size(c.block_bytes));
  if (c.on_objects()) return fmt::format("{}, {} at once", text, c.depth);
  if (!whole_things && c.mode != BenchMode::kMmap && !c.syncs_each()) {
    text += fmt::format(", depth {}", c.depth);
  }
  if (c.jobs > 1) text += fmt::format(", {} jobs", c.jobs);
  return text;
}

Result<BenchProfile> parse_bench_profile(std::string_view name) {
  return find_name(kProfiles, name, "a profile");
}

Result<BenchCase> parse_bench_case(std::string_view text) {
  const auto parse = [text]() -> Result<BenchCase> {
    const std::vector<std::string_view> parts = split(text, ':');
    if (parts.size() != 5) {
      return make_error(ErrorCode::kInvalid, "expected OP:PATTERN:MODE:BLOCK:DEPTH[xJOBS]");
    }
    BenchCase parsed;
    parsed.op = PENSTOCK_TRY(find_name(kOps, parts[0], "an operation", 4));
    parsed.pattern = PENSTOCK_TRY(find_name(kPatterns, parts[1], "a pattern"));
    PENSTOCK_TRY(parse_mode(parts[2], parsed));
    parsed.block_bytes = PENSTOCK_TRY(parse_size(parts[3]));
    const size_t times = parts[4].find('x');
    parsed.depth = PENSTOCK_TRY(parse_count(parts[4].substr(0, times), "depth", 4096));
    if (times != std::string_view::npos) {
      parsed.jobs = PENSTOCK_TRY(parse_count(parts[4].substr(times + 1), "number of jobs", 256));
    }
    PENSTOCK_TRY(check_case(parsed));
    return parsed;
  };
  Result<BenchCase> parsed = parse();
  if (parsed.ok()) return parsed;
  Error error = parsed.error().with_context(fmt::format("case \"{}\"", text));
  error.detail = doctor::printable(error.detail);
  return error;
}

}  // namespace penstock::tune
