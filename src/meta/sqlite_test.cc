// What is particular to databases on SQLite: their files.
#include <fmt/core.h>

#include "io/faulty_file_system.h"
#include "meta/conformance.h"
#include "meta/schema.h"

namespace penstock::meta {
namespace {

constexpr const char* kPath = "/volume.db";

Result<std::unique_ptr<Database>> make_database(io::FileSystem& fs,
                                                const std::string& path = kPath) {
  return open_sqlite(fs, path, {.create = test_settings()});
}

// A statement on the file itself, behind the back of the metadata.
void tamper(io::FileSystem& fs, const std::string& sql) {
  SqliteVfs vfs(fs, kPath);
  auto db = Connection::open(vfs, SQLITE_OPEN_READWRITE);
  ASSERT_THAT(db, IsOk());
  ASSERT_THAT(prepare_connection(**db, kMiB), IsOk());
  ASSERT_THAT((*db)->script(sql), IsOk());
  ASSERT_THAT((*db)->close(), IsOk());
}

TEST(SqliteMeta, IsOneFileWhenClosed) {
  io::MemoryFileSystem fs;
  {
    const auto database = make_database(fs);
    ASSERT_THAT(database, IsOk());
    EXPECT_THAT(fs.stat("/volume.db-wal"), IsOk());
  }
  std::vector<std::string> names;
  ASSERT_THAT(fs.list("/",
                      [&](const io::DirectoryEntry& entry) {
                        names.push_back(entry.name);
                        return true;
                      }),
              IsOk());
  EXPECT_THAT(names, ::testing::ElementsAre("volume.db"));
  EXPECT_EQ(fs.stat(kPath)->mode, 0600u);
}

TEST(SqliteMeta, IsMadeOnceAndFoundAgain) {
  io::MemoryFileSystem fs;
  EXPECT_THAT(open_sqlite(fs, kPath, {}), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(fs.stat(kPath), FailsWith(ErrorCode::kNotFound));
  { ASSERT_THAT(make_database(fs), IsOk()); }
  EXPECT_THAT(make_database(fs), FailsWith(ErrorCode::kExists));
  EXPECT_THAT(open_sqlite(fs, kPath, {}), IsOk());
  EXPECT_THAT(make_database(fs, "/no/such/directory.db"), FailsWith(ErrorCode::kNotFound));
}

TEST(SqliteMeta, PathsAreAnyBytes) {
  io::MemoryFileSystem fs;
  ASSERT_THAT(fs.make_directory("/file:x?mode=ro"), IsOk());
  for (const std::string path : {"/file:x?mode=ro/a%20b#c.db", "file:y.db", "/\xff.db"}) {
    {
      ASSERT_THAT(make_database(fs, path), IsOk()) << path;
    }
    EXPECT_THAT(fs.stat(path), IsOk());
    EXPECT_THAT(open_sqlite(fs, path, {}), IsOk());
  }
}

TEST(SqliteMeta, SeveralAreOpenAtOnce) {
  io::MemoryFileSystem fs;
  const auto a = make_database(fs, "/a.db");
  const auto b = make_database(fs, "/b.db");
  ASSERT_THAT(a, IsOk());
  ASSERT_THAT(b, IsOk());
  const auto names = std::move(*(*a)->open("train"));
  ASSERT_THAT(names->create(kRoot, "x", {.mode = S_IFREG}, 1), IsOk());
  EXPECT_THAT((*(*b)->open("train"))->lookup(kRoot, "x"), FailsErrno(ENOENT));
}

TEST(SqliteMeta, NewerFeaturesAreRefused) {
  for (const char* bits : {"read_only_compatible", "incompatible"}) {
    io::MemoryFileSystem fs;
    { ASSERT_THAT(make_database(fs), IsOk()); }
    tamper(fs, fmt::format("UPDATE format SET {} = 4", bits));
    const auto opened = open_sqlite(fs, kPath, {});
    EXPECT_THAT(opened, FailsWith(ErrorCode::kUnsupported));
    EXPECT_THAT(opened.error().detail, ::testing::HasSubstr("newer version of Penstock"));
    EXPECT_THAT(make_database(fs), FailsWith(ErrorCode::kUnsupported));
  }
  io::MemoryFileSystem fs;
  { ASSERT_THAT(make_database(fs), IsOk()); }
  tamper(fs, "UPDATE format SET compatible = 4; CREATE TABLE more(x)");
  EXPECT_THAT(open_sqlite(fs, kPath, {}), IsOk());
}

TEST(SqliteMeta, WhatIsNotOursIsLeftAlone) {
  io::MemoryFileSystem fs;
  {
    const auto file =
        fs.open(kPath, {.access = io::Access::kWrite, .create = io::Create::kMustNotExist});
    const std::string text(10'000, 'x');
    ASSERT_THAT((*file)->write(0, std::as_bytes(std::span(text))), IsOk());
  }
  EXPECT_THAT(open_sqlite(fs, kPath, {}), FailsWith(ErrorCode::kCorrupt));
  EXPECT_THAT(make_database(fs), FailsWith(ErrorCode::kCorrupt));
  EXPECT_EQ(fs.stat(kPath)->size, 10'000u);
  ASSERT_THAT(fs.remove(kPath), IsOk());
  { ASSERT_THAT(make_database(fs), IsOk()); }
  tamper(fs, "PRAGMA application_id = 7");
  EXPECT_THAT(open_sqlite(fs, kPath, {}), FailsWith(ErrorCode::kCorrupt));
}

TEST(SqliteMeta, TheLogDoesNotGrowForEver) {
  io::MemoryFileSystem fs;
  const auto database = make_database(fs);
  ASSERT_THAT(database, IsOk());
  const auto names = std::move(*(*database)->open("train"));
  const std::string value(kXattrValueBytesMax, 'v');
  for (int i = 0; i < 1000; ++i) {
    const auto made = names->create(kRoot, std::to_string(i), {.mode = S_IFREG}, 1);
    ASSERT_THAT(made, IsOk());
    ASSERT_THAT(names->set_xattr(made->ino, "user.v", value, XattrMode::kSet, 1), IsOk());
    ASSERT_THAT((*database)->commit({}), IsOk());
  }
  EXPECT_LT(fs.stat("/volume.db-wal")->size, 40 * kMiB);
  EXPECT_GT(fs.stat(kPath)->size, 20 * kMiB);
}

TEST(SqliteMeta, DamagedPagesAreFound) {
  io::MemoryFileSystem fs;
  {
    const auto database = make_database(fs);
    ASSERT_THAT(database, IsOk());
    const auto names = std::move(*(*database)->open("train"));
    for (int i = 0; i < 500; ++i)
      ASSERT_THAT(names->create(kRoot, fmt::format("name-{}", i), {.mode = S_IFREG}, 1), IsOk());
    ASSERT_THAT((*database)->commit({}), IsOk());
  }
  const uint64_t size = fs.stat(kPath)->size;
  ASSERT_EQ(size % kPageBytes, 0u);
  ASSERT_GT(size, 20u * kPageBytes);
  int found = 0;
  for (uint64_t page = 1; page < size / kPageBytes; ++page) {
    const auto copy = fs.clone();
    const auto file = std::move(*copy->open(kPath, {.access = io::Access::kReadWrite}));
    std::byte byte;
    const uint64_t at = page * kPageBytes + 1000;
    ASSERT_THAT(file->read(at, {&byte, 1}), IsOk());
    byte ^= std::byte{1};
    ASSERT_THAT(file->write(at, {&byte, 1}), IsOk());
    const auto database = open_sqlite(*copy, kPath, {});
    if (!database.ok()) {
      EXPECT_THAT(database, FailsWith(ErrorCode::kCorrupt));
      ++found;
      continue;
    }
    const auto checked = (*database)->check();
    if (!checked.ok()) {
      EXPECT_THAT(checked, FailsWith(ErrorCode::kCorrupt)) << page;
      ++found;
    }
  }
  EXPECT_EQ(found, static_cast<int>(size / kPageBytes) - 1);
}

TEST(SqliteMeta, CheckNamesWhatContradictsItself) {
  const struct {
    const char* sql;
    const char* told;
  } cases[] = {
      {"UPDATE inode SET links = 5 WHERE mode & 61440 = 32768", "another number of names"},
      {"UPDATE inode SET links = 5 WHERE ino = 1", "another number of directories"},
      {"UPDATE inode SET size = 9 WHERE ino = 1", "entries, and has others"},
      {"UPDATE inode SET size = 9 WHERE mode & 61440 = 32768", "by its own account"},
      {"DELETE FROM entry WHERE type = 16384", "cannot be reached"},
      {"DELETE FROM inode WHERE mode & 61440 = 32768", "which is not there"},
      {"UPDATE inode SET parent = 77 WHERE ino <> 1 AND mode & 61440 = 16384",
       "says is its parent"},
      {"UPDATE entry SET type = 16384", "of another type"},
      {"UPDATE extent SET length = 200 WHERE offset = 0", "overlap"},
      {"UPDATE extent SET chunk_offset = 99", "beyond its chunk"},
      {"UPDATE chunk SET refs = 7", "references by its own account"},
      {"UPDATE object SET live_bytes = 7", "live bytes by its own account"},
      {"UPDATE object SET bytes = 7", "not that long"},
      {"UPDATE inode SET allocated = 7", "allocated bytes"},
      {"UPDATE counter SET ino = 2", "would be the next"},
      {"UPDATE inode SET born = died", "has two states"},
      {"DELETE FROM chunk", "beyond its chunk"},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.sql);
    io::MemoryFileSystem fs;
    {
      const auto database = std::move(*make_database(fs));
      const auto names = std::move(*database->open("train"));
      const Ino file = names->create(kRoot, "f", {.mode = S_IFREG}, 1)->ino;
      ASSERT_THAT(names->create(kRoot, "d", {.mode = S_IFDIR}, 1), IsOk());
      const ObjectId id{1, 1};
      ASSERT_THAT(database->add_object({.id = id, .state = ObjectState::kStored, .bytes = 200}),
                  IsOk());
      const std::vector<Place> chunks = {{.object = id, .stored = 100, .raw = 100},
                                         {.object = id, .offset = 100, .stored = 100, .raw = 100}};
      ASSERT_THAT(names->write(file, 0, chunks, 1), IsOk());
      EXPECT_THAT(*database->check(), ::testing::IsEmpty());
      ASSERT_THAT(database->commit({}), IsOk());
    }
    tamper(fs, one.sql);
    const auto database = open_sqlite(fs, kPath, {});
    ASSERT_THAT(database, IsOk());
    const auto found = (*database)->check();
    ASSERT_THAT(found, IsOk());
    EXPECT_THAT(*found, ::testing::Contains(::testing::HasSubstr(one.told)));
  }
}

// A disk that is full in the middle of something: the caller hears of it, and what was committed
// is there when there is room again.
TEST(SqliteMeta, AFullDiskLosesNothingThatWasCommitted) {
  io::MemoryFileSystem fs({.capacity_bytes = 16 * kMiB});
  {
    const auto filler =
        fs.open("/filler", {.access = io::Access::kWrite, .create = io::Create::kMustNotExist});
    ASSERT_THAT((*filler)->allocate(0, 10 * kMiB), IsOk());
  }
  uint64_t committed = 0;
  Result<void> failure;
  {
    const auto database =
        open_sqlite(fs, kPath, {.create = test_settings(), .cache_bytes = 256 * kKiB});
    ASSERT_THAT(database, IsOk());
    const auto names = std::move(*(*database)->open("train"));
    const std::string value(20'000, 'v');
    for (uint64_t i = 0; failure.ok() && i < 10'000; ++i) {
      const auto made = names->create(kRoot, std::to_string(i), {.mode = S_IFREG}, 1);
      if (!made.ok()) {
        failure = made.error();
        break;
      }
      failure = names->set_xattr(made->ino, "user.v", value, XattrMode::kSet, 1);
      if (!failure.ok() || i % 50 != 49) continue;
      const auto version = (*database)->commit({});
      if (!version.ok()) failure = version.error();
      if (version.ok()) committed = i + 1;
    }
  }
  ASSERT_FALSE(failure.ok());
  EXPECT_THAT(failure, FailsErrno(ENOSPC));
  EXPECT_THAT(failure, FailsWith(ErrorCode::kNoSpace));
  EXPECT_GT(committed, 0u);
  ASSERT_THAT(fs.remove("/filler"), IsOk());
  const auto database = open_sqlite(fs, kPath, {});
  ASSERT_THAT(database, IsOk());
  const auto names = std::move(*(*database)->open("train"));
  const uint64_t found = names->inode(kRoot)->size;
  EXPECT_GE(found, committed);
  EXPECT_LE(found, committed + 50);
  EXPECT_THAT(*(*database)->check(), ::testing::IsEmpty());
  ASSERT_THAT(names->create(kRoot, "more", {.mode = S_IFREG}, 1), IsOk());
  EXPECT_THAT((*database)->commit({}), IsOk());
}

}  // namespace
}  // namespace penstock::meta
