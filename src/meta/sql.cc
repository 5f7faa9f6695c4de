#include "meta/sql.h"

#include <fmt/core.h>

#include <cassert>
#include <cerrno>

namespace penstock::meta {

Query::Query(Connection& connection, const char* sql, Prepared)
    : connection_(connection), statement_(connection.prepare(sql, &error_)) {
  assert(statement_ == nullptr || sqlite3_stmt_busy(statement_) == 0);
}

Query::~Query() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
}

Result<bool> Query::next() {
  if (statement_ == nullptr) return *error_;
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  // Before reset, which forgets the extended code.
  Error error = connection_.error(sqlite3_extended_errcode(connection_.handle()));
  sqlite3_reset(statement_);
  return error;
}

std::string Query::bytes(int column) const {
  const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  if (data == nullptr) return {};
  return std::string(data, static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
}

void Query::bind(int at, std::string_view value) {
  // A null pointer would be NULL, and no empty string.
  const char* data = value.data() == nullptr ? "" : value.data();
  sqlite3_bind_blob64(statement_, at, data, value.size(), SQLITE_STATIC);
}

Result<std::unique_ptr<Connection>> Connection::open(SqliteVfs& vfs, int flags) {
  std::unique_ptr<Connection> made(new Connection(vfs));
  // Names are looked up by the address of their text, and files by the vfs: URIs would be in the way.
  const int code = sqlite3_open_v2(SqliteVfs::kDatabaseName, &made->handle_,
                                   flags | SQLITE_OPEN_NOMUTEX, vfs.name());
  if (code != SQLITE_OK) return made->error(code);
  sqlite3_extended_result_codes(made->handle_, 1);
  const auto note = [](void* self, sqlite3*, const char*, int pages) {
    static_cast<Connection*>(self)->log_bytes_ = static_cast<uint64_t>(pages) * kPageBytes;
    return SQLITE_OK;
  };
  // In the place of SQLite's own, which would bring the log in when it pleases. (Its pragma for that,
  // wal_autocheckpoint, would take this one away again.)
  sqlite3_wal_hook(made->handle_, note, made.get());
  return made;
}

Connection::~Connection() {
  if (handle_ == nullptr) return;
  drop_statements();
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  sqlite3_close_v2(handle_);
}

Result<void> Connection::close() {
  drop_statements();
  const int code = sqlite3_close(handle_);
  if (code != SQLITE_OK) return error(code);
  handle_ = nullptr;
  // SQLite tells nobody whether its last checkpoint failed; the log is then still there.
  if (std::optional<Error> failed = vfs_.take_error()) return *failed;
  return {};
}

void Connection::drop_statements() {
  for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  statements_.clear();
}

sqlite3_stmt* Connection::prepare(const char* sql, std::optional<Error>* failed) {
  const auto found = statements_.find(sql);
  if (found != statements_.end()) return found->second;
  sqlite3_stmt* statement = nullptr;
  const int code =
      sqlite3_prepare_v3(handle_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) {
    *failed = error(code);
    return nullptr;
  }
  statements_.emplace(sql, statement);
  return statement;
}

Result<void> Connection::script(const std::string& sql) {
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return error(code);
  return {};
}

Result<int64_t> Connection::value(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  int code = sqlite3_prepare_v2(handle_, sql.c_str(), -1, &statement, nullptr);
  if (code != SQLITE_OK) return error(code);
  code = sqlite3_step(statement);
  const int64_t answer = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
  std::optional<Error> failed;
  if (code != SQLITE_ROW && code != SQLITE_DONE) failed = error(code);
  sqlite3_finalize(statement);
  if (failed) return *failed;
  return answer;
}

Result<void> Connection::checkpoint() {
  const int code =
      sqlite3_wal_checkpoint_v2(handle_, "main", SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  if (code != SQLITE_OK) return error(code);
  log_bytes_ = 0;
  return {};
}

Error Connection::error(int code) {
  const std::string action = fmt::format("the database {}", vfs_.path());
  const int kind = code & 0xff;
  std::optional<Error> failed = vfs_.take_error();
  if (failed && (kind == SQLITE_IOERR || kind == SQLITE_FULL || kind == SQLITE_CANTOPEN))
    return failed->with_context(action);
  const char* text = handle_ != nullptr ? sqlite3_errmsg(handle_) : sqlite3_errstr(code);
  Error error = make_error(ErrorCode::kIo, fmt::format("{}: {}", action, text));
  error.os_errno = EIO;
  switch (kind) {
    case SQLITE_FULL:
      error.code = ErrorCode::kNoSpace;
      error.os_errno = ENOSPC;
      break;
    case SQLITE_NOMEM:
      error.code = ErrorCode::kNoMemory;
      error.os_errno = ENOMEM;
      break;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      error.code = ErrorCode::kCorrupt;
      break;
    default:
      break;
  }
  return error;
}

}  // namespace penstock::meta
