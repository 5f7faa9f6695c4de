// Opening a cache directory: is it one, may we; and walking through it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cache/entry.h"
#include "penstock/io.h"
#include "penstock/result.h"

namespace penstock::cache {

inline constexpr const char* kEntriesName = "entries";
inline constexpr const char* kTemporaryName = "tmp";
inline constexpr const char* kMembersName = "members";

// Whether the text of the file `path`, which says what the directory is, lets us use it: kInvalid,
// kUnsupported, kCorrupt as CacheDirectory::open.
Result<void> check_marker(std::string_view marker, const std::string& path);

// Whether it names one of the 256 parts of the entries.
bool is_part_name(std::string_view name);

// The whole of a small file, as io::read_file; kInvalid where anything but a plain file stands: no
// link is followed, no pipe waited for.
Result<std::string> read_plain_file(io::FileSystem& fs, const std::string& path,
                                    uint64_t limit_bytes);

// As CacheDirectory::open.
Result<void> prepare_directory(io::FileSystem& fs, const std::string& root, bool must_exist);

// As CacheDirectory::scan, of the directory `entries`.
Result<void> scan_entries(io::FileSystem& fs, const std::string& entries,
                          const std::function<bool(const EntryName&)>& visit,
                          const std::function<void(const std::string&)>& foreign);

// What another has removed meanwhile needs no removing.
inline Result<void> unless_missing(Result<void> done) {
  if (!done.ok() && done.error().code == ErrorCode::kNotFound) return {};
  return done;
}

}  // namespace penstock::cache
