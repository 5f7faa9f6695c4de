// Finds readers that go through a file from front to back, or through an object that holds many,
// and says what to load before they ask.
//
// The kernel reads ahead by itself, but no further than a request or two: enough for a local drive,
// not for an object store. Its requests come from several threads, so they arrive a little out of
// order.
// Threads: all calls from any thread.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <optional>

#include "penstock/meta.h"
#include "penstock/units.h"

namespace penstock::volume {

struct ReadRange {
  uint64_t offset = 0;
  uint64_t length = 0;
  bool operator==(const ReadRange&) const = default;
};

class ReadAhead {
 public:
  static constexpr uint64_t kFirstBytes = kMiB;
  // Of all readers together: half of the least memory that there can be, and what keeps a far store busy.
  static constexpr uint64_t kBytesMax = 32 * kMiB;
  static constexpr size_t kReadersMax = 128;  // Of all files: those that read last.

  // What to load now that this was asked for; nothing for who jumps about. `ino`: of the file, or
  // whatever else tells one thing that is read from another.
  std::optional<ReadRange> note(meta::Ino ino, uint64_t offset, uint64_t length);

 private:
  struct Reader {
    meta::Ino ino = 0;
    uint64_t end = 0;     // Of what was read.
    uint64_t loaded = 0;  // Up to here it was asked for ahead.
    uint64_t ahead = 0;   // How far to go, 0 before it proved itself.
    uint64_t last = 0;    // When it read.
  };
  uint64_t share() const;
  static bool follows(const Reader& reader, meta::Ino ino, uint64_t offset, uint64_t length);

  std::mutex mutex_;
  std::list<Reader> readers_;  // The last one first.
  uint64_t reads_ = 0;         // The clock.
};

}  // namespace penstock::volume
