// Entries as tools see them, who do not know what they look at.
// Threads: all functions from any thread. All calls block.
#pragma once

#include <functional>
#include <span>
#include <stop_token>
#include <string>

#include "cache/directory.h"
#include "cache/entry.h"
#include "penstock/result.h"

namespace penstock::cache {

// Who an entry is, from its header alone. kNotFound: it is gone. kCorrupt: no entry, a damaged
// header, or that of another entry. kUnsupported: of a newer version. What the drive says otherwise.
Result<EntryKey> identify_entry(CacheDirectory& directory, const EntryName& name);

// The same, and every block is as it was written. `memory` is for reading into: at least
// name.file_bytes().
Result<EntryKey> verify_entry(CacheDirectory& directory, const EntryName& name,
                              std::span<std::byte> memory);

struct EntryVisitor {
  // On several threads at once.
  std::function<void(const EntryName&)> visit;
  // Hears of every entry first, on the calling thread; false: not to be visited. May be empty.
  std::function<bool(const EntryName&)> wanted = {};
  // Paths of what is not ours; on the calling thread. May be empty.
  std::function<void(const std::string&)> foreign = {};
  uint32_t threads = 16;
  std::stop_token stop = {};
};
// Goes through all entries, in no order, until they end or a stop is requested. Returns when the last
// visit has.
Result<void> visit_entries(CacheDirectory& directory, const EntryVisitor& visitor);

}  // namespace penstock::cache
