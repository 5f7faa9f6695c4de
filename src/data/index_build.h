#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <stop_token>

#include "data/scan.h"

namespace penstock::data {

struct IndexBuildPlan {
  size_t shards = 0;
  size_t threads = 1;
  std::chrono::nanoseconds save_every{};
  std::stop_token cancel;
  // Makes the index of shard i, on one of several threads; adds what it read to the counter.
  std::function<Result<ScannedShard>(size_t, const std::stop_token&, std::atomic<uint64_t>&)> scan;
  // These are called on the caller's thread.
  std::function<void(size_t, ScannedShard)> take;
  std::function<bool()> must_save;  // Before it is time.
  std::function<void()> save;
  std::function<void(uint64_t bytes_done)> tell;
};

// Scans all, takes what comes, saves now and then and at the end. The first error stops it, after what
// was made by then was saved.
Result<void> run_index_build(const IndexBuildPlan& plan);

}  // namespace penstock::data
