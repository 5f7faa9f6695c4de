// What a cache directory holds, for people and for `--json`. Only looks; needs no more than the right
// to read.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "cache/directory.h"
#include "cache/source_table.h"
#include "cache/state_file.h"
#include "penstock/result.h"

namespace penstock::cache {

struct EntrySums {
  uint64_t entries = 0;
  uint64_t bytes = 0;  // Of the files.
};

struct MemberReport {
  std::string name;  // "PID-RANDOM"
  bool evictor = false;
};

struct ObjectUse {
  std::string url;
  std::string etag;
  uint64_t size = 0;
  uint64_t cached_bytes = 0;  // More than `size` where both windows and small pieces have it.
  uint64_t entries = 0;
};

struct DirectoryReport {
  std::string path;
  io::SpaceInfo space;
  EntrySums all;
  // Entries of up to about 64 KiB: small objects, and what random readers of large ones asked for. The
  // rest are windows.
  EntrySums small;
  uint64_t foreign = 0;
  // What the process that evicts said last; nothing where none ever ran.
  std::optional<State> state;
  std::vector<MemberReport> members;  // That use it now.
  // Not allowed to know who does.
  bool members_unknown = false;

  uint64_t looked_at = 0;          // Entries whose headers were read, for all of the following.
  uint64_t damaged = 0;            // Of these: not readable, or of a newer version.
  std::vector<SourceUse> sources;  // Scaled up where not all were looked at.
  std::vector<ObjectUse> objects;  // By url. Only when asked for.
  uint64_t objects_left_out = 0;   // Entries of objects beyond objects_max.
};

struct ReportOptions {
  uint64_t headers_max =
      20'000;               // Entries are named by hashes: the first so many are a fair sample.
  size_t sources_max = 20;  // Lines.
  bool objects = false;     // Then all headers are read.
  size_t objects_max = 250'000;
  uint32_t jobs = 16;
  std::stop_token stop = {};
};

// kCancelled on stop.
Result<DirectoryReport> report_directory(CacheDirectory& directory, const ReportOptions& options);

}  // namespace penstock::cache
