#include "loader/page_cache.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace penstock::loader {

namespace {

uint64_t mem_available() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  uint64_t kib = 0;
  std::string unit;
  while (file >> name >> kib && std::getline(file, unit)) {
    if (name == "MemAvailable:") return kib * kKiB;
  }
  return 0;
}

// Of the control group of version 2 that this process sees as its root; nothing when it has no limit.
uint64_t group_room() {
  std::ifstream limit_file("/sys/fs/cgroup/memory.max");
  std::ifstream used_file("/sys/fs/cgroup/memory.current");
  uint64_t limit = 0;
  uint64_t used = 0;
  if (!(limit_file >> limit) || !(used_file >> used)) return UINT64_MAX;
  return limit > used ? limit - used : 0;
}

}  // namespace

uint64_t available_memory() {
  return std::min(mem_available(), group_room());
}

PageCacheChoice choose_page_cache(PageCache wanted, uint64_t data_bytes, uint64_t memory_bytes) {
  // Half, because what is free now is not free for ever.
  const bool fits = data_bytes <= memory_bytes / 2;
  switch (wanted) {
    case PageCache::kBuffered:
      return {io::CacheMode::kBuffered, fits, "buffered: as asked for"};
    case PageCache::kUncached:
      return {io::CacheMode::kUncached, false, "uncached: as asked for"};
    case PageCache::kDirect:
      return {io::CacheMode::kDirect, false, "direct: as asked for"};
    case PageCache::kAuto:
      break;
  }
  const std::string why =
      fmt::format("{} of data {} {} of free memory", format_size(data_bytes),
                  fits ? "fit well in" : "do not fit well in", format_size(memory_bytes));
  if (fits) return {io::CacheMode::kBuffered, true, "buffered: " + why};
  return {io::CacheMode::kDirect, false, "direct: " + why};
}

}  // namespace penstock::loader
