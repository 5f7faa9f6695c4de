// What the evictor tells the other members: one small file, replaced as a whole.
// docs/formats/cache-members.md gives the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/entry.h"
#include "cache/policy.h"
#include "penstock/io.h"
#include "penstock/result.h"

namespace penstock::cache {

inline constexpr uint32_t kMembersMax = 1024;  // More may use a directory; they are given no room.

// Where a reader of a member's log stands: which file of it, and the byte in that.
struct LogPosition {
  uint32_t file = 0;
  uint64_t offset = 0;
  auto operator<=>(const LogPosition&) const = default;
};

struct StateRow {
  uint64_t member = 0;       // member_hash() of its name.
  uint64_t ceiling = 0;      // See leases.h.
  uint32_t changed = 0;      // The state in which it was set (low half), to be confirmed.
  uint64_t ceiling_max = 0;  // Not less: what it may still go by.
  LogPosition consumed;
  bool operator==(const StateRow&) const = default;
};

// Of all members, since counting began; kept from one evictor to the next. May lack what those read
// in their last seconds who were killed.
struct Totals {
  uint64_t hit_bytes = 0;
  uint64_t miss_bytes = 0;
  int64_t since_s = 0;  // Seconds of the epoch; 0: nothing was counted yet.
  bool operator==(const Totals&) const = default;
};

struct State {
  std::string evictor;  // Its member name; at most 64 bytes.
  uint64_t counter = 0;
  bool known = false;  // `used` and `entries` are from a finished scan.
  // The evictor left in order and alone: `used` is what is there, and nobody was granted anything.
  bool clean = false;
  uint64_t used = 0;
  uint64_t limit = 0;
  uint64_t entries = 0;
  // Of everybody together; see room.h.
  uint64_t open_bytes = 0;
  uint64_t invited_bytes = 0;
  uint32_t members = 0;
  Totals totals;
  std::vector<EntryId> invited;  // Sorted; at most Policy::kInvitedMax.
  std::vector<StateRow> rows;    // At most kMembersMax.
  bool operator==(const State&) const = default;

  const StateRow* row_of(uint64_t member) const;
};

uint64_t member_hash(std::string_view member);

std::string encode_state(const State& state);
// kCorrupt when it is none, kUnsupported when a newer version wrote it.
Result<State> parse_state(std::span<const std::byte> bytes);

Result<State> read_state(io::FileSystem& fs, const std::string& path);

// Writes `temporary` and renames it to `path`. Others see the old or the new; nothing is synced, so
// after a power cut it may be neither. On failure the temporary file is removed.
Result<void> replace_file(io::FileSystem& fs, const std::string& temporary, const std::string& path,
                          std::string_view contents);
// The same, with contents that come piece by piece.
using FileSink = std::function<Result<void>(std::span<const std::byte>)>;
Result<void> replace_file(io::FileSystem& fs, const std::string& temporary, const std::string& path,
                          const std::function<Result<void>(const FileSink&)>& write);

}  // namespace penstock::cache
