// Has objects in a cache before anyone reads them.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "penstock/cache.h"
#include "penstock/result.h"
#include "penstock/store.h"
#include "penstock/units.h"

namespace penstock::cache {

struct WarmProgress {
  uint64_t objects = 0;  // Listed so far.
  uint64_t bytes = 0;    // Of these.
  bool listed = false;   // All of them are.
  uint64_t fetched_bytes = 0;
  uint64_t there_bytes = 0;  // Were in the cache already.
  uint64_t file_bytes = 0;   // Of the entries of both: a small object takes 8 KiB.
  uint64_t no_room_bytes = 0;
  uint64_t failed_bytes = 0;
  uint64_t failed_objects = 0;
  uint64_t done_bytes() const { return fetched_bytes + there_bytes + no_room_bytes + failed_bytes; }
};

struct WarmFailure {
  std::string object;  // For people.
  Error error;
};

struct WarmOptions {
  uint32_t jobs = 32;                // Windows under way; fewer where bytes_per_second is small.
  uint64_t bytes_per_second = 0;     // From the source. 0: no limit.
  bool verify = false;               // Also reads and checks what is there already.
  uint64_t window_bytes = 4 * kMiB;  // As in CacheOptions.
  // How long room is waited for: others may be about to make some.
  Nanoseconds patience = std::chrono::seconds(3);
  std::stop_token stop = {};
  // About five times a second, on the calling thread.
  std::function<void(const WarmProgress&)> on_progress = {};
};

struct WarmReport {
  WarmProgress totals;
  std::vector<WarmFailure> failures;  // The first 100.
  Nanoseconds time{0};
  bool stopped = false;
};

// Says what is wanted: calls `take` for each object (with its etag) until it answers false. Runs on a
// thread of its own, and must end soon after a stop. The stores outlive warm().
using WarmTake = std::function<bool(CachedStore& store, const store::ObjectInfo& object)>;
using WarmList = std::function<Result<void>(const WarmTake& take)>;

// Stages all that `list` says, in its order. Memory does not grow with it. What cannot be fetched is
// named in the report and does not stop the rest; an error is that of `list`, after what it said
// before was staged. After a stop nothing is under way.
Result<WarmReport> warm(const WarmList& list, const WarmOptions& options);

}  // namespace penstock::cache
