#include "volume/host.h"

#include <fmt/core.h>

#include <cerrno>

#include "base/log.h"
#include "base/waiting.h"
#include "volume/pending_age.h"
#include "volume/volume.h"

namespace penstock::volume {

namespace {

constexpr uint64_t kPurgedByCommit = 20'000;  // With each commit, so that others get their turn.
constexpr int kReadAttempts = 5;
constexpr uint64_t kSmallBytes = kMiB;  // Of a chunk of a file that may have small neighbours.
constexpr size_t kChunksAhead = 1024;

// The file is there, whatever became of its content: that an object is missing, or may not be read,
// is not to be taken for an answer about the file.
Error content_error(Error error) {
  if (error.code == ErrorCode::kNoMemory || error.code == ErrorCode::kCancelled) return error;
  if (error.code == ErrorCode::kNotFound) error.code = ErrorCode::kCorrupt;
  error.os_errno = EIO;
  return error;
}

}  // namespace

meta::Place place_of(const JournalPlace& place, uint64_t bytes) {
  return {.object = journal_object(place.segment),
          .offset = place.offset,
          .stored = place.bytes,
          .raw = bytes,
          .codec = codec::Codec::kNone,
          .checksum = place.sequence};
}

HostImpl::HostImpl(io::FileSystem& fs, std::string directory, const HostOptions& options)
    : fs_(fs), directory_(std::move(directory)), options_(options), gauges_(directory_) {}

HostImpl::~HostImpl() {
  // Where it fails, that is what the journal is for.
  if (options_.drain_on_close && committer_.joinable()) (void)drain(kNoDeadline, {}, {});
  if (mover_) mover_->stop();
  {
    const std::lock_guard lock(wake_mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (committer_.joinable()) {
    committer_.join();
    (void)commit();  // So that the next owner has nothing to replay.
  }
  if (lock_) gauges_.clear();  // Otherwise it is somebody else's.
}

HostImpl::Turn HostImpl::take_turn() {
  const WaitingFor wait("its turn: another change, or a commit, is under way");
  return Turn(turn_);
}

meta::Time HostImpl::now() const {
  if (options_.now) return options_.now();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Result<void> HostImpl::check_usable(const Turn&) const {
  if (failed_) return *failed_;
  return {};
}

// Nothing is committed from here on: what the database has applied may not be in the journal.
Error HostImpl::fail(const Turn&, const Error& error) {
  if (!failed_) {
    log_error("the volume accepts nothing any more: mount it again once the cause is mended",
              {{"directory", directory_}, {"error", error.to_string()}});
    failed_ = make_error(ErrorCode::kIo, error.detail);
    failed_->os_errno = EIO;
    gauges_.failed.set(1);
  }
  return *failed_;
}

Result<Outcome> HostImpl::perform(meta::Namespace& names, const VolumeUuid& volume, Action action) {
  const Operation operation{volume, now(), std::move(action)};
  const Turn turn = take_turn();
  PENSTOCK_TRY(check_usable(turn));
  Outcome outcome = PENSTOCK_TRY(apply(names, operation, {}));
  PENSTOCK_TRY(record(turn, operation));
  return outcome;
}

// The operation was applied: it must be safe before it is answered.
Result<void> HostImpl::record(const Turn& turn, const Operation& operation) {
  const Result<JournalPlace> place = journal_->append(encode_operation(operation));
  if (place.ok()) return {};
  // The journal is full, or its drive: a commit keeps it just as well.
  if (place.error().code == ErrorCode::kIo) return fail(turn, place.error());
  const Result<meta::Version> committed = commit_turn(turn);
  if (!committed.ok()) return committed.error();
  return {};
}

Result<void> HostImpl::write(meta::Namespace& names, const VolumeUuid& volume, meta::Ino ino,
                             uint64_t offset, std::span<const std::byte> bytes) {
  const Operation operation{volume, now(), WriteOp{ino, offset}};
  const std::vector<std::byte> record = encode_operation(operation);
  const Deadline deadline = deadline_in(options_.io_timeout);
  while (true) {
    {
      const Turn turn = take_turn();
      PENSTOCK_TRY(check_usable(turn));
      const Result<JournalPlace> place = journal_->append(record, bytes);
      if (place.ok()) {
        PENSTOCK_TRY(know_segment(place->segment));
        const meta::Place there = place_of(*place, bytes.size());
        PENSTOCK_TRY(apply(names, operation, std::span(&there, 1)));
        merger_->note(volume, ino, offset, bytes.size());
        if (writes_failed_.load(std::memory_order_relaxed) > 0) note_room();
        return {};
      }
      if (place.error().code == ErrorCode::kIo) return fail(turn, place.error());
      if (place.error().code != ErrorCode::kBusy) return place.error();
    }
    PENSTOCK_TRY(wait_for_room(deadline));
  }
}

Result<void> HostImpl::know_segment(uint64_t segment) {
  if (segments_.contains(segment)) return {};
  PENSTOCK_TRY(database_->add_object({.id = journal_object(segment),
                                      .kind = meta::ObjectKind::kJournal,
                                      .state = meta::ObjectState::kStored,
                                      .bytes = options_.segment_bytes}));
  segments_.insert(segment);
  return {};
}

Result<void> HostImpl::wait_for_room(Deadline deadline) {
  const WaitingFor wait("room in the journal: its content goes to the store first");
  const RecordedTime time(metrics_.room_wait_seconds);
  mover_->hurry();
  std::unique_lock lock(wake_mutex_);
  const uint64_t before = commits_;
  hurry_ = true;
  wake_.notify_all();
  if (committed_.wait_until(lock, deadline, [&] { return commits_ != before || stopping_; })) {
    return {};
  }
  ++writes_failed_;
  Error error = make_error(ErrorCode::kTimeout,
                           fmt::format("the journal in {} is full, and its content could not be "
                                       "moved to {} in time",
                                       path_of("journal"), store_->description()),
                           true);
  error.os_errno = EIO;
  return error;
}

void HostImpl::note_room() {
  const uint64_t failed = writes_failed_.exchange(0);
  if (failed == 0) return;
  log_warn("the journal has room again: what is written is taken",
           {{"directory", directory_}, {"writes_failed", failed}});
}

Result<void> HostImpl::sync() {
  const Result<void> synced = journal_->sync();
  if (synced.ok()) return {};
  const Turn turn(turn_);
  return fail(turn, synced.error());
}

// What the database will refer to must be durable first.
Result<meta::Version> HostImpl::commit_turn(const Turn& turn) {
  PENSTOCK_TRY(check_usable(turn));
  if (const Result<void> synced = journal_->sync(); !synced.ok()) return fail(turn, synced.error());
  const RecordedTime time(metrics_.commit_seconds);
  const Result<meta::Version> version =
      database_->commit({.now = now(), .journal = {journal_->usage().last}});
  if (!version.ok()) return fail(turn, version.error());
  return *version;
}

Result<meta::Version> HostImpl::commit() {
  // Most of it while others go on.
  PENSTOCK_TRY(sync());
  uint64_t released = 0;
  std::set<uint64_t> needed;
  meta::Version version = 0;
  {
    const Turn turn(turn_);
    PENSTOCK_TRY(check_usable(turn));
    PENSTOCK_TRY(database_->purge(now(), kPurgedByCommit));
    PENSTOCK_TRY(forget_segments(turn));
    version = PENSTOCK_TRY(commit_turn(turn));
    released = database_->journal().sequence;
    needed = segments_;
  }
  const Result<void> done =
      journal_->release(released, [&](uint64_t segment) { return needed.contains(segment); });
  {
    const std::lock_guard lock(wake_mutex_);
    ++commits_;
    hurry_ = false;
  }
  committed_.notify_all();
  if (!done.ok()) {
    const Turn turn(turn_);
    return fail(turn, done.error());
  }
  return version;
}

// Those without content that anything refers to; with the commit that follows nothing will again.
Result<void> HostImpl::forget_segments(const Turn&) {
  if (segments_.empty()) return {};
  for (const meta::Object& object : PENSTOCK_TRY(database_->segments())) {
    if (object.live_bytes > 0) continue;
    PENSTOCK_TRY(database_->set_object(object.id, meta::ObjectState::kCondemned, object.bytes));
    PENSTOCK_TRY(database_->drop_object(object.id));
    segments_.erase(object.id.number);
  }
  return {};
}

void HostImpl::run_committer() {
  set_thread_name("volume-commit");
  std::unique_lock lock(wake_mutex_);
  while (!stopping_) {
    wake_.wait_for(lock, options_.commit_every, [this] { return stopping_ || hurry_; });
    if (stopping_) break;
    lock.unlock();
    const Result<meta::Version> done = commit();
    note_metrics();
    lock.lock();
    // Otherwise who waits for room would make it spin.
    if (!done.ok()) wake_.wait_for(lock, options_.commit_every, [this] { return stopping_; });
  }
}

Result<size_t> HostImpl::read(meta::View& view, meta::Ino ino, uint64_t offset,
                              std::span<std::byte> into) {
  const Pieces found = PENSTOCK_TRY(read_pieces(view, ino, offset, into));
  copy_pieces(found, into);
  return found.bytes;
}

Result<Pieces> HostImpl::read_pieces(meta::View& view, meta::Ino ino, uint64_t offset,
                                     std::span<std::byte> into) {
  Result<Pieces> last = Pieces{};
  for (int attempt = 0; attempt < kReadAttempts; ++attempt) {
    const meta::Inode inode = PENSTOCK_TRY(view.inode(ino));
    if (offset >= inode.size) return Pieces{};
    const auto wanted = into.first(std::min<uint64_t>(into.size(), inode.size - offset));
    const auto extents = PENSTOCK_TRY(view.extents(ino, offset, wanted.size()));
    if (PENSTOCK_TRY(view.inode(ino)).data_version != inode.data_version) continue;
    load_ahead(extents);
    Result<Pieces> found = reader_->find(extents, offset, wanted);
    if (found.ok()) return found;
    last = content_error(found.error());
    // They were moved meanwhile: look again where they are.
    if (found.error().code != ErrorCode::kNotFound) return last;
  }
  return last;
}

// Small files that were written one after the other lie so in an object, and are often read so.
void HostImpl::load_ahead(const std::vector<meta::Extent>& extents) {
  if (extents.size() != 1 || extents.front().chunk == meta::kZeros) return;
  const meta::Place& place = extents.front().place;
  if (is_journal(place.object) || place.raw >= kSmallBytes) return;
  const uint64_t key = uint64_t{place.object.session} << 32 | place.object.number;
  const std::optional<ReadRange> next = object_ahead_.note(key, place.offset, place.stored);
  if (!next) return;
  const auto chunks = database_->chunks_of(place.object, next->offset, kChunksAhead);
  if (!chunks.ok()) return;
  std::vector<meta::Extent> ahead;
  uint64_t bytes = 0;
  for (const meta::Chunk& chunk : *chunks) {
    if (chunk.place.offset >= next->offset + next->length) break;
    if (chunk.references == 0) continue;
    ahead.push_back(
        {.offset = bytes, .length = chunk.place.raw, .chunk = chunk.id, .place = chunk.place});
    bytes += chunk.place.raw;
  }
  reader_->prefetch(ahead, 0, bytes);
}

void HostImpl::prefetch(meta::View& view, meta::Ino ino, uint64_t offset, uint64_t length) {
  const auto extents = view.extents(ino, offset, length);
  if (extents.ok()) reader_->prefetch(*extents, offset, length);
}

Result<Pending> HostImpl::pending() {
  Pending pending;
  for (const meta::Object& object : PENSTOCK_TRY(database_->segments())) {
    pending.content_bytes += object.live_bytes;
  }
  pending.journal_bytes = journal_->usage().bytes;
  if (pending.content_bytes > 0) {
    // What cannot be told does not keep the rest from being so.
    const Result<meta::Time> oldest = oldest_content(*database_, *journal_);
    if (oldest.ok()) pending.oldest = *oldest;
  }
  return pending;
}

Result<void> HostImpl::drain(Deadline deadline, const std::function<void(const Pending&)>& progress,
                             const std::stop_token& cancel) {
  MoveOptions move{.begin_until = deadline, .cancel = cancel};
  if (progress) {
    move.moved = [&] {
      if (const Result<Pending> left = pending(); left.ok()) progress(*left);
    };
  }
  while (true) {
    const Pending left = PENSTOCK_TRY(pending());
    if (progress) progress(left);
    if (left.content_bytes == 0) break;
    if (cancel.stop_requested()) {
      return make_error(ErrorCode::kCancelled, "the caller does not wait for it any more");
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return make_error(ErrorCode::kTimeout,
                        fmt::format("{} wait to be stored in {}", format_size(left.content_bytes),
                                    store_->description()),
                        true);
    }
    PENSTOCK_TRY(mover_->move_all(move));
  }
  PENSTOCK_TRY(commit());
  return {};
}

Result<HostStatus> HostImpl::status() {
  HostStatus status;
  status.pending = PENSTOCK_TRY(pending());
  status.version = database_->last_version();
  status.memory_bytes = frames_->stats().held_bytes;
  meta::ObjectId after{0, UINT32_MAX};
  while (true) {
    const auto objects = PENSTOCK_TRY(database_->objects(after, 10'000));
    if (objects.empty()) return status;
    for (const meta::Object& object : objects) {
      status.stored_bytes += object.bytes;
      status.live_bytes += object.live_bytes;
      ++status.objects;
    }
    after = objects.back().id;
  }
}

Result<std::vector<std::string>> HostImpl::volumes() {
  return database_->volumes();
}

Result<void> HostImpl::set_settings(std::string_view volume, const meta::Settings& settings) {
  const Turn turn(turn_);
  PENSTOCK_TRY(check_usable(turn));
  const auto names = PENSTOCK_TRY(database_->open(volume));
  PENSTOCK_TRY(names->set_settings(settings));
  PENSTOCK_TRY(commit_turn(turn));
  // Objects hold content of all of them, and are packed as the first one says.
  if (PENSTOCK_TRY(database_->volumes()).front() == settings.name) {
    packer_->set_codec(settings.codec);
  }
  return {};
}

Result<void> HostImpl::remove(std::string_view volume) {
  const Turn turn(turn_);
  PENSTOCK_TRY(check_usable(turn));
  PENSTOCK_TRY(database_->remove(volume));
  PENSTOCK_TRY(commit_turn(turn));
  return {};
}

}  // namespace penstock::volume
