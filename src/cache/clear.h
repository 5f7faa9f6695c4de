// Makes room in a cache directory. Safe beside others that use it: who reads what is removed reads it
// from the source.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/glob.h"
#include "cache/directory.h"
#include "cache/report.h"
#include "penstock/result.h"

namespace penstock::cache {

struct ClearProgress {
  EntrySums removed;
  EntrySums kept;
};

struct ClearOptions {
  // Of which sources: patterns of ObjectVersion::url, or of a folder above. Empty: everything,
  // damaged entries too.
  std::vector<Glob> sources;
  // Removes an entry, and tells who must know. Several threads at once.
  std::function<Result<void>(const EntryName&)> drop;
  uint32_t jobs = 16;
  std::stop_token stop = {};
  // After every entry, from one thread at a time.
  std::function<void(const ClearProgress&)> on_progress = {};
};

struct ClearReport {
  ClearProgress totals;
  uint64_t unreadable = 0;  // Whose source nobody knows; kept.
  uint64_t failed = 0;      // Could not be removed,
  Error first_failure;      // and why.
  bool stopped = false;
};

Result<ClearReport> clear_entries(CacheDirectory& directory, const ClearOptions& options);

// Whether one of `sources` names the object at `url`, or a folder that it is in.
bool is_from(const std::vector<Glob>& sources, std::string_view url);

}  // namespace penstock::cache
