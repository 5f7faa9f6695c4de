// One drive of the cache as the store sees it: asynchronous, verified, and never in the way. Reads
// and fills answer within `slow_after` even when the drive hangs.
// Threads: all calls from any thread; `done` runs on a thread of the tier, of the I/O engine, or
// inside the call, and must not block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "cache/directory.h"
#include "cache/entry.h"
#include "cache/keeper.h"
#include "penstock/buffer.h"
#include "penstock/result.h"
#include "penstock/units.h"

namespace penstock::cache {

struct TierOptions {
  std::string path;
  KeeperOptions keeper;
  io::CacheMode mode = io::CacheMode::kDirect;
  Nanoseconds slow_after = std::chrono::seconds(2);
  Nanoseconds retry_every = std::chrono::seconds(5);  // How often a drive that is off is tried.
  // Entries kept open, with their checksums (8 KiB per 4 MiB). Never more than a quarter of what
  // the process may have open.
  uint32_t open_files = 2048;
  uint64_t fill_bytes_max = 64 * kMiB;  // Under way at once; more are skipped.
  // Keeper::start when empty. For tests.
  std::function<std::unique_ptr<Keeper>(CacheDirectory&, KeeperOptions)> start_keeper = {};
};

// What an entry is filled with: a buffer of file_bytes(key) with the data at header_bytes(key), which
// nobody writes to any more, and what is known of its hashes.
struct Filling {
  Filling(std::shared_ptr<io::Buffer> buffer = nullptr,
          std::shared_ptr<const BlockHashes> known = nullptr)
      : file(std::move(buffer)), hashes(std::move(known)) {}
  std::shared_ptr<io::Buffer> file;
  std::shared_ptr<const BlockHashes> hashes;
};

// Verified bytes of an entry. They lie at `data`, inside `buffer`.
struct TierBytes {
  io::Buffer buffer;
  std::span<const std::byte> data;
};

struct TierStats {
  bool on = false;
  uint64_t fills = 0;
  uint64_t fill_bytes = 0;
  uint64_t fills_skipped = 0;
  uint64_t verification_failures = 0;
  KeeperStatus keeper;
};

class Tier {
 public:
  // Never fails and never waits for the drive: a directory that cannot be used is off, and is tried
  // again. `buffers` gives the memory for reads. `fs` outlives it.
  static std::shared_ptr<Tier> open(io::FileSystem& fs, TierOptions options,
                                    std::shared_ptr<io::BufferProvider> buffers);
  // Waits for what is under way, so it must not run inside a `done`.
  virtual ~Tier() = default;

  virtual bool on() const = 0;
  // Waits for the first try to open the directory, and tells what it said. kTimeout at the deadline.
  virtual Result<void> wait_tried(Deadline deadline) = 0;

  // Bytes [begin, begin + length) of the entry's data. kNotFound: not cached, or not any more, or
  // the tier is off, or it was damaged (then it is dropped and counted) or too slow (then the tier
  // is off as well). kBusy: no memory for it now; ask again when some was given back. No other error.
  // Requires length > 0 and begin + length <= key.length.
  virtual void read(const EntryKey& key, const EntryId& version, uint32_t begin, uint32_t length,
                    std::function<void(Result<TierBytes>)> done) = 0;

  // Opens the entry, if it is there: who reads it soon need not wait for that.
  virtual void open_ahead(const EntryKey& key, const EntryId& version) = 0;

  // Is there room for the entry, or is it invited? True must be followed by fill() or cancel_fill().
  virtual bool reserve(const EntryKey& key, const EntryId& version) = 0;
  virtual void cancel_fill(const EntryKey& key, const EntryId& version) = 0;
  // Seals and publishes it. `done` (may be empty) hears whether it is there: kNoSpace or kBusy
  // when it was skipped, kUnavailable when the tier is off, kTimeout when it was too slow.
  virtual void fill(EntryKey key, const EntryId& version, Filling filling,
                    std::function<void(Result<void>)> done) = 0;
  // Its bytes are wrong, somebody says: gone, and counted as a verification failure.
  virtual void drop(const EntryKey& key, const EntryId& version) = 0;

  // Null while the directory could not be opened. Another one after a drive was replaced, so ask each
  // time. Not to be kept for longer than the tier.
  virtual std::shared_ptr<Keeper> keeper() = 0;
  virtual void set_quota(SizeOrPercent quota) = 0;  // From now on.
  virtual TierStats stats() const = 0;
  // Waits for fills and drops under way.
  virtual void drain() = 0;
};

}  // namespace penstock::cache
