#include "volume/journal_replay.h"

#include <fmt/core.h>

#include <algorithm>

#include "volume/journal_scan.h"

namespace penstock::volume {

namespace {

// How exactly it is remembered where records lie, to write those again that may not be durable.
constexpr uint64_t kSpotBytes = 256 * kKiB;

class Replay {
 public:
  Replay(const std::vector<SegmentRef>& segments, uint64_t committed, const Journal::Visit& visit,
         const std::function<void(uint64_t, int64_t)>& heard)
      : segments_(segments), committed_(committed), visit_(visit), heard_(heard) {}

  Result<Replayed> run();

 private:
  // A place in the chain of records from which they can be read on.
  struct Spot {
    size_t segment = 0;
    uint64_t sequence = 0;
    uint64_t offset = 0;
  };

  size_t first_needed() const;
  Result<void> check_begin(const Segment& segment) const;
  Result<bool> walk(size_t index);
  Result<void> walk_records(size_t index, SegmentScan& scan);
  Result<void> check_nothing_lost(size_t index, SegmentScan& scan);
  bool ends_where_next_begins(size_t index) const;
  uint64_t first_behind(size_t index) const;
  void note_spot(size_t index, uint64_t sequence, uint64_t offset);
  std::vector<Replayed::Range> unproved() const;
  Error lost(uint64_t from, uint64_t to, const std::string& why) const;

