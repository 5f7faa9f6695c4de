// A directory that others have used, damaged or cleared.
#include <atomic>

#include "cache/keeper_fixture.h"
#include "cache/policy.h"

namespace penstock::cache {

namespace {

using std::chrono::milliseconds;

using KeeperDirectoryTest = KeeperFixture;

TEST_F(KeeperDirectoryTest, ARestartKnowsWhatWasThere) {
  {
    TestMember one = open(with_quota(100 * kBlock));
    for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(one.fill(test_name(i, 10)));
    one.keeper->note_used(test_id(3), 777);  // Said last of all, and not settled.
  }
  const std::unique_ptr<Policy> learnt = make_policy();
  const Result<std::string> index = io::read_file(fs_, "/cache/index", kMiB);
  ASSERT_THAT(index, IsOk());
  ASSERT_THAT(restore_from(*learnt, *index), IsOk());
  EXPECT_EQ(learnt->clock_bytes(), 777u);
  EXPECT_EQ(learnt->entries(), 10u);

  {
    TestMember two = open(with_quota(100 * kBlock));
    EXPECT_EQ(two.status().used_bytes, 100 * kBlock);
    EXPECT_EQ(two.status().entries, 10u);
    EXPECT_FALSE(two.keeper->reserve(test_name(50, 1)));
    two.keeper->note_used(test_id(4), 3);
  }
  ASSERT_THAT(restore_from(*learnt, *io::read_file(fs_, "/cache/index", kMiB)), IsOk());
  EXPECT_EQ(learnt->clock_bytes(), 780u);  // It went on where the first was.
}

TEST_F(KeeperDirectoryTest, AtOnceAfterARestartThereIsTheRoomThatWasLeft) {
  {
    TestMember one = open(with_quota(100 * kBlock));
    for (uint64_t i = 0; i < 9; ++i) ASSERT_TRUE(one.fill(test_name(i, 10)));
  }
  TestMember two(fs_, kPath, with_quota(100 * kBlock));
  ASSERT_TRUE(eventually([&] { return two.keeper->room_bytes() > 0; }));
  EXPECT_EQ(two.keeper->room_bytes(), 10 * kBlock);
}

TEST_F(KeeperDirectoryTest, WithoutStateAndIndexAScanTells) {
  {
    TestMember one = open(with_quota(100 * kBlock));
    for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(one.fill(test_name(i, 10)));
  }
  for (const std::string& bytes : {std::string(), std::string("rubbish"), std::string(9000, 'x')}) {
    for (const char* name : {"/cache/state", "/cache/index"}) {
      auto file = fs_.open(name, {.access = io::Access::kWrite, .create = io::Create::kTruncate});
      ASSERT_THAT((*file)->write(0, std::as_bytes(std::span(bytes))), IsOk());
    }
    TestMember two(fs_, kPath, with_quota(100 * kBlock));
    EXPECT_FALSE(two.keeper->reserve(test_name(50, 1)));
    EXPECT_EQ(two.status().used_bytes, 100 * kBlock);
    EXPECT_FALSE(two.keeper->reserve(test_name(50, 1)));
  }
}

// The drive is asked how full it is and the files are counted at different times: that must not
// look as if others had filled it.
TEST_F(KeeperDirectoryTest, CountingEvictsNothing) {
  KeeperOptions options = with_quota(60 * kMiB);
  options.free_floor = bytes_of(16 * kMiB);
  {
    TestMember one = open(options);
    for (uint64_t i = 0; i < 5000; ++i) ASSERT_TRUE(one.fill(test_name(i, 2)));
  }
  ASSERT_THAT(fs_.remove("/cache/state"), IsOk());
  ASSERT_THAT(fs_.remove("/cache/index"), IsOk());
  TestMember two = open(options);
  two.settle();
  EXPECT_EQ(two.keeper->status().evictions, 0u);
  EXPECT_EQ(two.keeper->status().used_bytes, 10000 * kBlock);
}

TEST_F(KeeperDirectoryTest, FilesOfOthersAreLeftAlone) {
  {
    TestMember one = open(with_quota(100 * kBlock));
    ASSERT_TRUE(one.fill(test_name(1, 10)));
  }
  const std::vector<std::string> planted = {
      "/cache/entries/README",    "/cache/entries/00",          "/cache/members/README.lock",
      "/cache/members/17-aa.log", "/cache/members/notes.1.log", "/cache/members/x.log",
      "/cache/tmp/somebody",
  };
  for (const std::string& path : planted) {
    if (!fs_.stat(path).ok()) write_file(path, 10);
  }
  write_file("/cache/entries/" + test_name(1, 10).text().substr(0, 2) + "/planted", 100);
  TestMember two = open(with_quota(5 * kBlock));
  EXPECT_EQ(two.status().used_bytes, 0u);
  EXPECT_EQ(two.status().members, 1u);
  for (const std::string& path : planted) EXPECT_THAT(fs_.stat(path), IsOk()) << path;
}

TEST_F(KeeperDirectoryTest, FilesRemovedUnderneathAreNoticed) {
  {
    TestMember one = open(with_quota(100 * kBlock));
    for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(one.fill(test_name(i, 10)));
    for (uint64_t i = 0; i < 5; ++i) {
      ASSERT_THAT(fs_.remove(one.directory->path_of(test_name(i, 10))), IsOk());
    }
    one.keeper->set_quota(bytes_of(60 * kBlock));
    EXPECT_LE(one.status().used_bytes, 60 * kBlock);  // Evicting what is not there is no error.
  }
  TestMember two = open(with_quota(100 * kBlock));
  two.settle();
  EXPECT_EQ(two.keeper->status().used_bytes, two.bytes_on_drive());
}

TEST_F(KeeperDirectoryTest, DroppedEntriesGiveTheirRoomBack) {
  TestMember one = open(with_quota(100 * kBlock));
  for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(one.fill(test_name(i, 10)));
  ASSERT_THAT(one.directory->drop(test_name(4, 10)), IsOk());
  one.keeper->note_dropped(test_name(4, 10));
  EXPECT_EQ(one.status().used_bytes, 90 * kBlock);
  EXPECT_EQ(one.keeper->room_bytes(), 10 * kBlock);
}

TEST_F(KeeperDirectoryTest, ARemovedDirectoryIsAnError) {
  KeeperOptions options = with_quota(100 * kBlock);
  options.tick = milliseconds(1);
  std::atomic<int> errors = 0;
  options.on_error = [&](const Error&) { ++errors; };
  TestMember one = open(options);
  ASSERT_THAT(io::remove_tree(fs_, kPath), IsOk());
  EXPECT_TRUE(eventually([&] { return errors > 0; }));
}

TEST_F(KeeperDirectoryTest, AClearedAndReopenedDirectoryHasOneEvictor) {
  KeeperOptions options = with_quota(100 * kBlock);
  options.tick = milliseconds(1);
  options.on_error = nullptr;
  TestMember one = open(options);
  ASSERT_TRUE(one.fill(test_name(1, 10)));
  one.settle();
  ASSERT_THAT(io::remove_tree(fs_, kPath), IsOk());
  TestMember two(fs_, kPath, options);
  const auto agree = [&] {
    const KeeperStatus first = one.keeper->status();
    const KeeperStatus second = two.keeper->status();
    return first.evictor != second.evictor && first.members == 2 && second.members == 2;
  };
  ASSERT_TRUE(eventually(agree));
  EXPECT_TRUE(eventually([&] { return one.fill(test_name(2, 10)); }));
  EXPECT_TRUE(eventually([&] { return two.fill(test_name(3, 10)); }));
  ASSERT_TRUE(eventually([&] {
    return agree() && one.keeper->status().used_bytes == 20 * kBlock &&
           two.keeper->status().used_bytes == 20 * kBlock;
  }));
}

TEST_F(KeeperDirectoryTest, WhoOnlyLooksLeavesNoTrace) {
  {
    TestMember one = open(with_quota(100 * kBlock));
    ASSERT_TRUE(one.fill(test_name(1, 10)));
  }
  KeeperOptions options;
  options.may_evict = false;
  TestMember looker = open(options);
  const KeeperStatus status = looker.status();
  EXPECT_FALSE(status.evictor);
  EXPECT_TRUE(status.known);
  EXPECT_EQ(status.used_bytes, 10 * kBlock);
  EXPECT_EQ(status.limit_bytes, 100 * kBlock);
  EXPECT_FALSE(looker.keeper->reserve(test_name(2, 1)));
  EXPECT_THAT(fs_.list("/cache/members",
                       [](const io::DirectoryEntry& entry) {
                         ADD_FAILURE() << entry.name;
                         return true;
                       }),
              IsOk());
}

}  // namespace

}  // namespace penstock::cache
