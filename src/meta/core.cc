#include "meta/core.h"

#include <fmt/core.h>

#include <cerrno>

#include "base/log.h"

namespace penstock::meta {

namespace {

// Beyond it the log is brought into the database after a commit.
constexpr uint64_t kLogBytesMax = 32 * kMiB;

}  // namespace

Core::~Core() {
  if (db_ == nullptr || broken_) return;
  // What was not committed goes, as it would with the power.
  if (db_->in_transaction() && !db_->script("ROLLBACK").ok()) return;
  const Result<void> closed = db_->close();
  if (!closed.ok())
    log_warn("closing the metadata failed", {{"error", closed.error().to_string()}});
}

Error Core::broken_error() const {
  Error error = *broken_;
  error.code = ErrorCode::kIo;
  error.retryable = false;
  if (error.os_errno == 0) error.os_errno = EIO;
  error.detail = fmt::format(
      "the metadata failed earlier, and must be opened again; what was not committed is lost ({})",
      broken_->detail);
  return error;
}

void Core::break_with(const Error& error) {
  if (!broken_) broken_ = error;
}

void Core::look_whether_broken(const Error& error) {
  if (!db_->in_transaction()) break_with(error);
}

void Core::begin_change() {
  pending_ = {.next = next_, .rows = db_->rows_changed()};
}

void Core::end_change() {
  versioned_ = versioned_ || pending_.versioned;
  upkeep_ = upkeep_ || pending_.upkeep;
  if (pending_.volume == nullptr) return;
  pending_.volume->totals.bytes += static_cast<uint64_t>(pending_.bytes);
  pending_.volume->totals.inodes += static_cast<uint64_t>(pending_.inodes);
}

void Core::refuse_change(const Error& error) {
  next_ = pending_.next;
  look_whether_broken(error);
  if (db_->rows_changed() != pending_.rows) break_with(error);
}

Result<void> Core::save() {
  const Result<uint64_t> saved = db_->run("SAVEPOINT change");
  if (saved.ok()) return {};
  look_whether_broken(saved.error());
  return saved.error();
}

Result<void> Core::release() {
  const Result<uint64_t> released = db_->run("RELEASE change");
  if (released.ok()) return {};
  break_with(released.error());
  return released.error();
}

void Core::undo_change(const Error& error) {
  next_ = pending_.next;
  look_whether_broken(error);
  if (broken_) return;
  const Result<uint64_t> undone = db_->run("ROLLBACK TO change");
  if (undone.ok()) {
    (void)release();
  } else {
    break_with(undone.error());
  }
}

void Core::note_totals(Volume& volume, int64_t bytes, int64_t inodes) {
  pending_.volume = &volume;
  pending_.bytes += bytes;
  pending_.inodes += inodes;
}

Result<void> Core::check_quota(const Volume& volume, uint64_t bytes, uint64_t inodes) const {
  // Without a quota too there is a number that no sum may exceed.
  const auto limit_of = [](uint64_t quota) { return quota != 0 ? quota : kFileBytesMax; };
  const auto exceeds = [](uint64_t used, uint64_t more, uint64_t limit) {
    return more != 0 && (used >= limit || more > limit - used);
  };
  const uint64_t bytes_max = limit_of(volume.settings.quota.bytes);
  if (exceeds(volume.totals.bytes, bytes, bytes_max))
    return posix_error(ENOSPC, fmt::format("the volume's quota of {}", format_size(bytes_max)));
  const uint64_t inodes_max = limit_of(volume.settings.quota.inodes);
  if (exceeds(volume.totals.inodes, inodes, inodes_max))
    return posix_error(ENOSPC, fmt::format("the volume's quota of {} inodes", inodes_max));
  return {};
}

Result<Ino> Core::take_ino(Ino wanted) {
  if (wanted < next_.ino || wanted > kInoMax)
    return make_error(ErrorCode::kInvalid,
                      fmt::format("inode {} cannot be made: its number was given before, or is "
                                  "none (the next one is {})",
                                  wanted, next_.ino));
  next_.ino = wanted + 1;
  return wanted;
}

bool Core::raise_counters(const Counters& least) {
  const Counters before = next_;
  next_.ino = std::max(next_.ino, least.ino);
  next_.cookie = std::max(next_.cookie, least.cookie);
  next_.chunk = std::max(next_.chunk, least.chunk);
  return next_.ino != before.ino || next_.cookie != before.cookie || next_.chunk != before.chunk;
}

Result<std::shared_ptr<Volume>> Core::volume(std::string_view name) {
  for (const auto& [id, volume] : volumes_) {
    if (!volume->removed && volume->settings.name == name) return volume;
  }
  return make_error(ErrorCode::kNotFound, fmt::format("there is no volume {}", name));
}

Version Core::horizon() const {
  Version oldest = last_;
  for (const auto& [id, volume] : volumes_) {
    if (!volume->removed) oldest = std::min(oldest, volume->horizon);
  }
  return oldest;
}

JournalPosition Core::journal() {
  std::lock_guard turn(mutex_);
  return journal_;
}

Version Core::last_version() {
  std::lock_guard turn(mutex_);
  return last_;
}

Result<void> Core::write_version(Time now, JournalPosition journal) {
  PENSTOCK_TRY(db_->run("INSERT INTO version VALUES(?, ?, ?)", current(), now, journal.sequence));
  for (const auto& [id, volume] : volumes_) {
    const Totals& totals = volume->totals;
    if (volume->removed || totals == volume->committed) continue;
    PENSTOCK_TRY(db_->run("INSERT OR REPLACE INTO usage VALUES(?, ?, ?, ?)", id, current(),
                          totals.bytes, totals.inodes));
  }
  return {};
}

Result<void> Core::write_counters(Version version, Time time, JournalPosition journal) {
  PENSTOCK_TRY(db_->run(
      "UPDATE counter SET version = ?, time = ?, journal = ?, ino = ?, cookie = ?, chunk = ?",
      version, time, journal.sequence, next_.ino, next_.cookie, next_.chunk));
  PENSTOCK_TRY(db_->run("COMMIT"));
  return {};
}

// After a commit: whatever fails here, the commit is there.
Result<void> Core::go_on() {
  if (db_->log_bytes() > kLogBytesMax) PENSTOCK_TRY(db_->checkpoint());
  PENSTOCK_TRY(db_->run("BEGIN IMMEDIATE"));
  return {};
}

Result<Version> Core::commit(const Commit& commit) {
  std::lock_guard turn(mutex_);
  if (broken_) return broken_error();
  const JournalPosition journal{std::max(journal_.sequence, commit.journal.sequence)};
  if (!versioned_ && !upkeep_ && journal.sequence == journal_.sequence) return last_;
  const Version version = versioned_ ? current() : last_;
  const Time time = versioned_ ? std::max(last_time_, commit.now) : last_time_;
  Result<void> written = versioned_ ? write_version(time, journal) : Result<void>();
  if (written.ok()) written = write_counters(version, time, journal);
  if (!written.ok()) {
    break_with(written.error());
    return written.error();
  }
  last_ = version;
  last_time_ = time;
  journal_ = journal;
  versioned_ = upkeep_ = false;
  for (const auto& [id, volume] : volumes_) volume->committed = volume->totals;
  // Told by the next call: this one has done what it was asked for.
  const Result<void> on = go_on();
  if (!on.ok()) break_with(on.error());
  return version;
}

}  // namespace penstock::meta
