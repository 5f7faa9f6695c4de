// Keeps one cache directory within its quota, together with the other processes that use it.
//
// Every process is a member: it holds a lock file, and appends what it reads, misses and fills to a
// log of its own. The member that gets the evictor's lock reads all logs, runs the Policy, evicts,
// and publishes a small state file: how much room there is, who may fill how much of it, who is
// invited. When it dies the kernel drops its lock, and another takes over within half a second.
// Nothing of this is needed to read: it decides only what is kept. docs/formats/cache-members.md
// has the files; leases.h tells why the quota holds, however late anyone hears of anything.
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
  // False: looks on, and says nothing of quota and floor (tools). Leaves no trace, unless it notes
  // something. What it tells is from the last state file, also when nobody evicts any more.
  bool may_evict = true;
  Nanoseconds tick = std::chrono::milliseconds(100);
  // An operation of the keeper failed: the drive may be ill. Once per tick at most, on the keeper's
  // thread; it must not destroy the keeper.
  std::function<void(const Error&)> on_error = {};
};

struct KeeperStatus {
  bool evictor = false;  // This process.
  bool known = false;    // used_bytes and entries are from a finished scan, here or of the evictor.
  bool granted = false;  // This process has been told what it may add, which may be nothing.
  uint64_t used_bytes = 0;
  uint64_t limit_bytes = 0;  // min(quota, what the floor allows), over all members.
  uint64_t entries = 0;
  uint64_t evictions = 0;  // By this process.
  uint32_t members = 0;
  uint64_t index_bytes = 0;  // Memory of the policy.
};

class Keeper {
 public:
  // Never blocks on the directory; the thread starts at once. `directory` outlives it. One keeper
  // per opening of a directory.
  static std::unique_ptr<Keeper> start(CacheDirectory& directory, KeeperOptions options);
  virtual ~Keeper() = default;  // Hands over: final notes are written, locks released.

  // Is there room for this entry, or is it invited? True reserves its bytes until note_added or
  // cancel_fill. Never waits. Before the first tick there is none; a member that is not the evictor
  // is given its first within two. While the entries are still being counted, room is judged from
  // the last state file or index; without these there is none until they are.
  virtual bool reserve(const EntryName& name) = 0;
  virtual void cancel_fill(const EntryName& name) = 0;
  virtual void note_added(const EntryName& name) = 0;
  virtual void note_dropped(const EntryName& name) = 0;
  // Cheap: a mutex and a hash table. What is used or missed again between two ticks is added up; of
  // more than 65,536 entries the rest is forgotten.
  virtual void note_used(const EntryId& id, uint64_t bytes) = 0;
  virtual void note_missed(const EntryId& id, uint64_t bytes) = 0;
  virtual void note_expected(const EntryId& id) = 0;
  virtual void note_finished(const EntryId& id, bool again) = 0;

  // Bytes that a reader got: out of the directory (or of memory filled from it), and from the source.
  // For hit rates only: State::totals.
  virtual void count_read(uint64_t hit_bytes, uint64_t miss_bytes) = 0;
  // Everything was removed: hit rates begin anew.
  virtual void count_anew() = 0;

  // Bytes that reserve() could give out now, in this process, to who is not invited.
  virtual uint64_t room_bytes() const = 0;
  virtual void set_quota(SizeOrPercent quota) = 0;
  virtual KeeperStatus status() const = 0;
  // Waits until everything noted before was acted upon: by the evictor, that a tick has evicted all
  // it wants to and a scan that was due is finished; by another, that the log is written and the state
  // read. For tests and tools. kTimeout at the deadline; kClosed when the keeper is destroyed; the
  // error that the tick met.
  virtual Result<void> settle(Deadline deadline) = 0;
};

}  // namespace penstock::cache
