#include "meta/schema.h"

#include <fmt/core.h>

namespace penstock::meta {

namespace {

constexpr uint64_t kCompatible = 0;
constexpr uint64_t kReadOnlyCompatible = 0;
constexpr uint64_t kIncompatible = 0;
constexpr uint64_t kLogBytesKept = 64 * kMiB;

// Of the database as a whole.
constexpr const char* kWholeTables = R"(
CREATE TABLE format(compatible INTEGER NOT NULL, read_only_compatible INTEGER NOT NULL,
                    incompatible INTEGER NOT NULL);
CREATE TABLE counter(version INTEGER NOT NULL, time INTEGER NOT NULL, journal INTEGER NOT NULL,
                     ino INTEGER NOT NULL, cookie INTEGER NOT NULL, chunk INTEGER NOT NULL);
CREATE TABLE session(id INTEGER PRIMARY KEY, version INTEGER NOT NULL);
CREATE TABLE version(id INTEGER PRIMARY KEY, time INTEGER NOT NULL, journal INTEGER NOT NULL);
CREATE INDEX version_time ON version(time);
CREATE TABLE volume(id INTEGER PRIMARY KEY, uuid BLOB NOT NULL, name BLOB NOT NULL,
                    block_bytes INTEGER NOT NULL, codec INTEGER NOT NULL, level INTEGER NOT NULL,
                    retention INTEGER, store BLOB NOT NULL, quota_bytes INTEGER NOT NULL,
                    quota_inodes INTEGER NOT NULL, horizon INTEGER NOT NULL,
                    removed INTEGER NOT NULL);
CREATE UNIQUE INDEX volume_name ON volume(name) WHERE removed = 0;
CREATE TABLE usage(volume INTEGER NOT NULL, version INTEGER NOT NULL, bytes INTEGER NOT NULL,
                   inodes INTEGER NOT NULL, PRIMARY KEY(volume, version)) WITHOUT ROWID;
CREATE TABLE snapshot(volume INTEGER NOT NULL, name BLOB NOT NULL, version INTEGER NOT NULL,
                      time INTEGER NOT NULL, PRIMARY KEY(volume, name)) WITHOUT ROWID;
)";

// Of namespaces: rows that live over [born, died).
constexpr const char* kNamespaceTables = R"(
CREATE TABLE inode(volume INTEGER NOT NULL, ino INTEGER NOT NULL, died INTEGER NOT NULL,
                   born INTEGER NOT NULL, mode INTEGER NOT NULL, uid INTEGER NOT NULL,
                   gid INTEGER NOT NULL, links INTEGER NOT NULL, rdev INTEGER NOT NULL,
                   size INTEGER NOT NULL, allocated INTEGER NOT NULL, atime INTEGER NOT NULL,
                   mtime INTEGER NOT NULL, ctime INTEGER NOT NULL, data_version INTEGER NOT NULL,
                   parent INTEGER NOT NULL, target BLOB,
                   PRIMARY KEY(volume, ino, died)) WITHOUT ROWID;
CREATE INDEX inode_dead ON inode(volume, died) WHERE died < 9223372036854775807;
CREATE INDEX inode_nameless ON inode(volume, died) WHERE links = 0;
CREATE TABLE entry(volume INTEGER NOT NULL, parent INTEGER NOT NULL, name BLOB NOT NULL,
                   died INTEGER NOT NULL, born INTEGER NOT NULL, cookie INTEGER NOT NULL,
                   ino INTEGER NOT NULL, type INTEGER NOT NULL,
                   PRIMARY KEY(volume, parent, name, died)) WITHOUT ROWID;
CREATE INDEX entry_live ON entry(volume, parent, cookie, ino, type, born)
  WHERE died = 9223372036854775807;
CREATE INDEX entry_past ON entry(volume, parent, cookie) WHERE died < 9223372036854775807;
CREATE INDEX entry_dead ON entry(volume, died) WHERE died < 9223372036854775807;
CREATE TABLE xattr(id INTEGER PRIMARY KEY, volume INTEGER NOT NULL, ino INTEGER NOT NULL,
                   name BLOB NOT NULL, died INTEGER NOT NULL, born INTEGER NOT NULL,
                   value BLOB NOT NULL);
CREATE UNIQUE INDEX xattr_name ON xattr(volume, ino, name, died);
CREATE INDEX xattr_dead ON xattr(volume, died) WHERE died < 9223372036854775807;
CREATE TABLE extent(volume INTEGER NOT NULL, ino INTEGER NOT NULL, died INTEGER NOT NULL,
                    offset INTEGER NOT NULL, length INTEGER NOT NULL, chunk INTEGER NOT NULL,
                    chunk_offset INTEGER NOT NULL, born INTEGER NOT NULL,
                    PRIMARY KEY(volume, ino, died, offset)) WITHOUT ROWID;
CREATE INDEX extent_past ON extent(volume, ino, offset) WHERE died < 9223372036854775807;
CREATE INDEX extent_zeros ON extent(volume, ino, died)
  WHERE died < 9223372036854775807 AND chunk = 0;
CREATE INDEX extent_dead ON extent(volume, died) WHERE died < 9223372036854775807;
)";

