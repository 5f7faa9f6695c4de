#include "io/memory_file_system.h"
#include "meta/conformance.h"
#include "meta/core.h"

namespace penstock::meta {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

const std::string kPath = "/volume.db";

class RepairTest : public ::testing::Test {
 protected:
  void SetUp() override { start_anew(); }

  void start_anew() {
    names_.reset();
    database_.reset();
    fs_ = std::make_unique<io::MemoryFileSystem>();
    open(test_settings());
    const ObjectId object{database_->session(), 1};
    ASSERT_THAT(database_->add_object({.id = object, .state = ObjectState::kStored, .bytes = 500}),
                IsOk());
    folder_ = names_->create(kRoot, "folder", {.mode = S_IFDIR | 0755}, 1)->ino;
    file_ = names_->create(folder_, "file", {.mode = S_IFREG | 0644}, 1)->ino;
    const std::vector<Place> places{{.object = object, .offset = 0, .stored = 100, .raw = 100},
                                    {.object = object, .offset = 100, .stored = 50, .raw = 70}};
    ASSERT_THAT(names_->write(file_, 0, places, 2), IsOk());
    ASSERT_THAT(names_->link(file_, kRoot, "second", 3), IsOk());
    ASSERT_THAT(database_->commit({.now = 4}), IsOk());
    ASSERT_THAT(*database_->check(), IsEmpty());
  }

  void open(const std::optional<Settings>& create = std::nullopt) {
    names_.reset();
    database_.reset();
    auto opened = open_sqlite(*fs_, kPath, {.create = create});
    ASSERT_THAT(opened, IsOk());
    database_ = std::move(*opened);
    names_ = *database_->open("train");
  }

  // As a bug would, past all that keeps things in step.
  void damage(const std::string& sql) {
    names_.reset();
    database_.reset();
    {
      Core core(*fs_, kPath);
      ASSERT_THAT(core.connect({}), IsOk());
      ASSERT_THAT(core.db().script(sql), IsOk());
      ASSERT_THAT(core.db().run("COMMIT"), IsOk());
      core.abandon();
    }
    open();
    ASSERT_THAT(*database_->check(), Not(IsEmpty())) << sql;
  }

  void repair() {
    const auto repaired = database_->repair();
    ASSERT_THAT(repaired, IsOk());
    repaired_ = *repaired;
    ASSERT_THAT(database_->commit({.now = 5}), IsOk());
    open();
  }

  void expect_content() {
    EXPECT_EQ(names_->lookup(folder_, "file")->ino, file_);
    const Inode inode = *names_->inode(file_);
    EXPECT_EQ(inode.size, 170u);
    EXPECT_EQ(inode.links, 2u);
    EXPECT_THAT(*names_->extents(file_, 0, 1000), SizeIs(2));
  }

  std::unique_ptr<io::MemoryFileSystem> fs_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<Namespace> names_;
  Ino folder_ = 0;
  Ino file_ = 0;
  std::vector<std::string> repaired_;
};

TEST_F(RepairTest, CountsAreCountedAgain) {
  for (const char* sql : {
           "UPDATE chunk SET refs = refs + 3",
           "UPDATE chunk SET refs = 0",
           "UPDATE object SET live_bytes = live_bytes + 7",
           "UPDATE object SET live_bytes = 0",
           "UPDATE inode SET allocated = 1 WHERE mode & 61440 = 32768",
           "UPDATE inode SET size = size + 1 WHERE mode & 61440 = 16384",
           "UPDATE inode SET links = links + 1 WHERE died = 9223372036854775807",
           "UPDATE inode SET links = 1 WHERE mode & 61440 = 32768",
           "UPDATE usage SET bytes = bytes + 100, inodes = inodes - 1",
           "UPDATE counter SET ino = 2, cookie = 1, chunk = 1",
       }) {
    SCOPED_TRACE(sql);
    damage(sql);
    repair();
    EXPECT_THAT(repaired_, Not(IsEmpty()));
    EXPECT_THAT(*database_->check(), IsEmpty());
    expect_content();
    repair();
    EXPECT_THAT(repaired_, IsEmpty());
  }
}

TEST_F(RepairTest, WhatSomebodyMadeIsLeft) {
  for (const char* sql : {
           "DELETE FROM chunk WHERE id = 2",
           "DELETE FROM inode WHERE mode & 61440 = 32768",
           "UPDATE entry SET type = 16384 WHERE CAST(name AS TEXT) = 'second'",
           // It has no name any more, and all of its content.
           "UPDATE inode SET links = 9 WHERE mode & 61440 = 32768; "
           "DELETE FROM entry WHERE type = 32768",
       }) {
    SCOPED_TRACE(sql);
    start_anew();
    damage(sql);
    const auto count = [&](const char* table) {
      names_.reset();
      database_.reset();
      Core core(*fs_, kPath);
      EXPECT_THAT(core.connect({}), IsOk());
      return *core.db().value(std::string("SELECT count(*) FROM ") + table);
    };
    std::vector<int64_t> before;
    for (const char* table : {"inode", "entry", "extent"}) before.push_back(count(table));
    open();
    repair();
    EXPECT_THAT(*database_->check(), Not(IsEmpty()));
    std::vector<int64_t> after;
    for (const char* table : {"inode", "entry", "extent"}) after.push_back(count(table));
    EXPECT_EQ(after, before);
    open();
  }
}

}  // namespace
}  // namespace penstock::meta
