// Brings small pieces of files that lie side by side together into larger chunks, after the fact
// and off the path of writing: a log, or a database, would otherwise be thousands of extents of a
// few KiB for ever.
//
// That is no operation: bytes stay the same, and only rows of extents and chunks change, if the
// extents still are what they were when they were read (meta::Namespace::merge). So it is in no
// journal, a replay does not need it, and a crash costs the object on its way. Past versions keep
// their extents.
//
// What it costs is bounded. Pieces that still lie in the journal would be written to the store
// anyway: merging them is free where no history keeps the pieces too. Everything else is paid for
// with what small writes brought, a byte for a byte. So in the long run a byte goes to the store
// twice at most, as it is and merged.
// Threads: all calls from any thread; run() takes turns with whatever else moves content.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "penstock/meta.h"
#include "volume/content_reader.h"
#include "volume/packer.h"

namespace penstock::volume {

// A larger piece is good enough as it is, be it in the middle of small ones.
inline constexpr uint64_t kMergedPieceMax = 128 * kKiB;
// Fewer are not worth the writing.
inline constexpr size_t kMergedPiecesMin = 16;
inline constexpr uint64_t kMergedBytesMax = kMiB;

class Merger {
 public:
  // All outlive it.
  Merger(meta::Database& database, ContentReader& reader, Packer& packer)
      : database_(database), reader_(reader), packer_(packer) {}

  // This was written. Cheap; forgotten where too many files would have to be remembered.
  void note(const VolumeUuid& volume, meta::Ino ino, uint64_t offset, uint64_t length);

  // What was noted, up to one object; how many bytes it merged. To be committed by the caller. 0:
  // there is nothing more to do. What cannot be read is left as it is.
  Result<uint64_t> run(Deadline deadline);

 private:
  using File = std::pair<VolumeUuid, meta::Ino>;
  struct Range {
    uint64_t begin = UINT64_MAX;
    uint64_t end = 0;
  };
  // Extents of a file, one behind the other without a gap.
  struct Run {
    std::vector<meta::Extent> extents;
    uint64_t bytes = 0;
    uint64_t begin() const { return extents.front().offset; }
    uint64_t end() const { return extents.empty() ? 0 : begin() + bytes; }
    // Leaves out what is large beside the rest, at both ends: it would be written again and again
    // for the little that comes behind it.
    void trim();
    bool is_worth_it() const;
    // Leaves out the first ones, until the rest costs no more: what of it is written for nothing but
    // this. What the rest costs.
    uint64_t cut_to(uint64_t credit, bool history);
  };
  struct Target {
    meta::Namespace* names = nullptr;
    meta::Ino ino = 0;
    bool history = false;  // Pieces stay, for past versions.
  };
  // A run that is in an object by now, in the order of its places.
  struct Packed {
    Target target;
    std::vector<meta::Extent> extents;
  };

  Result<uint64_t> merge_files(std::map<File, Range>& files, Deadline deadline);
  // False: no more fits in.
  Result<bool> gather(const File& file, Range& range);
  Result<bool> gather_window(const Target& target, uint64_t begin, Run& run);
  bool finish(const Target& target, Run& run);
  uint64_t credit();
  void spend(uint64_t bytes);
  Result<uint64_t> change_rows();
  Result<meta::Namespace*> names_of(const VolumeUuid& volume);

  meta::Database& database_;
  ContentReader& reader_;
  Packer& packer_;

  std::mutex mutex_;
  std::map<File, Range> files_;  // Under mutex_.
  uint64_t credit_ = 0;          // Under mutex_: bytes that may be written yet.
  uint64_t spent_ = 0;           // Under mutex_: of those, by the run() under way.

  // Of run(), of which there is one at a time.
  std::mutex running_;
  std::map<VolumeUuid, std::unique_ptr<meta::Namespace>> names_;
  Packer::Pack pack_;
  std::vector<Packed> packed_;
};

}  // namespace penstock::volume
