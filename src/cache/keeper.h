// Keeps one cache directory within its quota, together with the other processes that use it.
//
// Every process is a member: it holds a lock file, and appends what it reads, misses and fills to a
// log of its own. The member that gets the evictor's lock reads all logs, runs the Policy, evicts,
// and publishes a small state file: how much room there is, who is invited. When it dies the kernel
// drops its lock, and another takes over. Nothing of this is needed to read: it decides only what
// is kept.
//
// One thread per keeper, which ticks ten times a second and when told to. All file operations
// happen on it (notes only take a mutex), so a hanging drive holds up nobody else.
// Threads: all calls from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "cache/directory.h"
#include "cache/entry.h"
#include "penstock/result.h"
#include "penstock/units.h"

namespace penstock::cache {

struct KeeperOptions {
  SizeOrPercent quota = {.fraction = 0.8};
  SizeOrPercent free_floor = {.fraction = 0.05};
  // False: looks on, never evicts (tools).
  bool may_evict = true;
  Nanoseconds tick = std::chrono::milliseconds(100);
  // An operation of the keeper failed (not kNotFound): the drive may be ill. On the keeper's thread.
  std::function<void(const Error&)> on_error = {};
};

struct KeeperStatus {
  bool evictor = false;  // This process.
  bool known = false;    // used_bytes and entries are from a finished scan or a recent state file.
  uint64_t used_bytes = 0;
  uint64_t limit_bytes = 0;  // min(quota, what the floor allows), over all members.
  uint64_t entries = 0;
  uint64_t evictions = 0;  // By this process.
  uint32_t members = 0;
  uint64_t index_bytes = 0;  // Memory of the policy.
};

class Keeper {
 public:
  // Never blocks on the directory; the thread starts at once. `directory` outlives it.
  static std::unique_ptr<Keeper> start(CacheDirectory& directory, KeeperOptions options);
  virtual ~Keeper() = default;  // Hands over: final notes are written, locks released.

  // Is there room for this entry, or is it invited? True reserves its bytes until note_added or
  // cancel_fill. Never waits. While nothing is known yet (a scan is under way), room is judged from
  // the last state file, or from free space.
  virtual bool reserve(const EntryName& name) = 0;
  virtual void cancel_fill(const EntryName& name) = 0;
  virtual void note_added(const EntryName& name) = 0;
  virtual void note_dropped(const EntryName& name) = 0;
  virtual void note_used(const EntryId& id, uint64_t bytes) = 0;
  virtual void note_missed(const EntryId& id, uint64_t bytes) = 0;
  virtual void note_expected(const EntryId& id) = 0;
  virtual void note_finished(const EntryId& id, bool again) = 0;

  // Bytes that a reader got: out of the directory (or of memory filled from it), and from the source.
  // For hit rates only: State::totals.
  virtual void count_read(uint64_t hit_bytes, uint64_t miss_bytes) = 0;
  // Everything was removed: hit rates begin anew.
  virtual void count_anew() = 0;

  // Bytes that reserve() could give out now, to anyone.
  virtual uint64_t room_bytes() const = 0;
  virtual void set_quota(SizeOrPercent quota) = 0;
  virtual KeeperStatus status() const = 0;
  // Waits until everything noted before was acted upon (a tick of this process, as evictor or not).
  // For tests and tools. kTimeout at the deadline.
  virtual Result<void> settle(Deadline deadline) = 0;
};

}  // namespace penstock::cache
