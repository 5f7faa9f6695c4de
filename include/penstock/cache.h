// The disk cache: object storage and slow mounts at the speed of a local drive.
//
//   auto source = PENSTOCK_TRY(store::open_store("s3://bucket/train", {}));
//   auto cache = PENSTOCK_TRY(cache::Cache::open({.directories = {"/nvme0/cache", "/nvme1/cache"}}));
//   auto store = cache::make_cached_store(std::move(source), cache);       // an ObjectStore
//   store->get("shard-0.tar", offset, into, {.if_match = etag, .size = size});
//
// What it holds are windows of objects (4 MiB, or small pieces for random readers of data that does
// not fit), one file each, checksummed per 4 KiB and verified on every hit. A cache only ever
// saves time: whatever is wrong with its drives, reads are answered from the source.
//
// Versions. Objects of others change, so bytes are kept under URL + ETag + size. A get with
// if_match names its version, and is answered from the cache without asking the source: that is the
// fast way, and what readers with a listing do (give `size` too, or the cache must ask for it once).
// A get without if_match first asks the source which version is current, unless it was told so
// less than `trust_versions` ago. Windows of one read are never of two versions: kChanged for who
// named one, a fresh start for who did not.
//
// Several processes may use a directory at once, with different options: the smallest quota and
// the largest floor of those alive hold. Fills are published by rename; one process at a time, by a lock
// that dies with it, evicts. Nothing that a killed process leaves behind is in anyone's way.
//
// A drive that fails or hangs is switched off, with one warning, and tried again every few seconds;
// meanwhile its share is read from the source. On one that is full nothing new is kept.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "penstock/io.h"
#include "penstock/result.h"
#include "penstock/store.h"
#include "penstock/units.h"

namespace penstock::cache {

struct CacheOptions {
  // One per drive; entries are spread over them by hash, and a lost one only costs its share. Made
  // when missing. Refused: a directory with anything else in it, one inside another cache, and the
  // same one twice, by whatever path.
  std::vector<std::string> directories;
  // For each directory: bytes, or a share of its file system.
  SizeOrPercent quota = {.fraction = 0.8};
  // Always left free on the file system, whatever the quota says and whoever filled it.
  SizeOrPercent free_floor = {.fraction = 0.05};
  // The unit of fetching and keeping. A power of two, 256 KiB to 16 MiB.
  uint64_t window_bytes = 4 * kMiB;
  // The ceiling on memory for windows and transfers; at least 16 windows. On top come, per directory,
  // up to 24 MiB (where windows have 4 MiB) for the checksums of open entries and other tables; and
  // in the one process that evicts 8 MiB, and at most 64 bytes per entry.
  uint64_t memory_bytes = 256 * kMiB;
  // How files of the cache are read and written; where direct is not possible, buffered. Direct
  // leaves the page cache to others; buffered is faster where the hot set fits in free memory.
  io::CacheMode mode = io::CacheMode::kDirect;
  // How long what the source said about an object's version is believed by gets that do not name
  // one. 0: ask every time, never stale.
  Nanoseconds trust_versions{0};
  // A drive whose read or write takes longer than this is switched off, and the read goes to the
  // source.
  Nanoseconds slow_after = std::chrono::seconds(2);
  // Null: the local one, made once for the process.
  io::FileSystem* file_system = nullptr;
};

// Sums over the directories unless said otherwise.
struct CacheStats {
  uint64_t hits = 0;         // Pieces of windows asked for and answered from a drive,
  uint64_t memory_hits = 0;  // from a window in memory,
  uint64_t misses = 0;       // from the source.
  uint64_t hit_bytes = 0;
  uint64_t memory_hit_bytes = 0;
  uint64_t miss_bytes = 0;
  uint64_t source_bytes = 0;  // Fetched, neighbours included.
  uint64_t fills = 0;
  uint64_t fill_bytes = 0;
  uint64_t fills_skipped = 0;  // No room, or the drive was busy.
  uint64_t evictions = 0;      // By this process.
  uint64_t verification_failures = 0;
  uint64_t used_bytes = 0;
  uint64_t limit_bytes = 0;  // What may be used now: quota and floor.
  uint64_t entries = 0;
  uint64_t memory_peak_bytes = 0;
  uint32_t directories_off = 0;
};

// The directories, and everything that is shared by the stores in front of them.
// Threads: all calls from any thread. Lifetime: kept alive by its stores.
class Cache {
 public:
  // Does not wait for a scan: entries are served at once, and counted in the background. kInvalid
  // for options that make no sense and for a directory that is no cache, kUnsupported for one of a
  // newer version: they are refused. One that cannot be used for other reasons (its drive fails, it
  // may not be written, it is damaged) is switched off, and no error, unless all are.
  static Result<std::shared_ptr<Cache>> open(const CacheOptions& options);
  virtual ~Cache() = default;

