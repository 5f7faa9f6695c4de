// How a database is made, and found again.
#include <fmt/core.h>
#include <sys/stat.h>

#include "meta/core.h"
#include "meta/volume_rows.h"

namespace penstock::meta {

namespace {

constexpr size_t kCopiedBytes = kMiB;

Result<void> copy_file(io::File& from, io::File& to) {
  std::vector<std::byte> buffer(kCopiedBytes);
  for (uint64_t at = 0;;) {
    const size_t got = PENSTOCK_TRY(from.read(at, buffer));
    if (got == 0) return {};
    PENSTOCK_TRY(to.write(at, std::span(buffer).first(got)));
    at += got;
  }
}

// An owner that died may have left a log whose last sync failed: it can be read, and is not on the
// disk, and a second sync would say that it is. So what is read here is written to a new file first.
Result<void> settle_log(io::FileSystem& fs, const std::string& log) {
  const Result<io::FileInfo> there = fs.stat(log);
  if (!there.ok() && there.error().code == ErrorCode::kNotFound) return {};
  if (!there.ok()) return there.error();
  if (there->size == 0) return {};
  const std::string copy = log + ".tmp";
  {
    const auto from = PENSTOCK_TRY(fs.open(log, {}));
    const auto to = PENSTOCK_TRY(fs.open(
        copy,
        {.access = io::Access::kWrite, .create = io::Create::kTruncate, .permissions = 0600}));
    PENSTOCK_TRY(copy_file(*from, *to));
    PENSTOCK_TRY(to->sync());
    PENSTOCK_TRY(to->close());
  }
  PENSTOCK_TRY(fs.rename(copy, log));
  return fs.sync_directory(io::parent_path(log));
}

}  // namespace

Result<void> Core::connect(const SqliteOptions& options) {
  if (options.create) PENSTOCK_TRY(check_settings(*options.create));
  PENSTOCK_TRY(settle_log(vfs_.fs(), vfs_.path() + "-wal"));
  const int flags = SQLITE_OPEN_READWRITE | (options.create ? SQLITE_OPEN_CREATE : 0);
  db_ = PENSTOCK_TRY(Connection::open(vfs_, flags));
  PENSTOCK_TRY(prepare_connection(*db_, options.cache_bytes));
  const Found found = PENSTOCK_TRY(look_at(*db_));
  if (options.create && found == Found::kOurs)
    return make_error(ErrorCode::kExists, "there is a database of volumes already");
  if (!options.create && found == Found::kNothing)
    return make_error(ErrorCode::kNotFound, "it is empty: its making was not finished");
  PENSTOCK_TRY(use_log(*db_));
  PENSTOCK_TRY(db_->run("BEGIN IMMEDIATE"));
  if (options.create) PENSTOCK_TRY(make(options));
  PENSTOCK_TRY(load());
  return start_session();
}

Result<void> Core::make(const SqliteOptions& options) {
  PENSTOCK_TRY(make_tables(*db_));
  const VolumeId id = PENSTOCK_TRY(add_volume(*db_, *options.create, kFirstVersion));
  PENSTOCK_TRY(db_->run("INSERT INTO usage VALUES(?, ?, 0, 1)", id, kFirstVersion));
  PENSTOCK_TRY(
      db_->run("INSERT INTO inode(volume, ino, died, born, mode, uid, gid, links, rdev, size, "
               "allocated, atime, mtime, ctime, data_version, parent) "
               "VALUES(?1, ?2, " PENSTOCK_LIVE ", ?3, ?4, 0, 0, 2, 0, 0, 0, ?5, ?5, ?5, 0, ?2)",
               id, kRoot, kFirstVersion, S_IFDIR | 0755, options.now));
  PENSTOCK_TRY(db_->run("INSERT INTO version VALUES(?, ?, 0)", kFirstVersion, options.now));
  PENSTOCK_TRY(db_->run("UPDATE counter SET version = ?, time = ?", kFirstVersion, options.now));
  return {};
}

Result<void> Core::load() {
  {
    Query query = db_->query("SELECT version, time, journal, ino, cookie, chunk FROM counter");
    if (!PENSTOCK_TRY(query.next()))
      return make_error(ErrorCode::kCorrupt, "the counters are missing");
    last_ = query.number(0);
    last_time_ = query.integer(1);
    journal_.sequence = query.number(2);
    next_ = {query.number(3), query.number(4), query.number(5)};
  }
  return load_volumes();
}

Result<void> Core::load_volumes() {
  for (Volume& volume : PENSTOCK_TRY(read_volumes(*db_))) {
    if (!volume.removed) {
      volume.totals = PENSTOCK_TRY(read_usage(*db_, volume.id, last_));
      volume.committed = volume.totals;
    }
    const VolumeId id = volume.id;
    volumes_[id] = std::make_shared<Volume>(std::move(volume));
  }
  return {};
}

// Durable before anybody learns of it.
Result<void> Core::start_session() {
  {
    Query query = db_->query("SELECT coalesce(max(id), 0) + 1 FROM session");
    PENSTOCK_TRY(query.next());
    session_ = query.small(0);
  }
  PENSTOCK_TRY(db_->run("INSERT INTO session VALUES(?, ?)", session_, last_));
  PENSTOCK_TRY(db_->run("COMMIT"));
  return go_on();
}

}  // namespace penstock::meta
