// A cache directory of very many entries: making one quickly, and what opening it takes.
#pragma once

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cache/entry.h"
#include "cache_arguments.h"
#include "cache_reads.h"

namespace penstock::bench {

// Adds files with the names and the sizes of small entries, and nothing in them: whoever opens the
// directory has to count and remember them.
inline Result<void> add_entries(const Arguments& arguments) {
  std::mt19937_64 random(arguments.seed);
  const std::string entries = arguments.address + "/entries/";
  for (size_t i = 0; i < arguments.count; ++i) {
    const cache::EntryName name{.id = {random(), random()}, .blocks = 2};
    const std::string text = name.text();
    const std::string folder = entries + text.substr(0, 2);
    const std::string path = folder + "/" + text;
    int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file < 0 && errno == ENOENT && mkdir(folder.c_str(), 0755) == 0) {
      file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    }
    if (file < 0) return errno_error(errno, "make " + path);
    const int sized = ftruncate(file, static_cast<off_t>(name.file_bytes()));
    close(file);
    if (sized != 0) return errno_error(errno, "size " + path);
  }
  return {};
}

// "VmRSS" or "VmHWM" of this process.
inline uint64_t memory_of_process(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    uint64_t kib = 0;
    if (word == field + ":" && status >> kib) return kib * kKiB;
  }
  return 0;
}

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Reads with all the memory that the cache may have: at random, then in small steps.
inline Result<void> use_memory(const Arguments& arguments, store::ObjectStore& store,
                               const std::vector<store::ObjectInfo>& objects) {
  PatternOptions options = PENSTOCK_TRY(pattern_options(arguments));
  const std::vector<io::Buffer> buffers =
      PENSTOCK_TRY(take_buffers(arguments.depth, options.block_bytes, /*twice=*/false));
  const auto start = [&](const Request& request, const io::Buffer& memory, ReadLoop::Done done) {
    start_get(store, objects[request.object], request, memory, std::move(done));
  };
  for (const Pattern pattern : {Pattern::kRandom, Pattern::kSequential}) {
    options.pattern = pattern;
    const std::vector<Request> requests = make_requests(sizes_of(objects), options);
    ReadLoop loop(requests, buffers, start, arguments.verify);
    PENSTOCK_TRY(loop.run());
  }
  return {};
}

inline Result<double> wait_until_counted(const cache::Cache& cache, uint64_t entries,
                                         Clock::time_point begin) {
  while (cache.stats().entries < entries) {
    if (seconds_since(begin) > 120) {
      return make_error(ErrorCode::kTimeout, fmt::format("{} of {} entries counted after 120 s",
                                                         cache.stats().entries, entries));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return seconds_since(begin);
}

inline Result<void> measure_open(const Arguments& arguments) {
  auto source = PENSTOCK_TRY(store::open_store(arguments.address, {.read_only = true}));
  const std::vector<store::ObjectInfo> objects = PENSTOCK_TRY(list_all(*source));
  const cache::CacheOptions options = PENSTOCK_TRY(cache_options(arguments));
  const uint64_t rss_before = memory_of_process("VmRSS");

  const auto begin = Clock::now();
  std::shared_ptr<cache::Cache> opened = PENSTOCK_TRY(cache::Cache::open(options));
  const double open_seconds = seconds_since(begin);
  auto store = cache::make_cached_store(std::move(source), opened);
  const auto asked = Clock::now();
  std::vector<std::byte> first(std::min<uint64_t>(objects[0].size, 100 * kKiB));
  PENSTOCK_TRY(store->get(objects[0].key, 0, first,
                          {{}, objects[0].etag, objects[0].size, /*bypass_cache=*/false}));
  const double first_hit_seconds = seconds_since(asked);
  if (opened->stats().misses != 0) return make_error(ErrorCode::kIo, "the first read was no hit");
  const double counted_seconds = PENSTOCK_TRY(wait_until_counted(*opened, arguments.count, begin));
  const uint64_t rss_counted = memory_of_process("VmRSS");

  PENSTOCK_TRY(use_memory(arguments, *store, objects));
  const cache::CacheStats stats = opened->stats();
  store.reset();
  opened.reset();
  fmt::print(
      "{{\"open_seconds\": {:.6f}, \"first_hit_seconds\": {:.6f}, \"counted_seconds\": {:.6f}, ",
      open_seconds, first_hit_seconds, counted_seconds);
  fmt::print(
      "\"entries\": {}, \"evictions\": {}, \"memory_bytes\": {}, \"memory_peak_bytes\": {}, ",
      stats.entries, stats.evictions, options.memory_bytes, stats.memory_peak_bytes);
  fmt::print("\"rss_before_bytes\": {}, \"rss_counted_bytes\": {}, \"rss_peak_bytes\": {}}}\n",
             rss_before, rss_counted, memory_of_process("VmHWM"));
  return {};
}

}  // namespace penstock::bench