  // From now on; evicts in the background when it is less than before.
  virtual void set_quota(SizeOrPercent quota) = 0;
  virtual CacheStats stats() const = 0;
  // Waits until fills under way are on the drives: for tests and tools.
  virtual void drain() = 0;
  // Then until what is there was counted, and what is too much is gone; but not beyond the deadline.
  virtual void settle(Deadline deadline) = 0;
};

// A piece of a version of an object.
struct Range {
  std::string key;
  std::string etag;
  uint64_t size = 0;  // Of the whole object.
  uint64_t offset = 0;
  uint64_t length = 0;
};

struct StageOptions {
  // How many bytes may lie staged and not yet read. Never more than half of what the cache may use.
  uint64_t ahead_bytes = 4 * kGiB;
  uint64_t bytes_per_second = 0;  // From the source; 0: no limit.
  uint32_t parallel = 16;         // Windows under way.
};

// For a reader that knows its future: says what it will read, in order, and what it has read. What
// comes next is fetched onto the drives ahead of it, and is not evicted before it was read; what it
// is done with is evicted before anything else.
// Threads: all calls from any thread. Destroying it forgets what was expected and stops fetching, at
// once: fetches under way are cancelled.
class Stager {
 public:
  virtual ~Stager() = default;
  // Will be read after everything said before. Memory grows with what is expected and not yet
  // read: say hundreds of thousands of ranges, not billions.
  virtual void expect(std::vector<Range> ranges) = 0;
  // Was read, in any order. `again`: will be read again some time, as in the next epoch, so it may
  // stay while there is room; otherwise it goes first.
  virtual void finished(const Range& range, bool again) = 0;
  struct Progress {
    uint64_t expected_bytes = 0;  // Said so far.
    uint64_t staged_bytes = 0;    // Of those, on a drive (or found there).
    uint64_t fetched_bytes = 0;   // From the source: less than what was staged, where it was found.
    uint64_t pending_bytes = 0;   // Said, and neither staged nor failed nor finished yet.
    uint64_t finished_bytes = 0;
    uint64_t failed_bytes = 0;  // Could not be staged; reading them goes to the source.
  };
  virtual Progress progress() const = 0;
};

// An ObjectStore whose gets go through the cache. Everything else is passed on to the source.
// bypass_cache: read from the source, and what the cache had of that range is replaced.
class CachedStore : public store::ObjectStore {
 public:
  virtual std::unique_ptr<Stager> make_stager(const StageOptions& options) = 0;

  // Has these bytes on a drive afterwards: answers how many bytes had to be fetched. `verify` also reads
  // and checks what is there already. kNoSpace when the cache has no room that this could take.
  virtual void async_stage(Range range, bool verify, store::CallOptions options,
                           store::Done<uint64_t> done) = 0;
  virtual const std::shared_ptr<Cache>& cache() const = 0;
};

std::unique_ptr<CachedStore> make_cached_store(std::unique_ptr<store::ObjectStore> source,
                                               std::shared_ptr<Cache> cache);

}  // namespace penstock::cache
