#include "meta/sql.h"

#include <gtest/gtest.h>

#include "base/result_matchers.h"
#include "io/faulty_file_system.h"
#include "meta/schema.h"

namespace penstock::meta {
namespace {

class SqlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = Connection::open(vfs_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    ASSERT_THAT(opened, IsOk());
    db_ = std::move(*opened);
    ASSERT_THAT(prepare_connection(*db_, kMiB), IsOk());
    ASSERT_THAT(use_log(*db_), IsOk());
    ASSERT_THAT(db_->script("CREATE TABLE t(a, b)"), IsOk());
  }

  io::MemoryFileSystem fs_;
  SqliteVfs vfs_{fs_, "/t.db"};
  std::unique_ptr<Connection> db_;
};

TEST_F(SqlTest, ValuesComeBackAsTheyWent) {
  const std::string bytes("\0\xff", 2);
  constexpr const char* kAdd = "INSERT INTO t VALUES(?, ?)";
  EXPECT_EQ(*db_->run(kAdd, INT64_MIN, std::string_view(bytes)), 1u);
  EXPECT_EQ(*db_->run(kAdd, UINT64_MAX, std::string_view()), 1u);
  EXPECT_EQ(*db_->run(kAdd, std::optional<int64_t>(), std::optional<std::string_view>()), 1u);
  Query query = db_->query("SELECT a, b FROM t ORDER BY rowid");
  ASSERT_TRUE(*query.next());
  EXPECT_EQ(query.integer(0), INT64_MIN);
  EXPECT_EQ(query.bytes(1), bytes);
  ASSERT_TRUE(*query.next());
  EXPECT_EQ(query.number(0), UINT64_MAX);
  EXPECT_EQ(query.bytes(1), "");
  EXPECT_FALSE(query.null(1));
  ASSERT_TRUE(*query.next());
  EXPECT_TRUE(query.null(0));
  EXPECT_TRUE(query.null(1));
  EXPECT_FALSE(*query.next());
}

TEST_F(SqlTest, StatementsAreUsedAgainWithOtherValues) {
  constexpr const char* kAdd = "INSERT INTO t VALUES(?, ?)";
  for (int i = 0; i < 10; ++i) ASSERT_THAT(db_->run(kAdd, i, i * i), IsOk());
  constexpr const char* kFind = "SELECT b FROM t WHERE a = ?";
  for (int i = 0; i < 10; ++i) {
    Query query = db_->query(kFind, i);
    ASSERT_TRUE(*query.next());
    EXPECT_EQ(query.integer(0), i * i);  // Left in its middle: the next one begins anew.
  }
  EXPECT_EQ(*db_->run("DELETE FROM t WHERE a < ?", 4), 4u);
  EXPECT_EQ(*db_->value("SELECT count(*) FROM t"), 6);
}

TEST_F(SqlTest, WrongStatementsAreErrors) {
  EXPECT_THAT(db_->run("SELECT nothing FROM nowhere"), FailsWith(ErrorCode::kIo));
  Query query = db_->query("no SQL at all");
  EXPECT_THAT(query.next(), FailsWith(ErrorCode::kIo));
  EXPECT_THAT(db_->script("neither"), FailsWith(ErrorCode::kIo));
  EXPECT_THAT(db_->value("nor this"), FailsWith(ErrorCode::kIo));
}

TEST_F(SqlTest, KnowsWhetherATransactionIsOpen) {
  EXPECT_FALSE(db_->in_transaction());
  ASSERT_THAT(db_->run("BEGIN IMMEDIATE"), IsOk());
  EXPECT_TRUE(db_->in_transaction());
  ASSERT_THAT(db_->run("INSERT INTO t VALUES(1, 2)"), IsOk());
  ASSERT_THAT(db_->run("COMMIT"), IsOk());
  EXPECT_FALSE(db_->in_transaction());
  EXPECT_GT(db_->log_bytes(), 0u);
  ASSERT_THAT(db_->checkpoint(), IsOk());
  EXPECT_EQ(db_->log_bytes(), 0u);
}

// What the file system says is kept, and not only that something failed.
TEST(Sql, ErrorsOfTheFileSystemComeOut) {
  for (const auto& [error, code] :
       {std::pair(EIO, ErrorCode::kIo), std::pair(ENOSPC, ErrorCode::kNoSpace),
        std::pair(EACCES, ErrorCode::kPermission)}) {
    io::FaultyFileSystem fs({.fail_at = 1, .only = io::CallKind::kWrite, .error = error});
    SqliteVfs vfs(fs, "/t.db");
    const auto db = Connection::open(vfs, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    ASSERT_THAT(db, IsOk());
    ASSERT_THAT(prepare_connection(**db, kMiB), IsOk());
    const Result<void> made = (*db)->script("CREATE TABLE t(a)");
    ASSERT_THAT(made, FailsWith(code));
    EXPECT_EQ(made.error().os_errno, error);
    EXPECT_THAT(made.error().detail, ::testing::HasSubstr("/t.db"));
  }
  io::MemoryFileSystem fs;
  SqliteVfs vfs(fs, "/missing.db");
  const auto db = Connection::open(vfs, SQLITE_OPEN_READWRITE);
  ASSERT_THAT(db, FailsWith(ErrorCode::kNotFound));
  EXPECT_EQ(db.error().os_errno, ENOENT);
}

}  // namespace
}  // namespace penstock::meta
