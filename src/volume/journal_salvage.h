// What can be read of a journal in whatever state it is: every record that is whole, also behind
// damage, of whichever volume. Reads only.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "volume/journal.h"
#include "volume/journal_files.h"

namespace penstock::volume {

struct SalvagedRecord {
  SegmentHeader segment;
  JournalPlace place;
  std::span<const std::byte> record;   // Until the call returns.
  std::span<const std::byte> content;  // Likewise.
};

struct Salvaged {
  uint64_t highest_segment = 0;
  uint64_t segment_bytes = 0;  // Of the largest.
  // What could not be read, in words. Segments of newer versions are in `unsupported` instead.
  std::vector<std::string> damage;
  std::vector<std::string> unsupported;
};

// In the order of their sequences, each once, those after `after`. An error of `visit`, or of the
// file system, ends it.
Result<Salvaged> salvage_journal(io::FileSystem& fs, const std::string& directory,
                                 const std::function<uint64_t(const SegmentHeader&)>& after,
                                 const std::function<Result<void>(const SalvagedRecord&)>& visit);

}  // namespace penstock::volume