  const std::vector<SegmentRef>& segments_;
  const uint64_t committed_;
  const Journal::Visit& visit_;
  const std::function<void(uint64_t, int64_t)>& heard_;
  Replayed answer_;
  uint64_t last_ = 0;    // The record that the chain has come to.
  uint64_t proved_ = 0;  // Up to here something that was found says that it was durable.
  std::vector<Spot> spots_;
};

Error Replay::lost(uint64_t from, uint64_t to, const std::string& why) const {
  return make_error(
      ErrorCode::kCorrupt,
      fmt::format("the journal has lost records {} to {}: {}. Nothing was changed: keep a "
                  "copy of the directory",
                  from, to, why));
}

// Segments in front of one that begins with a record that is needed, or with the first after it,
// hold only committed ones: whatever state they are in does not matter.
size_t Replay::first_needed() const {
  for (size_t i = segments_.size(); i-- > 1;) {
    if (!segments_[i]->damage && segments_[i]->header.first <= committed_ + 1) return i;
  }
  return 0;
}

Result<void> Replay::check_begin(const Segment& segment) const {
  if (segment.damage) return *segment.damage;
  if (segment.header.first <= committed_ + 1) return {};
  return lost(
      committed_ + 1, segment.header.first - 1,
      fmt::format("the oldest segment begins behind them, and {} is the last record known as "
                  "committed. Was the metadata brought back from an older copy?",
                  committed_));
}

uint64_t Replay::first_behind(size_t index) const {
  return index + 1 < segments_.size() ? segments_[index + 1]->header.first : UINT64_MAX;
}

bool Replay::ends_where_next_begins(size_t index) const {
  return index + 1 < segments_.size() && segments_[index + 1]->header.first == last_ + 1;
}

void Replay::note_spot(size_t index, uint64_t sequence, uint64_t offset) {
  if (!spots_.empty() && spots_.back().segment == index &&
      offset - spots_.back().offset < kSpotBytes) {
    return;
  }
  spots_.push_back({index, sequence, offset});
}

Result<void> Replay::walk_records(size_t index, SegmentScan& scan) {
  Segment& segment = *segments_[index];
  // What lies there from then on was cut off by an earlier replay, and the next segment begun
  // instead.
  const uint64_t stop = first_behind(index);
  while (last_ + 1 < stop) {
    const auto found = PENSTOCK_TRY(scan.record_at(segment.end, committed_));
    if (!found || found->header.sequence != last_ + 1) break;
    const RecordHeader& header = found->header;
    if (header.sequence > committed_) {
      const JournalPlace place{header.sequence, segment.header.number, segment.end,
                               static_cast<uint32_t>(header.total_bytes())};
      PENSTOCK_TRY(visit_(place, found->view.record, found->view.content));
      heard_(header.sequence, header.time_ns);
    }
    note_spot(index, header.sequence, segment.end);
    last_ = segment.last = header.sequence;
    segment.end += header.total_bytes();
    proved_ = std::max(proved_, header.synced);
  }
  segment.touched = (segment.end + kPageBytes - 1) / kPageBytes * kPageBytes;
  return {};
}

// The chain ends in the segment, and nothing continues it. That is how it looks after a power cut,
// unless something that was written later says that more had been durable.
Result<void> Replay::check_nothing_lost(size_t index, SegmentScan& scan) {
  const Traces here = PENSTOCK_TRY(scan.traces_from(segments_[index]->end));
  uint64_t synced = here.synced;
  for (size_t i = index + 1; i < segments_.size(); ++i) {
    if (segments_[i]->damage) return *segments_[i]->damage;
    SegmentScan behind(*segments_[i]);
    const Traces traces = PENSTOCK_TRY(behind.traces_from(kSegmentHeaderBytes));
    synced = std::max({synced, traces.synced, segments_[i]->header.synced});
  }
  const uint64_t held = std::max(last_, committed_);
  if (synced > held) {
    return lost(held + 1, synced,
                fmt::format("they had been made durable, and segment {:x} is damaged at {}",
                            segments_[index]->header.number, segments_[index]->end));
  }
  const Segment& segment = *segments_[index];
  answer_.resumable = !here.any && last_ >= committed_ && segment.bytes == segment.header.bytes;
  return {};
}

// False: the chain ends here.
Result<bool> Replay::walk(size_t index) {
  Segment& segment = *segments_[index];
  // Headers are durable before anything else is: no power cut leaves one so.
  if (segment.damage) return *segment.damage;
  if (index + 1 < segments_.size() && segments_[index + 1]->damage) {
    return *segments_[index + 1]->damage;
  }
  proved_ = std::max(proved_, segment.header.synced);
  SegmentScan scan(segment);
  PENSTOCK_TRY(walk_records(index, scan));
  if (first_behind(index) <= last_) {
    return make_error(
        ErrorCode::kCorrupt,
        fmt::format("segment {:x} of the journal begins with record {}, which is in an "
                    "earlier one too",
                    segments_[index + 1]->header.number, first_behind(index)));
  }
  if (ends_where_next_begins(index)) return true;
  PENSTOCK_TRY(check_nothing_lost(index, scan));
  return false;
}

std::vector<Replayed::Range> Replay::unproved() const {
  std::vector<Replayed::Range> ranges;
  for (size_t i = answer_.needed; i < answer_.kept; ++i) {
    const Segment& segment = *segments_[i];
    // Committed ones too: those behind them are found only through them.
    if (segment.last <= proved_ || segment.end == kSegmentHeaderBytes) continue;
    Replayed::Range range{i, kSegmentHeaderBytes, segment.end};
    for (const Spot& spot : spots_) {
      if (spot.segment == i && spot.sequence <= proved_ + 1) range.begin = spot.offset;
    }
    ranges.push_back(range);
  }
  return ranges;
}

Result<Replayed> Replay::run() {
  answer_.last = committed_;
  if (segments_.empty()) return answer_;
  answer_.needed = first_needed();
  for (size_t i = 0; i < answer_.needed; ++i) segments_[i]->last = committed_;
  PENSTOCK_TRY(check_begin(*segments_[answer_.needed]));
  last_ = segments_[answer_.needed]->header.first - 1;
  answer_.kept = answer_.needed;
  bool more = true;
  while (more) {
    more = PENSTOCK_TRY(walk(answer_.kept));
    ++answer_.kept;
  }
  answer_.last = std::max(last_, committed_);
  answer_.unproved = unproved();
  return answer_;
}

}  // namespace

Result<Replayed> replay_segments(const std::vector<SegmentRef>& segments, uint64_t committed,
                                 const Journal::Visit& visit,
                                 const std::function<void(uint64_t, int64_t)>& heard) {
  return Replay(segments, committed, visit, heard).run();
}

}  // namespace penstock::volume
