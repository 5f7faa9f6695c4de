// Opening may take minutes, while an index is made: on a thread of its own, with progress, and ended by
// Ctrl-C.
#pragma once

#include <nanobind/nanobind.h>

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "native/errors.h"
#include "native/waiting.h"
#include "penstock/data.h"

namespace penstock::python {

template <typename T, typename Open>
T open_aside(data::OpenOptions options, const std::vector<std::string>& cache_dirs,
             const std::string& cache_quota, const nanobind::object& on_progress,
             const Open& open) {
  std::mutex mutex;
  data::OpenProgress progress;
  std::stop_source stop;
  options.cancel = stop.get_token();
  options.on_progress = [&](const data::OpenProgress& now) {
    const std::lock_guard lock(mutex);
    progress = now;
  };
  std::optional<Result<T>> opened;
  const auto work = [&]() -> Result<T> {
    if (!cache_dirs.empty()) {
      cache::CacheOptions cache;
      cache.directories = cache_dirs;
      cache.quota = PENSTOCK_TRY(parse_size_or_percent(cache_quota));
      options.cache = PENSTOCK_TRY(cache::Cache::open(cache));
    }
    return open(options);
  };
  const auto look = [&] {
    if (on_progress.is_none()) return;
    std::unique_lock lock(mutex);
    const data::OpenProgress now = progress;
    lock.unlock();
    on_progress(now.shards_indexed, now.shards, now.bytes_done, now.bytes);
  };
  run_aside([&] { opened.emplace(work()); }, look, [&] { stop.request_stop(); });
  return unwrap(std::move(*opened));
}

}  // namespace penstock::python
