// What a journal that was found holds. Reads only; what is to be done about it is the answer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "volume/journal.h"
#include "volume/journal_files.h"

namespace penstock::volume {

struct Replayed {
  // Of the segments given: [0, needed) hold only committed records, [needed, kept) the ones that
  // were visited, and those from `kept` on nothing that counts.
  size_t needed = 0;
  size_t kept = 0;
  uint64_t last = 0;  // Sequence of the last record that counts, or `committed` where that is more.
  // Whether the last segment kept can be appended to: behind its last record there is nothing that
  // could ever be taken for one.
  bool resumable = false;
  // What may not be durable: all of it must be written again before anything is promised that comes
  // after. (A sync would not do: one that failed before may have left pages that only look clean.)
  struct Range {
    size_t segment = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  std::vector<Range> unproved;
};

// Requires segments in the order of their numbers; sets their `last`, `end` and `touched`. `heard`
// is told of each record that is visited, and when it was appended.
Result<Replayed> replay_segments(
    const std::vector<SegmentRef>& segments, uint64_t committed, const Journal::Visit& visit,
    const std::function<void(uint64_t sequence, int64_t time_ns)>& heard);

}  // namespace penstock::volume
