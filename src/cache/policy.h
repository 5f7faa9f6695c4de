// Which entries of a cache to keep. Training reads its data in a loop: in file order, or shuffled
// anew each epoch. Where the data is larger than the cache, the policies that guess from recency
// throw out each entry just before it is needed again. This one keeps what it has until there is
// evidence that it is no longer used.
//
// Time is measured in bytes read through the cache, so idle nights and clock jumps age nothing. How
// often an entry is used is its *turn*: the time in which as many bytes as it holds are read from it
// (turn.h). What was missed is remembered in a small table, so its turn is known as well.
//
// - An entry is overdue when it stayed away for half as long again as 99 % of recent turns, and its
//   own. In a loop nothing is ever overdue, and what is not kept is not admitted either: hits are
//   cache/data, and no drive is worn by pointless fills.
// - When many entries at once are later than chance allows, in whatever order a loop runs, their
//   readers are gone, and the late ones are overdue at once.
// - What is missed again and again, with far shorter turns than something kept has, is invited in
//   its place: a hot set that comes late.
//
// Threads: one at a time. Memory: at most 64 bytes per entry and 8 MiB. Cost: constant per call, but for snapshots and scans.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/entry.h"
#include "cache/index_stream.h"
#include "penstock/result.h"

namespace penstock::cache {

class Policy {
 public:
  virtual ~Policy() = default;

  // The cache's capacity now: decides how long an entry that was used once is given.
  virtual void set_capacity(uint64_t bytes) = 0;

  // A file appeared (filled, or found by a scan). Known already: nothing.
  virtual void added(const EntryName& name) = 0;
  virtual void removed(const EntryId& id) = 0;
  // `bytes` of the entry were read. Unknown entries are taken as missed().
  virtual void used(const EntryId& id, uint64_t bytes) = 0;
  // `bytes` of an entry that is not there were wanted. `blocks` are those its file would have
  // (EntryName), 0 when that is not known: then it is taken to be like the others.
  virtual void missed(const EntryId& id, uint64_t bytes, uint32_t blocks = 0) = 0;
  // A reader that knows its future will use it: not a victim before it was used, unless it never
  // comes. One that is not there is invited: say so shortly before it is filled.
  virtual void expected(const EntryId& id) = 0;
  // It will not: goes first. `again`: it will in some later epoch, so only when room is needed for
  // what is expected, the last one finished first: it is the last to be needed again.
  virtual void finished(const EntryId& id, bool again) = 0;

  enum class Need {
    kRoomForOthers,   // Only what is finished or overdue.
    kRoomForInvited,  // Also what is much less used than those invited (as of the last invited()).
    kSpace,  // The drive is too full: the least useful, whatever it is (expected ones last).
  };
  // The next to go, still counted until removed(); nothing when `need` does not justify any.
  virtual std::optional<EntryName> victim(Need need) = 0;
  // Entries missed lately that deserve the place of one that is kept, sorted; at most kInvitedMax.
  // Cleared by added(), and by time. They come in when they are missed the next time, so the list
  // must hold a good part of a hot set.
  static constexpr size_t kInvitedMax = 4096;
  virtual std::vector<EntryId> invited() = 0;

  virtual uint64_t used_bytes() const = 0;  // Sum of the files.
  virtual uint64_t entries() const = 0;
  virtual uint64_t clock_bytes() const = 0;  // Bytes read through the cache so far.
  virtual bool contains(const EntryId& id) const = 0;
  virtual uint64_t memory_bytes() const = 0;

  // What it has learnt, for the next process: docs/formats/cache-index.md. restore() replaces what
  // it has by that, with entries that may be gone since (a scan tells); kCorrupt or kUnsupported, and
  // unchanged, when it is not one, or else what the source said.
  virtual Result<void> save(const IndexSink& sink) const = 0;
  virtual Result<void> restore(uint64_t bytes, const IndexSource& source) = 0;
  // Forgets entries that neither added() nor restore()+seen() confirmed since begin_scan().
  virtual void begin_scan() = 0;
  virtual void seen(const EntryName& name) = 0;  // As added(), and confirms.
  virtual void end_scan() = 0;
};

std::unique_ptr<Policy> make_policy();

// save() and restore() with all of it in memory.
std::string snapshot_of(const Policy& policy);
Result<void> restore_from(Policy& policy, std::string_view bytes);

}  // namespace penstock::cache
