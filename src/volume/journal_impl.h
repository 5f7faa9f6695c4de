// The inside of a Journal.
//
// Locks, in this order: turn_ (one appends, or replays), releasing_ (one releases), state_ (never
// held over a call of the file system). What a record claims to be synced was so before it is
// appended; `last_` is raised when the record is written, so whoever syncs covers it.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "volume/journal.h"
#include "volume/journal_ages.h"
#include "volume/journal_files.h"
#include "volume/journal_replay.h"
#include "volume/volume_metrics.h"

namespace penstock::volume {

class Journal::Impl {
 public:
  Impl(io::FileSystem& fs, std::string directory, const JournalOptions& options);

  Result<void> open();
  Result<void> replay(uint64_t committed, const Visit& visit, const Keep& keep);
  Result<JournalPlace> append(std::span<const std::byte> record,
                              std::span<const std::byte> content);
  Result<void> sync();
  Result<void> read(const JournalPlace& place, uint64_t content_offset, std::span<std::byte> into);
  Result<int64_t> time_of(const JournalPlace& place);
  Result<void> release(uint64_t sequence, const Keep& keep);
  Usage usage() const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  using Bytes = std::vector<std::byte>;
  // Keeps a segment from being used again while it is read.
  class Pin;

  Result<void> check_usable(const Lock& state) const;
  // Remembers the failure: nothing is accepted any more. Returns what is to be answered.
  Error fail(const Lock& state, const Error& error);
  // The error, and a final failure if it is one.
  Error refused(const Error& error);
  int64_t now_ns() const;

  // journal_append.cc
  Result<void> make_room(uint64_t total_bytes);
  Result<void> begin_segment();
  Result<JournalPlace> write_record(Bytes& buffer, RecordHeader header);
  static void begin_to_store(Segment& segment);
  Error undo_write(Segment& segment, const Error& error);
  Bytes take_buffer(size_t bytes);
  void give_buffer(Bytes buffer);
  void sync_round(Lock& state);

  // journal_recovery.cc
  Result<void> rewrite(const std::vector<SegmentRef>& segments, const Replayed& replayed);
  Result<void> take_spares();
  Result<void> tidy(const std::vector<SegmentRef>& segments, const Replayed& replayed,
                    uint64_t committed, const Keep& keep);

  // journal_release.cc
  Result<std::vector<SegmentRef>> released_segments(uint64_t sequence);
  std::vector<SegmentRef> mark_leaving(const std::vector<SegmentRef>& segments);
  Result<void> put_aside(const std::vector<SegmentRef>& segments);
  size_t room_for_spares() const;
  Result<Pin> pin(uint64_t number);

  uint64_t live_bytes(const Lock& state) const;

  JournalFiles files_;
  const JournalOptions options_;
  VolumeMetrics& metrics_ = VolumeMetrics::global();

  std::mutex turn_;
  SegmentRef current_;         // Under turn_: appended to. Null: the next append begins a segment.
  JournalFiles::Found found_;  // Under turn_: until replay().
  std::vector<SegmentRef> segments_;  // Under turn_: until replay().

  std::mutex releasing_;

  mutable std::mutex state_;
  std::condition_variable sync_done_;
  // All of the following under state_.
  bool replay_begun_ = false;
  bool replayed_ = false;
  bool syncing_ = false;
  std::optional<Error> failed_;
  std::map<uint64_t, SegmentRef> live_;
  std::vector<Spare> spares_;
  std::vector<Bytes> buffers_;  // To be used again by appends.
  JournalAges ages_;
  uint64_t next_number_ = 1;
  uint64_t last_ = 0;
  uint64_t synced_ = 0;
  uint64_t released_ = 0;
};

}  // namespace penstock::volume
