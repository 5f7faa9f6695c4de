// Taking over the journal that was found.
#include <fmt/core.h>

#include <algorithm>

#include "volume/journal_impl.h"

namespace penstock::volume {

namespace {

constexpr uint64_t kChunkBytes = kMiB;

Result<void> rewrite_range(io::File& file, const Replayed::Range& range) {
  std::vector<std::byte> chunk(std::min(kChunkBytes, range.end - range.begin));
  for (uint64_t at = range.begin; at < range.end; at += chunk.size()) {
    const auto part = std::span(chunk).first(std::min<uint64_t>(chunk.size(), range.end - at));
    const size_t got = PENSTOCK_TRY(file.read(at, part));
    if (got < part.size()) {
      return make_error(ErrorCode::kIo,
                        "a segment of the journal became shorter while it was read");
    }
    PENSTOCK_TRY(file.write(at, part));
  }
  return {};
}

}  // namespace

Result<void> Journal::Impl::replay(uint64_t committed, const Visit& visit, const Keep& keep) {
  const Lock turn(turn_);
  {
    const Lock state(state_);
    if (replay_begun_ || committed == UINT64_MAX) {
      return make_error(ErrorCode::kInvalid, replay_begun_ ? "a journal is replayed once"
                                                           : "no such record is committed");
    }
    replay_begun_ = true;
  }
  // Nobody else uses any of it before replayed_ is set.
  const std::vector<SegmentRef> segments = std::move(segments_);
  const Replayed replayed = PENSTOCK_TRY(replay_segments(
      segments, committed, visit,
      [this](uint64_t sequence, int64_t time_ns) { ages_.note(sequence, time_ns); }));
  PENSTOCK_TRY(rewrite(segments, replayed));
  PENSTOCK_TRY(take_spares());
  PENSTOCK_TRY(tidy(segments, replayed, committed, keep));
  if (replayed.resumable) current_ = segments[replayed.kept - 1];
  const Lock state(state_);
  last_ = synced_ = replayed.last;
  released_ = committed;
  ages_.forget(committed);
  replayed_ = true;
  return {};
}

// The dead process may have had syncs that failed, after which the pages look clean: a mere sync
// would promise what is not on the drive. The same bytes in the same place change nothing, whatever
// of it a power cut keeps.
Result<void> Journal::Impl::rewrite(const std::vector<SegmentRef>& segments,
                                    const Replayed& replayed) {
  for (const Replayed::Range& range : replayed.unproved) {
    io::File& file = *segments[range.segment]->file;
    PENSTOCK_TRY(rewrite_range(file, range));
    PENSTOCK_TRY(final_sync(file.data_sync()));
  }
  return {};
}

Result<void> Journal::Impl::take_spares() {
  for (const uint64_t number : found_.unfinished) {
    PENSTOCK_TRY(files_.remove(kUnfinishedPrefix, number));
  }
  std::vector<Spare> spares;
  const size_t room = room_for_spares();
  for (const uint64_t number : found_.spares) {
    const Result<uint64_t> bytes = files_.spare_bytes(number);
    if (!bytes.ok() && bytes.error().code == ErrorCode::kNotFound) continue;
    if (!bytes.ok()) return bytes.error();
    if (*bytes == options_.segment_bytes && spares.size() < room) {
      spares.push_back({number, nullptr});
    } else {
      PENSTOCK_TRY(files_.remove(kSparePrefix, number));
    }
  }
  const Lock state(state_);
  spares_ = std::move(spares);
  next_number_ = found_.highest() + 1;
  return {};
}

// What counts for nothing must have lost its name before a record is written that takes its place.
Result<void> Journal::Impl::tidy(const std::vector<SegmentRef>& segments, const Replayed& replayed,
                                 uint64_t committed, const Keep& keep) {
  std::map<uint64_t, SegmentRef> live;
  std::vector<SegmentRef> aside;
  for (size_t i = 0; i < segments.size(); ++i) {
    const uint64_t number = segments[i]->header.number;
    const bool counts = i < replayed.kept;
    const bool needed = segments[i]->last > committed || i + 1 == replayed.kept;
    if (counts && (needed || (keep && keep(number)))) {
      live[number] = segments[i];
    } else {
      aside.push_back(segments[i]);
    }
  }
  // Also when there is none: the dead process may not have come to sync the names that it made.
  PENSTOCK_TRY(put_aside(aside));
  const Lock state(state_);
  live_ = std::move(live);
  return {};
}

}  // namespace penstock::volume