// Where content is. Extents never get another chunk: they die, and others are born.
constexpr const char* kContentTables = R"(
CREATE TABLE object(session INTEGER NOT NULL, number INTEGER NOT NULL, kind INTEGER NOT NULL,
                    state INTEGER NOT NULL, bytes INTEGER NOT NULL, live_bytes INTEGER NOT NULL,
                    changed INTEGER NOT NULL, PRIMARY KEY(session, number)) WITHOUT ROWID;
CREATE INDEX object_journal ON object(session, number) WHERE kind = 1;
CREATE TABLE chunk(id INTEGER PRIMARY KEY, session INTEGER NOT NULL, number INTEGER NOT NULL,
                   offset INTEGER NOT NULL, stored INTEGER NOT NULL, raw INTEGER NOT NULL,
                   codec INTEGER NOT NULL, checksum INTEGER NOT NULL, refs INTEGER NOT NULL);
CREATE INDEX chunk_place ON chunk(session, number, offset);
CREATE INDEX chunk_free ON chunk(id) WHERE refs = 0;
CREATE TRIGGER extent_gone AFTER DELETE ON extent WHEN OLD.chunk <> 0 BEGIN
  UPDATE chunk SET refs = refs - 1 WHERE id = OLD.chunk;
END;
CREATE TRIGGER chunk_used AFTER UPDATE OF refs ON chunk WHEN OLD.refs = 0 AND NEW.refs > 0 BEGIN
  UPDATE object SET live_bytes = live_bytes + NEW.stored
    WHERE session = NEW.session AND number = NEW.number;
END;
CREATE TRIGGER chunk_unused AFTER UPDATE OF refs ON chunk WHEN OLD.refs > 0 AND NEW.refs = 0 BEGIN
  UPDATE object SET live_bytes = live_bytes - NEW.stored
    WHERE session = NEW.session AND number = NEW.number;
END;
CREATE TRIGGER chunk_moved AFTER UPDATE OF session, number, stored ON chunk WHEN NEW.refs > 0 BEGIN
  UPDATE object SET live_bytes = live_bytes - OLD.stored
    WHERE session = OLD.session AND number = OLD.number;
  UPDATE object SET live_bytes = live_bytes + NEW.stored
    WHERE session = NEW.session AND number = NEW.number;
END;
)";

Error not_ours() {
  return make_error(ErrorCode::kCorrupt, "this is no database of volumes");
}

Result<void> check_features(Connection& db) {
  Query query = db.query("SELECT compatible, read_only_compatible, incompatible FROM format");
  if (!PENSTOCK_TRY(query.next())) return not_ours();
  // What only readers could do is no use to an owner.
  const uint64_t unknown =
      (query.number(1) & ~kReadOnlyCompatible) | (query.number(2) & ~kIncompatible);
  if (unknown == 0) return {};
  return make_error(
      ErrorCode::kUnsupported,
      fmt::format("a newer version of Penstock made this database (features {:#x} are "
                  "not known here): use that version, or a newer one",
                  unknown));
}

}  // namespace

Result<void> prepare_connection(Connection& db, uint64_t cache_bytes) {
  int reserved = kPageReservedBytes;
  sqlite3_file_control(db.handle(), "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved);
  // First that nobody else has it: without shared memory a log could not even be read otherwise.
  return db.script(fmt::format(
      "PRAGMA locking_mode = EXCLUSIVE; PRAGMA page_size = {}; PRAGMA auto_vacuum = NONE;"
      "PRAGMA temp_store = MEMORY; PRAGMA cache_size = -{}; PRAGMA secure_delete = OFF;"
      "PRAGMA synchronous = FULL; PRAGMA cell_size_check = ON;"
      "PRAGMA journal_size_limit = {}; PRAGMA foreign_keys = OFF; PRAGMA trusted_schema = OFF;",
      kPageBytes, std::max<uint64_t>(cache_bytes / kKiB, 256), kLogBytesKept));
}

Result<Found> look_at(Connection& db) {
  const int64_t tables = PENSTOCK_TRY(db.value("SELECT count(*) FROM sqlite_schema"));
  const int64_t application = PENSTOCK_TRY(db.value("PRAGMA application_id"));
  if (application == 0 && tables == 0) return Found::kNothing;
  if (application != kApplicationId) return not_ours();
  const int64_t page_bytes = PENSTOCK_TRY(db.value("PRAGMA page_size"));
  if (page_bytes != kPageBytes) return not_ours();
  PENSTOCK_TRY(check_features(db));
  return Found::kOurs;
}

Result<void> use_log(Connection& db) {
  PENSTOCK_TRY(db.script("PRAGMA journal_mode = WAL"));
  return {};
}

Result<void> make_tables(Connection& db) {
  PENSTOCK_TRY(db.script(kWholeTables));
  PENSTOCK_TRY(db.script(kNamespaceTables));
  PENSTOCK_TRY(db.script(kContentTables));
  return db.script(fmt::format(
      "PRAGMA application_id = {}; PRAGMA user_version = 1; INSERT INTO format VALUES({}, {}, {});"
      "INSERT INTO counter VALUES(0, 0, 0, {}, 1, 1);",
      kApplicationId, kCompatible, kReadOnlyCompatible, kIncompatible, kRoot + 1));
}

}  // namespace penstock::meta
