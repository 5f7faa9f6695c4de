#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "cache/drive.h"
#include "cache/entry.h"
#include "penstock/io.h"

namespace penstock::cache {

// An entry's file and what its header said. Read-only once in the table.
struct OpenEntry {
  std::shared_ptr<Drive> drive;
  EntryKey key;
  EntryName name;
  uint32_t header_bytes = 0;
  std::unique_ptr<io::File> file;
  BlockSums sums;
};
// Destroyed on a worker (Workers::share): closing may block, and must not happen in a completion.
using OpenEntryRef = std::shared_ptr<OpenEntry>;

struct TierRead;

// The entries that are open, least recently used first out, and those being opened. Reads of an
// entry that another read is opening wait for it.
// Threads: all calls from any thread.
class OpenEntries {
 public:
  // `waiting_limit`: reads that wait for others.
  OpenEntries(size_t limit, size_t waiting_limit);

  // Null when it is not open. The caller compares keys: ids can collide.
  OpenEntryRef find(const EntryId& id);

  enum class Turn { kOpen, kLead, kFollow, kJoin, kFull };
  // kOpen: `entry` is set. kLead: the caller opens it, and calls file_opened(), then opened(), or at
  // any time not_opened(). kFollow: those calls give `read` to who leads; it is not the caller's any
  // more. kJoin: the same, but the file is open, `entry` is set, and the caller asks for its data
  // meanwhile. kFull: too many wait.
  Turn find_or_lead(const EntryId& id, TierRead* read, OpenEntryRef& entry);
  // The file is open, its header is not there yet. Returns those who follow; they go on waiting.
  std::vector<TierRead*> file_opened(const EntryId& id, OpenEntryRef entry);
  // Puts it into the table, unless clear() or forget() came between. Returns those who waited for
  // it.
  std::vector<TierRead*> opened(const EntryId& id, OpenEntryRef entry);
  std::vector<TierRead*> not_opened(const EntryId& id);

  void forget(const OpenEntry& entry);  // Another one under its id stays.
  void forget(const EntryId& id);
  // Leaves room for one more. Drops what is least recently used on this thread: on a worker, that
  // closes it.
  void make_room();
  // Too many files are open in the process: gives half back.
  void halve();
  void clear();
  size_t size() const;

 private:
  struct Hash {
    size_t operator()(const EntryId& id) const { return static_cast<size_t>(id.low ^ id.high); }
  };
  using Order = std::list<OpenEntryRef>;  // Most recently used first.
  struct Opening {
    std::vector<TierRead*> followers;
    OpenEntryRef entry;  // Once its file is open.
    bool keep = true;
  };

  std::vector<TierRead*> end_opening(const EntryId& id, bool& keep);
  Order shrink_to(size_t count);

  const size_t limit_;
  const size_t waiting_limit_;
  mutable std::mutex mutex_;
  Order order_;
  std::unordered_map<EntryId, Order::iterator, Hash> by_id_;
  std::unordered_map<EntryId, Opening, Hash> opening_;
  size_t waiting_ = 0;
};

}  // namespace penstock::cache
