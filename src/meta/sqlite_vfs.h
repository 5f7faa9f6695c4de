// SQLite's files on an io::FileSystem, so that tests can fail, count and cut every call it makes.
//
// One object serves one database with one connection: its owner alone uses the files, so locks are
// not taken, and the index of the write-ahead log lies in the heap (locking_mode=EXCLUSIVE).
//
// SQLite knows the database as kDatabaseName, whatever the path is: a path may then be of any bytes.
// A name that was made is durable with the first sync of its file.
//
// Pages of the database carry a checksum in their last eight bytes: xxh3-64 of the others, seeded
// with their offset. One that does not fit is kCorrupt. (Frames of the log have SQLite's own.)
//
// Threads: those of the connection; several objects may be used at once.
#pragma once

#include <sqlite3.h>

#include <optional>
#include <string>

#include "penstock/io.h"

namespace penstock::meta {

inline constexpr int kPageBytes = 4096;
inline constexpr int kPageReservedBytes = 8;  // Of each page, for its checksum.

class SqliteVfs {
 public:
  static constexpr const char* kDatabaseName = "database";

  // `fs` outlives this, and this outlives the connection.
  SqliteVfs(io::FileSystem& fs, std::string path);
  ~SqliteVfs();
  SqliteVfs(const SqliteVfs&) = delete;
  SqliteVfs& operator=(const SqliteVfs&) = delete;

  // For sqlite3_open_v2.
  const char* name() const { return name_.c_str(); }
  const std::string& path() const { return path_; }
  io::FileSystem& fs() { return fs_; }

  // What the file system answered when it failed last, told once: SQLite's codes say less.
  std::optional<Error> take_error();
  // Keeps the error, and gives `code` back.
  int fail(Error error, int code);
  // The file that SQLite calls `name`.
  std::string path_of(const char* name) const;

 private:
  io::FileSystem& fs_;
  const std::string path_;
  const std::string name_;
  std::optional<Error> error_;
  sqlite3_vfs vfs_{};
};

}  // namespace penstock::meta
