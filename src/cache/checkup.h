// Is everything in a cache directory as it was written? Reads all of it. Safe beside others that use
// the cache: what they remove or replace meanwhile is not taken for damage.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "cache/directory.h"
#include "penstock/result.h"
#include "penstock/units.h"

namespace penstock::cache {

struct CheckupFinding {
  enum class Kind : uint8_t {
    kDamaged,     // Readers would drop it and fetch its bytes again; so does repairing.
    kUnreadable,  // The drive fails.
    kNewer,       // Of a version of Penstock that we do not know. Left alone.
    kForeign,     // Not ours, so never touched.
    kLeftover,    // Of a process that was killed; the next one that uses the cache removes it.
  };
  Kind kind = Kind::kDamaged;
  std::string path;
  std::string why;
  bool removed = false;
};
std::string_view finding_kind_name(CheckupFinding::Kind kind);  // "damaged", "unreadable" …

struct CheckupProgress {
  uint64_t entries = 0;  // Looked at so far,
  uint64_t bytes = 0;
  uint64_t entries_total = 0;  // of these.
  uint64_t bytes_total = 0;
  uint64_t problems = 0;
};

struct CheckupOptions {
  uint32_t jobs = 16;  // Entries read at once. 1 to 256.
  uint64_t memory_bytes = 256 * kMiB;
  std::stop_token stop = {};
  // After every entry, from one thread at a time.
  std::function<void(const CheckupProgress&)> on_progress = {};
  // Removes a damaged entry. Empty: only tell.
  std::function<Result<void>(const EntryName&)> drop = {};
  // Removes leftovers. Empty: only tell.
  std::function<Result<void>()> sweep = {};
};

struct CheckupReport {
  uint64_t entries = 0;  // That are well.
  uint64_t bytes = 0;    // Of their files.
  uint64_t damaged = 0;
  uint64_t unreadable = 0;
  uint64_t newer = 0;
  uint64_t foreign = 0;
  uint64_t leftovers = 0;
  uint64_t removed = 0;  // Of the damaged ones.
  // The first 1000 of all these.
  std::vector<CheckupFinding> findings;
  Nanoseconds time{0};
  bool stopped = false;

  // Whether somebody should look into it. Leftovers are nothing to worry about.
  bool healthy() const {
    return damaged == removed && unreadable == 0 && newer == 0 && foreign == 0;
  }
};

// An error only where the directory cannot be looked at.
Result<CheckupReport> check_directory(CacheDirectory& directory, const CheckupOptions& options);

}  // namespace penstock::cache
