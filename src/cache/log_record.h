// What a member's log is made of: records of 32 bytes. docs/formats/cache-members.md gives the bytes.
// Threads: all functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "cache/entry.h"

namespace penstock::cache {

inline constexpr size_t kRecordBytes = 32;

// Something that happened to an entry.
struct Note {
  enum class Kind : uint8_t {
    kUsed = 1,
    kMissed = 2,
    kAdded = 3,
    kDropped = 4,
    kExpected = 5,
    kFinished = 6,
    kFinishedAgain = 7,
  };
  Kind kind = Kind::kUsed;
  EntryId id;
  // Read or wanted; of the file for kAdded and kDropped (whole blocks); 0 for the others.
  uint64_t bytes = 0;
  bool operator==(const Note&) const = default;

  bool changes_files() const { return kind == Kind::kAdded || kind == Kind::kDropped; }
  EntryName name() const { return {id, static_cast<uint32_t>(bytes / kBlockBytes)}; }
};

// What the member asks of all that use the directory.
struct Terms {
  uint64_t quota_bytes = UINT64_MAX;
  uint64_t floor_bytes = 0;
  bool operator==(const Terms&) const = default;
};

// How far the member has used what it was granted; see leases.h. True of the moment after all
// notes in front of it.
struct Standing {
  uint64_t published_bytes = 0;  // Of all files it ever added.
  uint32_t reserved_blocks = 0;  // Of fills under way.
  uint32_t adopted = 0;          // The counter of the state it goes by (low half).
  uint64_t ceiling_bytes = 0;    // What that state allows it.
  bool operator==(const Standing&) const = default;
  uint64_t reserved_bytes() const { return uint64_t{reserved_blocks} * kBlockBytes; }
};

// What was read since it last said so.
struct Tally {
  uint64_t hit_bytes =
      0;  // Out of the directory, or out of memory that this or another read filled.
  uint64_t miss_bytes = 0;  // From the source.
  bool anew = false;        // Everything was removed: counting begins anew, with these.
  bool operator==(const Tally&) const = default;
};

// Its last word: nothing is missing, nothing follows.
struct Left {
  bool operator==(const Left&) const = default;
};
// It could not say all that happened to files: only a scan tells.
struct Lost {
  bool operator==(const Lost&) const = default;
};
// Of a version that knows more; to be passed over.
struct Unknown {
  bool operator==(const Unknown&) const = default;
};

using LogRecord = std::variant<Note, Terms, Standing, Tally, Left, Lost, Unknown>;

// Requires another record than Unknown.
void append_record(std::string& out, const LogRecord& record);
// Puts the right checksum into it.
void seal_record(std::span<std::byte, kRecordBytes> record);
// Nothing when the bytes are not a record.
std::optional<LogRecord> parse_record(std::span<const std::byte, kRecordBytes> bytes);

}  // namespace penstock::cache
