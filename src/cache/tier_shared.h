// What the parts of a tier share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/metrics.h"
#include "cache/drive.h"
#include "cache/health.h"
#include "cache/open_entries.h"
#include "cache/tier.h"
#include "cache/under_way.h"
#include "cache/workers.h"
#include "penstock/buffer.h"

namespace penstock::cache {

struct TierMetrics {
  Histogram& hit_seconds;
  Histogram& fill_seconds;
  Counter& fills;
  Counter& fill_bytes;
  Counter& fills_skipped;
  Counter& reads_skipped;
  Counter& verification_failures;
  static TierMetrics& global();
};

struct TierShared {
  TierShared(io::FileSystem& fs, TierOptions tier_options,
             std::shared_ptr<io::BufferProvider> buffer_provider);
  // Refuses what comes, answers what has not begun, waits for the rest. Requires that nobody calls
  // meanwhile.
  void stop();

  // As DriveSlot::check(), under the watchdog's eyes: a stat that hangs is a drive that hangs.
  Result<void> check_drive();
  // Removes the entry's file, which is told to the keeper first: a fill at the same time then
  // leaves at worst a note without a file, never a file without a note. On a worker.
  Result<void> drop_file(const Drive& drive, const EntryName& name);
  // As above, for one whose bytes are wrong: a drive on which it stays, whatever the reason, is not
  // well.
  void drop_bad(const Drive& drive, const EntryName& name);
  // As drop_file() on a worker, soon; that the file stays is no matter. Bounded by what is under way.
  void drop_later(std::shared_ptr<Drive> drive, const EntryName& name);
  void count_damage();

  const TierOptions options;
  const std::shared_ptr<io::BufferProvider> buffers;
  TierMetrics& metrics;
  const std::shared_ptr<Workers> workers;
  OpenEntries open;
  DriveSlot drive;
  Health health;
  UnderWay under_way;
  std::atomic<bool> stopping = false;
  std::atomic<uint64_t> verification_failures = 0;
};

}  // namespace penstock::cache
