// The ordered journal of a volume's owner: what was acknowledged and is not yet committed, on a
// local drive. docs/formats/journal.md gives the bytes.
//
// Records are appended to segments, files of a fixed size that are allocated before and used again,
// so that an append neither runs out of space nor waits for new pages. What append() returned
// survives the death of the process; what sync() returned survives a power cut. After either,
// replay() gives every record that survived, from the oldest that was not released, in order and
// without a gap: what comes behind the first one that is not whole does not count, unless it proves
// that the missing one had been synced; then the journal is damaged, and says so rather than lose
// it. (What is damaged in the very last records, with nothing appended since they were synced,
// looks like a power cut and is cut off.)
//
// A record may carry content of files, which can be read again from its place until it is released.
//
// Threads: all calls from any thread. Appends take turns and keep their order; syncs that wait at
// the same time share one. Each segment takes a file descriptor.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "penstock/io.h"
#include "penstock/result.h"
#include "penstock/units.h"

namespace penstock::volume {

struct JournalOptions {
  std::array<std::byte, 16> volume{};  // A journal of another one is refused (kInvalid).
  // Of new segments: 64 KiB or more, in multiples of 4 KiB. A record must fit in one.
  uint64_t segment_bytes = 64 * kMiB;
  // Of all segments, two at least: append() answers kBusy beyond.
  uint64_t limit_bytes = 4 * kGiB;
  uint64_t spare_bytes = 256 * kMiB;  // Of released segments, kept to be used again.
  // Since the epoch; the system's clock when empty.
  std::function<int64_t()> now_ns = nullptr;
};

// Where a record lies.
struct JournalPlace {
  uint64_t sequence = 0;  // From 1 on, without a gap.
  uint64_t segment = 0;   // Numbers go up; a file that is used again gets a new one.
  uint64_t offset = 0;    // Of the record in it.
  uint32_t bytes = 0;     // Of the whole record.
};

class Journal {
 public:
  // Of an operation, with the content it brings along, if any.
  static constexpr size_t kRecordBytesMax = 2 * kMiB;

  // In `directory`, which is made when missing. The caller sees to it that there is one owner.
  // Nothing is accepted before replay() was called. kInvalid: of another volume, or bad options;
  // kUnsupported: written by a newer version. `fs` outlives it.
  static Result<std::unique_ptr<Journal>> open(io::FileSystem& fs, std::string directory,
                                               const JournalOptions& options);
  // Syncs nothing.
  ~Journal();

  // Calls `visit` for every record after `committed`, in order, makes them durable, and cuts off
  // what lies behind the last one. Those up to `committed` count as released, with `keep` as of
  // release(); where that is more than there are, the next record comes behind it. Once, before
  // anything else. An error of `visit` ends it, and is returned. kCorrupt: a record that was synced
  // is missing or damaged. After either nothing was changed, and what was visited before does not
  // count. kIo, kNoSpace and the like: open it again to try again.
  using Visit = std::function<Result<void>(const JournalPlace&, std::span<const std::byte> record,
                                           std::span<const std::byte> content)>;
  using Keep = std::function<bool(uint64_t segment)>;
  Result<void> replay(uint64_t committed, const Visit& visit, const Keep& keep = {});

  // kBusy at the limit: release() something, then try again. kNoSpace: the drive is full; nothing
  // was written. After kIo nothing is accepted any more, and the next replay() may find this record
  // or not.
  Result<JournalPlace> append(std::span<const std::byte> record,
                              std::span<const std::byte> content = {});
  // Everything appended before the call is durable on return. A failure is final, as of fsync():
  // all calls answer kIo from then on. The next replay() gives what can still be read, and writes
  // it anew.
  Result<void> sync();
  // The content of a record that is not released, verified. `into` is as long as a part of it, from
  // `content_offset` on. kNotFound: its segment was released; one that is being read is not used
  // again.
  Result<void> read(const JournalPlace& place, uint64_t content_offset, std::span<std::byte> into);
  // When a record that is not released was appended, since the epoch. kNotFound as of read().
  Result<int64_t> time_of(const JournalPlace& place);
  // Records up to this one are not needed any more: what they did is durable elsewhere, and no
  // replay will ask for them. Segments that hold only such are used again, but for the newest, and
  // for those that `keep` (asked with their number, without a lock; it must not call release())
  // says hold content that is still referred to. Those are asked for again each time.
  Result<void> release(uint64_t sequence, const Keep& keep = {});

  struct Usage {
    uint64_t bytes = 0;   // Of all segments in use.
    uint64_t last = 0;    // Sequence of the last record; 0 when there never was one.
    uint64_t synced = 0;  // Up to here durable.
    uint64_t released = 0;
    // When the oldest record that is not released was appended, to a tenth of a second; 0: none.
    int64_t oldest_ns = 0;
  };
  Usage usage() const;

 private:
  class Impl;
  explicit Journal(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::volume
