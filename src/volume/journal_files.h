// The files of a journal: names, and how one comes into use and goes out of it.
//
//   DIR/segment-N      in use. It has this name only with a durable header of the same number.
//   DIR/spare-N        out of use, to be used again; whatever is in it counts for nothing.
//   DIR/unfinished-N   being made.
//
// A kIo from here is final: names or headers are then in an unknown state.
// Threads: all calls from any thread; of one file by one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/io.h"
#include "penstock/result.h"
#include "volume/journal_format.h"

namespace penstock::volume {

// In use, or found so.
struct Segment {
  SegmentHeader header;
  // Shared with a sync that runs while the file goes out of use.
  std::shared_ptr<io::File> file;
  uint64_t bytes = 0;           // Of the file, and never more than the header says.
  std::optional<Error> damage;  // Of the header, of which then only the number is known.
  uint64_t last = 0;            // Sequence of the last record in it; header.first - 1: it is empty.
  uint64_t end = kSegmentHeaderBytes;      // Where the next one goes.
  uint64_t touched = kSegmentHeaderBytes;  // Up to here pages were written in full.
  uint64_t begun = 0;                      // Up to here the drive was asked to store it.
  uint32_t readers = 0;
  bool leaving = false;

  SegmentIdentity identity() const { return {header.volume, header.number, header.salt}; }
};
using SegmentRef = std::shared_ptr<Segment>;

struct Spare {
  uint64_t number = 0;
  std::shared_ptr<io::File> file;  // Null when it was not opened yet.
};

class JournalFiles {
 public:
  // `fs` outlives it.
  JournalFiles(io::FileSystem& fs, std::string directory, const VolumeUuid& volume)
      : fs_(fs), directory_(std::move(directory)), volume_(volume) {}

  const std::string& directory() const { return directory_; }
  std::string path_of(std::string_view prefix, uint64_t number) const;

  // Makes it when missing, so that its name survives a power cut.
  Result<void> make_directory();

  struct Found {  // Each sorted.
    std::vector<uint64_t> segments;
    std::vector<uint64_t> spares;
    std::vector<uint64_t> unfinished;
    uint64_t highest() const;  // Number of all; 0 when there is none.
  };
  // Names that are not of a journal are left alone.
  Result<Found> list();
  // A damaged header is no error here: see Segment::damage. kInvalid: of another volume;
  // kUnsupported: of a newer version.
  Result<SegmentRef> open_segment(uint64_t number);

  // A file of exactly header.bytes, with that header, in use under header.number; on return both
  // survive a power cut. Made anew, unless a spare is given. On kNoSpace and the like nothing has
  // changed but for what is in the spare.
  Result<SegmentRef> put_into_use(const SegmentHeader& header, Spare* spare);
  // Renames a segment to a spare. Durable, and safe to be written to, after sync_names().
  Result<void> set_aside(uint64_t number);
  Result<void> remove(std::string_view prefix, uint64_t number);  // Not there: fine.
  Result<void> sync_names();
  // The size of a spare; kNotFound when it is none of a plain file.
  Result<uint64_t> spare_bytes(uint64_t number);

 private:
  Result<std::shared_ptr<io::File>> make_file(uint64_t number, uint64_t bytes);
  Result<std::shared_ptr<io::File>> open_file(const std::string& path);

  io::FileSystem& fs_;
  const std::string directory_;
  const VolumeUuid volume_;
};

// The same failure as kIo, whatever the operating system called it: a sync that failed is final.
Result<void> final_sync(const Result<void>& synced);

}  // namespace penstock::volume
