// What the modes of cache_driver are told, and the stores that they open.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penstock/cache.h"
#include "penstock/store.h"
#include "penstock/units.h"
#include "read_loop.h"

namespace penstock::bench {

struct Arguments {
  std::string address;
  std::string before;  // Read first, and not measured.
  bool raw = false;
  bool look = false;
  bool copy = false;
  bool verify = false;
  std::string tee;  // A file that everything is written to as well.
  std::string bytes = "64MiB";
  std::string block = "1MiB";
  size_t objects = 1;
  size_t count = 0;
  uint32_t depth = 8;
  uint32_t epochs = 1;
  uint64_t seed = 1;
  Pattern pattern = Pattern::kSequential;
  // Of the cache.
  std::vector<std::string> directories;
  std::string quota = "80%";
  std::string memory = "256MiB";
  bool buffered = false;
};

inline Result<cache::CacheOptions> cache_options(const Arguments& arguments) {
  cache::CacheOptions options;
  options.directories = arguments.directories;
  options.quota = PENSTOCK_TRY(parse_size_or_percent(arguments.quota));
  options.memory_bytes = PENSTOCK_TRY(parse_size(arguments.memory));
  options.mode = arguments.buffered ? io::CacheMode::kBuffered : io::CacheMode::kDirect;
  return options;
}

inline Result<std::unique_ptr<cache::CachedStore>> open_cached(const Arguments& arguments) {
  auto source = PENSTOCK_TRY(store::open_store(arguments.address, {.read_only = true}));
  const cache::CacheOptions options = PENSTOCK_TRY(cache_options(arguments));
  auto opened = PENSTOCK_TRY(cache::Cache::open(options));
  return cache::make_cached_store(std::move(source), std::move(opened));
}

inline Result<std::vector<store::ObjectInfo>> list_all(store::ObjectStore& store) {
  std::vector<store::ObjectInfo> objects;
  PENSTOCK_TRY(store::for_each_object(store, "", [&](const store::ObjectInfo& info) {
    objects.push_back(info);
    return true;
  }));
  if (objects.empty()) return make_error(ErrorCode::kNotFound, "there is nothing to read");
  return objects;
}

}  // namespace penstock::bench
