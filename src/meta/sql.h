// SQLite behind Result: a connection, statements that are prepared once, values by type.
//
//   Query query = db.query("SELECT size FROM inode WHERE ino = ?", ino);
//   while (PENSTOCK_TRY(query.next())) sizes.push_back(query.number(0));
//   PENSTOCK_TRY(db.run("DELETE FROM inode WHERE ino = ?", ino));
//
// Statements are found again by the address of their text: only string literals.
// Errors: what the file system said where it spoke; otherwise SQLITE_FULL is kNoSpace (ENOSPC),
// SQLITE_CORRUPT and SQLITE_NOTADB are kCorrupt, and the rest is kIo (EIO).
// Threads: one at a time.
#pragma once

#include <sqlite3.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "meta/sqlite_vfs.h"
#include "penstock/result.h"

namespace penstock::meta {

class Connection;

// One execution of a statement, with a value for each of its parameters (those of the execution
// before would stay otherwise). What was bound must stay until it is destroyed. Not two of one
// statement at a time.
class Query {
 public:
  struct Prepared {};
  template <typename... Args>
  Query(Connection& connection, const char* sql, const Args&... args)
    requires(!(std::same_as<Args, Prepared> || ...))
      : Query(connection, sql, Prepared{}) {
    if (statement_ == nullptr) return;
    [[maybe_unused]] int at = 0;
    (bind(++at, args), ...);
  }
  ~Query();
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  // The next row; false when there is none.
  Result<bool> next();

  // Of the row, by column from 0 on.
  int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  uint64_t number(int column) const { return static_cast<uint64_t>(integer(column)); }
  uint32_t small(int column) const { return static_cast<uint32_t>(integer(column)); }
  bool null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
  std::string bytes(int column) const;

 private:
  Query(Connection& connection, const char* sql, Prepared);
  template <std::integral T>
  void bind(int at, T value) {
    sqlite3_bind_int64(statement_, at, static_cast<sqlite3_int64>(value));
  }
  template <std::integral T>
  void bind(int at, std::optional<T> value) {
    if (value) return bind(at, *value);
    sqlite3_bind_null(statement_, at);
  }
  void bind(int at, std::string_view value);
  void bind(int at, const std::optional<std::string_view>& value) {
    if (value) return bind(at, *value);
    sqlite3_bind_null(statement_, at);
  }

  Connection& connection_;
  std::optional<Error> error_;  // Why there is no statement. First: preparing one sets it.
  sqlite3_stmt* statement_;
};

class Connection {
 public:
  // `flags` as for sqlite3_open_v2. `vfs` outlives it.
  static Result<std::unique_ptr<Connection>> open(SqliteVfs& vfs, int flags);
  // Nothing is written any more, save by close().
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  template <typename... Args>
  Query query(const char* sql, const Args&... args) {
    return Query(*this, sql, args...);
  }
  // Runs it to its end; how many rows it changed, without what triggers did.
  template <typename... Args>
  Result<uint64_t> run(const char* sql, const Args&... args) {
    Query started = query(sql, args...);
    while (PENSTOCK_TRY(started.next())) {
    }
    return static_cast<uint64_t>(sqlite3_changes64(handle_));
  }
  // Several statements, once; of any text.
  Result<void> script(const std::string& sql);
  // The first number that a statement of any text answers.
  Result<int64_t> value(const std::string& sql);

  // Since it was opened, in all.
  int64_t rows_changed() const { return sqlite3_total_changes64(handle_); }
  // False also when SQLite gave the transaction up after an error.
  bool in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }
  // Bytes in the log after the last commit.
  uint64_t log_bytes() const { return log_bytes_; }
  // Brings the log into the database. Not in a transaction.
  Result<void> checkpoint();
  // With a last checkpoint, after which the log is gone. Not in a transaction.
  Result<void> close();

  sqlite3* handle() { return handle_; }
  Error error(int code);

 private:
  friend class Query;
  explicit Connection(SqliteVfs& vfs) : vfs_(vfs) {}
  // Null with `error` set when it cannot be prepared.
  sqlite3_stmt* prepare(const char* sql, std::optional<Error>* error);
  void drop_statements();

  SqliteVfs& vfs_;
  sqlite3* handle_ = nullptr;
  uint64_t log_bytes_ = 0;
  std::unordered_map<const char*, sqlite3_stmt*> statements_;
};

}  // namespace penstock::meta
