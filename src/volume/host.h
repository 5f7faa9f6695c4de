// The inside of a Host: who owns the database, the journal and the store, and keeps them in step.
//
// Locks: turn_ is held while an operation is applied and recorded, so that both happen in one
// order, and over a commit. Metadata is read without it. Nothing else is taken for long inside it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "penstock/volume.h"
#include "volume/content_reader.h"
#include "volume/frame_cache.h"
#include "volume/journal.h"
#include "volume/merger.h"
#include "volume/mover.h"
#include "volume/operation.h"
#include "volume/read_ahead.h"
#include "volume/volume_metrics.h"

namespace penstock::volume {

class Gc;

class HostImpl final : public Host, public std::enable_shared_from_this<HostImpl> {
 public:
  HostImpl(io::FileSystem& fs, std::string directory, const HostOptions& options);
  ~HostImpl() override;

  // host_open.cc
  Result<void> make(const NewVolume& volume);
  Result<void> open();

  Result<std::vector<std::string>> volumes() override;
  Result<std::shared_ptr<Volume>> open(std::string_view name) override;
  Result<meta::Version> commit() override;
  Result<void> drain(Deadline deadline, const std::function<void(const Pending&)>& progress,
                     const std::stop_token& cancel) override;
  Result<HostStatus> status() override;
  void note_metrics() override;
  Result<void> set_settings(std::string_view volume, const meta::Settings& settings) override;
  Result<void> clone(std::string_view volume, meta::Version version,
                     std::string_view name) override;
  Result<void> remove(std::string_view volume) override;
  Result<GcReport> gc(const GcOptions& options) override;
  Result<FsckReport> fsck(const FsckOptions& options) override;
  meta::Database& database() override { return *database_; }

  // For volumes.
  Result<Outcome> perform(meta::Namespace& names, const VolumeUuid& volume, Action action);
  // One piece: at most piece_bytes().
  Result<void> write(meta::Namespace& names, const VolumeUuid& volume, meta::Ino ino,
                     uint64_t offset, std::span<const std::byte> bytes);
  Result<void> sync();
  Result<size_t> read(meta::View& view, meta::Ino ino, uint64_t offset, std::span<std::byte> into);
  Result<Pieces> read_pieces(meta::View& view, meta::Ino ino, uint64_t offset,
                             std::span<std::byte> scratch);
  void prefetch(meta::View& view, meta::Ino ino, uint64_t offset, uint64_t length);
  meta::Time now() const;

  // Of content in one record of the journal, of which several fit in a segment.
  size_t piece_bytes() const { return std::min<uint64_t>(kMiB, options_.segment_bytes / 4); }

 private:
  using Turn = std::unique_lock<std::mutex>;

  std::string path_of(const char* name) const { return directory_ + "/" + name; }
  uint64_t journal_limit_bytes() const {
    return std::max(options_.writeback.journal_bytes, 2 * options_.segment_bytes);
  }

  // host_open.cc
  Result<void> take_lock();
  Result<void> read_marker();
  Result<void> open_store(const std::string& address);
  Result<void> give_root_away(const std::string& volume);
  Result<void> open_journal();
  Result<void> open_parts(const meta::SqliteOptions& options);
  Result<void> replay();
  Result<void> replay_one(const JournalPlace& place, std::span<const std::byte> record,
                          std::span<const std::byte> content);
  Result<void> collect_nameless();
  Result<meta::Namespace*> names_of(const VolumeUuid& volume);
  void start();

  // host_upkeep.cc
  Gc collector();
  Result<std::vector<std::string>> repair_counts();
  Result<void> sweep(const FsckOptions& options, FsckReport& report);

  // host.cc
  Result<void> check_usable(const Turn& turn) const;
  Error fail(const Turn& turn, const Error& error);
  Turn take_turn();
  Result<void> record(const Turn& turn, const Operation& operation);
  Result<meta::Version> commit_turn(const Turn& turn);
  Result<void> know_segment(uint64_t segment);
  Result<void> forget_segments(const Turn& turn);
  Result<void> wait_for_room(Deadline deadline);
  void note_room();
  void load_ahead(const std::vector<meta::Extent>& extents);
  Result<Pending> pending();
  void run_committer();

  io::FileSystem& fs_;
  const std::string directory_;
  const HostOptions options_;
  VolumeMetrics& metrics_ = VolumeMetrics::global();
  HostGauges gauges_;
  VolumeUuid space_{};
  std::unique_ptr<io::FileLock> lock_;
  std::unique_ptr<meta::Database> database_;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<store::ObjectStore> store_;
  std::unique_ptr<FrameCache> frames_;
  std::unique_ptr<ContentReader> reader_;
  std::unique_ptr<Packer> packer_;
  std::unique_ptr<Merger> merger_;
  std::unique_ptr<Mover> mover_;

  ReadAhead object_ahead_;

  std::mutex turn_;
  std::optional<Error> failed_;                                   // Under turn_.
  std::map<VolumeUuid, std::unique_ptr<meta::Namespace>> names_;  // Under turn_.
  std::set<uint64_t> segments_;  // Under turn_: those the database knows.

  std::mutex open_mutex_;
  std::map<std::string, std::weak_ptr<Volume>, std::less<>> open_;  // Each volume once.

  std::mutex wake_mutex_;
  std::condition_variable wake_;       // The committer.
  std::condition_variable committed_;  // Who waits for room.
  uint64_t commits_ = 0;               // Under wake_mutex_.
  bool hurry_ = false;                 // Likewise: somebody waits for room.
  bool stopping_ = false;              // Likewise.
  std::thread committer_;
  std::atomic<uint64_t> writes_failed_ = 0;  // For want of room, since the last that found some.
};

// The journal's place of `bytes` of content, as the database knows it.
meta::Place place_of(const JournalPlace& place, uint64_t bytes);

}  // namespace penstock::volume
