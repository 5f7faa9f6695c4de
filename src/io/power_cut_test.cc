// What MemoryFileSystem may show after a power cut, and what it must not.
#include "io/power_cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <map>
#include <random>
#include <set>

#include "io/file_system_conformance.h"
#include "io/memory_file_system.h"

namespace penstock::io {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::Each;
using testing::UnorderedElementsAre;

constexpr uint64_t kSeeds = 300;

void put(FileSystem& fs, const std::string& path, std::string_view text) {
  PENSTOCK_EXPECT_OK(write_string(*create(fs, path), 0, text));
}

void put_and_sync(FileSystem& fs, const std::string& path, std::string_view text) {
  const auto file = create(fs, path);
  PENSTOCK_EXPECT_OK(write_string(*file, 0, text));
  PENSTOCK_EXPECT_OK(file->sync());
}

// All that `path` holds over many power cuts.
std::set<std::string> outcomes(const MemoryFileSystem& fs, const std::string& path) {
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) seen.insert(see(*fs.power_cut(seed), path));
  return seen;
}

// Every path with its contents; directories end in "/".
using Dump = std::map<std::string, std::string>;
void dump_into(FileSystem& fs, const std::string& path, Dump& dump) {
  PENSTOCK_EXPECT_OK(fs.list(path + "/", [&](const DirectoryEntry& entry) {
    const std::string child = path + "/" + entry.name;
    if (entry.kind == FileKind::kDirectory) {
      dump[child + "/"] = "";
      dump_into(fs, child, dump);
    } else {
      dump[child] = see(fs, child);
    }
    return true;
  }));
}
Dump dump_of(FileSystem& fs) {
  Dump dump;
  dump_into(fs, "", dump);
  return dump;
}

TEST(PowerCut, SyncedFilesWithSyncedNamesSurvive) {
  MemoryFileSystem fs;
  put_and_sync(fs, "/f", "abc");
  PENSTOCK_EXPECT_OK(fs.sync_directory("/"));
  EXPECT_THAT(outcomes(fs, "/f"), UnorderedElementsAre("abc"));
}

TEST(PowerCut, ASyncedFileMayLoseItsName) {
  MemoryFileSystem fs;
  put_and_sync(fs, "/f", "abc");
  EXPECT_EQ(see(*fs.power_cut(0), "/f"), "not_found");
  EXPECT_THAT(outcomes(fs, "/f"), UnorderedElementsAre("abc", "not_found"));
}

TEST(PowerCut, ASyncedNameMayLeadToAnEmptyFile) {
  MemoryFileSystem fs;
  put(fs, "/f", "abc");
  PENSTOCK_EXPECT_OK(fs.sync_directory("/"));
  EXPECT_EQ(see(*fs.power_cut(0), "/f"), "");
  EXPECT_EQ(see(*fs.power_cut(1), "/f"), "abc");
  // The last: the size was written and the data was not.
  EXPECT_THAT(outcomes(fs, "/f"), UnorderedElementsAre("", "abc", std::string(3, '\0')));
}

TEST(PowerCut, RenameWithoutSyncOfTheFilePublishesAnEmptyOne) {
  MemoryFileSystem fs;
  put_and_sync(fs, "/f", "old");
  PENSTOCK_EXPECT_OK(fs.sync_directory("/"));
  put(fs, "/f.tmp", "new");
  PENSTOCK_EXPECT_OK(fs.rename("/f.tmp", "/f"));
  EXPECT_THAT(outcomes(fs, "/f"), Contains(""));
  PENSTOCK_EXPECT_OK(fs.sync_directory("/"));
  EXPECT_EQ(see(*fs.power_cut(0), "/f"), "");
}

TEST(PowerCut, RenameWithoutSyncOfTheDirectoryMayBeLost) {
  MemoryFileSystem fs;
  put_and_sync(fs, "/f", "old");
  put_and_sync(fs, "/f.tmp", "new");
  PENSTOCK_EXPECT_OK(fs.sync_directory("/"));
  PENSTOCK_EXPECT_OK(fs.rename("/f.tmp", "/f"));
  EXPECT_THAT(outcomes(fs, "/f"), UnorderedElementsAre("old", "new"));
  EXPECT_THAT(outcomes(fs, "/f.tmp"), UnorderedElementsAre("not_found", "new"));
}

TEST(PowerCut, ARenameIsAllOrNothing) {
  MemoryFileSystem fs;
  PENSTOCK_EXPECT_OK(fs.make_directory("/from"));
  PENSTOCK_EXPECT_OK(fs.make_directory("/to"));
  put_and_sync(fs, "/from/f", "abc");
  PENSTOCK_EXPECT_OK(fs.sync_file_system("/"));
  PENSTOCK_EXPECT_OK(fs.rename("/from/f", "/to/g"));
  std::set<std::pair<std::string, std::string>> seen;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto after = fs.power_cut(seed);
    seen.emplace(see(*after, "/from/f"), see(*after, "/to/g"));
  }
  EXPECT_THAT(seen,
              UnorderedElementsAre(std::pair("abc", "not_found"), std::pair("not_found", "abc")));
  // Either directory's sync settles it.
  for (const char* directory : {"/from", "/to"}) {
    const auto copy = fs.clone();
    PENSTOCK_EXPECT_OK(copy->sync_directory(directory));
    EXPECT_THAT(outcomes(*copy, "/to/g"), UnorderedElementsAre("abc"));
    EXPECT_THAT(outcomes(*copy, "/from/f"), UnorderedElementsAre("not_found"));
  }
}

TEST(PowerCut, MovingNeverLosesAFile) {
  MemoryFileSystem fs;
  PENSTOCK_EXPECT_OK(fs.make_directory("/old"));
  put_and_sync(fs, "/old/f", "abc");
  PENSTOCK_EXPECT_OK(fs.sync_file_system("/"));
  PENSTOCK_EXPECT_OK(make_directories(fs, "/new/deep"));
  PENSTOCK_EXPECT_OK(fs.rename("/old/f", "/new/deep/f"));
  PENSTOCK_EXPECT_OK(fs.remove_directory("/old"));
  PENSTOCK_EXPECT_OK(fs.rename("/new", "/newer"));
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto after = fs.power_cut(seed);
    int found = 0;
    for (const char* path : {"/old/f", "/new/deep/f", "/newer/deep/f"}) {
      found += see(*after, path) == "abc" ? 1 : 0;
    }
    EXPECT_EQ(found, 1) << "seed " << seed;
  }
  PENSTOCK_EXPECT_OK(fs.sync_directory("/newer/deep"));
  EXPECT_THAT(outcomes(fs, "/old/f"), UnorderedElementsAre("not_found"));
}

TEST(PowerCut, ADirectorysSyncDoesNotCoverItsOwnName) {
  MemoryFileSystem fs;
  PENSTOCK_EXPECT_OK(fs.make_directory("/d"));
  put_and_sync(fs, "/d/f", "abc");
  PENSTOCK_EXPECT_OK(fs.sync_directory("/d"));
  EXPECT_THAT(outcomes(fs, "/d/f"), UnorderedElementsAre("abc", "not_found"));
  EXPECT_EQ(dump_of(*fs.power_cut(0)).size(), 0u);
  PENSTOCK_EXPECT_OK(fs.sync_directory("/"));
  EXPECT_THAT(outcomes(fs, "/d/f"), UnorderedElementsAre("abc"));
}

TEST(PowerCut, ARemovedFileMayComeBack) {
  MemoryFileSystem fs;
  put_and_sync(fs, "/f", "abc");
  PENSTOCK_EXPECT_OK(fs.sync_directory("/"));
  PENSTOCK_EXPECT_OK(fs.remove("/f"));
  EXPECT_THAT(outcomes(fs, "/f"), UnorderedElementsAre("abc", "not_found"));
  PENSTOCK_EXPECT_OK(fs.sync_directory("/"));
  EXPECT_THAT(outcomes(fs, "/f"), UnorderedElementsAre("not_found"));
}

TEST(PowerCut, NamesFollowNoOrder) {
  MemoryFileSystem fs;
  put_and_sync(fs, "/old", "abc");
  PENSTOCK_EXPECT_OK(fs.sync_directory("/"));
  put_and_sync(fs, "/new", "def");
  PENSTOCK_EXPECT_OK(fs.remove("/old"));
  std::set<size_t> files;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) files.insert(dump_of(*fs.power_cut(seed)).size());
  // None at all: the removal was kept, and the creation before it lost.
  EXPECT_THAT(files, UnorderedElementsAre(0u, 1u, 2u));
}

TEST(PowerCut, NamesMayAlsoComeBackInOrder) {
  constexpr size_t kFiles = 40;
  MemoryFileSystem fs;
  for (size_t i = 0; i < kFiles; ++i) put(fs, "/" + std::to_string(i), "");
  bool part = false;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto after = fs.power_cut(seed);
    size_t first_lost = 0;
    while (after->stat("/" + std::to_string(first_lost)).ok()) ++first_lost;
    // With each one on its own, ten and no more in a row would be a rare accident.
    part =
        part || (first_lost >= 10 && first_lost < kFiles && dump_of(*after).size() == first_lost);
  }
  EXPECT_TRUE(part);
}

TEST(PowerCut, WritesTearAtSectors) {
  MemoryFileSystem fs;
  put_and_sync(fs, "/f", std::string(4 * 4096, 'a'));
  PENSTOCK_EXPECT_OK(fs.sync_directory("/"));
  put(fs, "/f", std::string(4 * 4096, 'b'));
  bool torn = false;
  for (const std::string& text : outcomes(fs, "/f")) {
    ASSERT_EQ(text.size(), 4u * 4096);
    std::set<char> seen;
    for (size_t at = 0; at < text.size(); at += 512) {
      EXPECT_EQ(text.substr(at, 512), std::string(512, text[at]));
      seen.insert(text[at]);
    }
    EXPECT_THAT(seen, Each(AnyOf('a', 'b')));
    torn = torn || seen.size() == 2;
  }
  EXPECT_TRUE(torn);
}

TEST(PowerCut, WritesFollowNoOrder) {
  MemoryFileSystem fs;
  put_and_sync(fs, "/f", std::string(1024, '-'));
  PENSTOCK_EXPECT_OK(fs.sync_directory("/"));
  const auto file = create(fs, "/f");
  PENSTOCK_EXPECT_OK(write_string(*file, 0, "1"));
  PENSTOCK_EXPECT_OK(write_string(*file, 512, "2"));
  std::set<std::string> seen;
  for (const std::string& text : outcomes(fs, "/f")) seen.insert({text[0], text[512]});
  EXPECT_THAT(seen, UnorderedElementsAre("--", "1-", "-2", "12"));
}

TEST(PowerCut, ASectorIsWrittenAsItWas) {
  MemoryFileSystem fs;
  put_and_sync(fs, "/f", "....");
  PENSTOCK_EXPECT_OK(fs.sync_directory("/"));
  const auto file = create(fs, "/f");
  PENSTOCK_EXPECT_OK(write_string(*file, 0, "1"));
  PENSTOCK_EXPECT_OK(write_string(*file, 2, "2"));
  EXPECT_THAT(outcomes(fs, "/f"), UnorderedElementsAre("....", "1...", "1.2."));
}

TEST(PowerCut, TruncationKeepsItsPlace) {
  MemoryFileSystem fs;
  const std::string old(2048, 'a');
  put_and_sync(fs, "/f", old);
  PENSTOCK_EXPECT_OK(fs.sync_directory("/"));
  const auto file = create(fs, "/f");
  PENSTOCK_EXPECT_OK(file->truncate(0));
  PENSTOCK_EXPECT_OK(write_string(*file, 0, "bbb"));
  // Never new bytes among the old ones: those went to blocks that the lost truncation left alone.
  EXPECT_THAT(outcomes(fs, "/f"), UnorderedElementsAre(old, "", "bbb", std::string(3, '\0')));
  PENSTOCK_EXPECT_OK(file->data_sync());
  EXPECT_THAT(outcomes(fs, "/f"), UnorderedElementsAre("bbb"));
}

TEST(PowerCut, ASyncCoversNoWriteInFlight) {
  MemoryFileSystem fs;
  put_and_sync(fs, "/f", "...");
  PENSTOCK_EXPECT_OK(fs.sync_directory("/"));
  const auto file = create(fs, "/f");
  std::latch hold(1);
  std::latch written(1);
  std::byte byte{};
  file->submit(IoRequest::read(0, std::span(&byte, 1), [&](Result<size_t>) { hold.wait(); }));
  file->submit(IoRequest::write(0, std::as_bytes(std::span("new", 3)),
                                [&](Result<size_t>) { written.count_down(); }));
  PENSTOCK_EXPECT_OK(file->sync());
  EXPECT_EQ(see(*fs.power_cut(0), "/f"), "...");
  EXPECT_EQ(see(fs, "/f"), "new");
  hold.count_down();
  written.wait();
  PENSTOCK_EXPECT_OK(file->sync());
  EXPECT_THAT(outcomes(fs, "/f"), UnorderedElementsAre("new"));
}

TEST(PowerCut, SyncFileSystemCoversAll) {
  MemoryFileSystem fs;
  PENSTOCK_EXPECT_OK(make_directories(fs, "/a/b"));
  put(fs, "/a/b/f", "abc");
  put(fs, "/g", std::string(10000, 'g'));
  PENSTOCK_EXPECT_OK(fs.make_symlink("g", "/link"));
  PENSTOCK_EXPECT_OK(fs.sync_file_system("/g"));
  for (uint64_t seed = 0; seed < 20; ++seed) EXPECT_EQ(dump_of(*fs.power_cut(seed)), dump_of(fs));
}

TEST(PowerCut, AttributesLastOnceSynced) {
  MemoryFileSystem fs;
  const auto file = create(fs, "/f");
  PENSTOCK_EXPECT_OK(file->sync());
  PENSTOCK_EXPECT_OK(fs.sync_directory("/"));
  const auto seen = [&fs] {
    std::set<std::pair<uint32_t, bool>> all;  // The mode, and whether the time is the one set.
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      const FileInfo info = *fs.power_cut(seed)->stat("/f");
      all.emplace(info.mode, info.mtime_ns == 1000);
    }
    return all;
  };
  PENSTOCK_EXPECT_OK(file->set_attributes(0600, 1000));
  PENSTOCK_EXPECT_OK(file->data_sync());
  EXPECT_THAT(seen(), UnorderedElementsAre(std::pair(0644u, false), std::pair(0600u, true)));
  PENSTOCK_EXPECT_OK(file->sync());
  EXPECT_THAT(seen(), UnorderedElementsAre(std::pair(0600u, true)));
}

TEST(PowerCut, ALinkLastsOnceItsDirectoryIsSynced) {
  MemoryFileSystem fs;
  PENSTOCK_EXPECT_OK(fs.make_symlink("target", "/link"));
  PENSTOCK_EXPECT_ERROR(fs.power_cut(0)->stat_link("/link"), kNotFound);
  PENSTOCK_EXPECT_OK(fs.sync_directory("/"));
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(*fs.power_cut(seed)->read_link("/link"), "target");
  }
}

TEST(PowerCut, AFailedSyncIsFinal) {
  MemoryFileSystem fs;
  put_and_sync(fs, "/f", "old");
  PENSTOCK_EXPECT_OK(fs.sync_directory("/"));
  const auto file = create(fs, "/f");
  PENSTOCK_EXPECT_OK(write_string(*file, 0, "new"));
  fs.fail_sync(*file);
  PENSTOCK_EXPECT_OK(file->sync());
  EXPECT_EQ(see(fs, "/f"), "new");
  EXPECT_THAT(outcomes(fs, "/f"), UnorderedElementsAre("old", "new"));
  // What is written again is written back again.
  PENSTOCK_EXPECT_OK(write_string(*file, 0, "NEW"));
  PENSTOCK_EXPECT_OK(file->sync());
  EXPECT_THAT(outcomes(fs, "/f"), UnorderedElementsAre("NEW"));
}

TEST(PowerCut, LostWritesNeverUndoSyncedOnes) {
  MemoryFileSystem fs;
  const auto file = create(fs, "/f");
  PENSTOCK_EXPECT_OK(fs.sync_directory("/"));
  PENSTOCK_EXPECT_OK(write_string(*file, 0, std::string(8192, 'a')));
  fs.fail_sync(*file);
  PENSTOCK_EXPECT_OK(write_string(*file, 600, "b"));
  PENSTOCK_EXPECT_OK(file->truncate(1024));
  PENSTOCK_EXPECT_OK(file->sync());
  for (const std::string& text : outcomes(fs, "/f")) {
    ASSERT_EQ(text.size(), 1024u);
    EXPECT_EQ(text[600], 'b');
    EXPECT_THAT(text[0], AnyOf('a', '\0'));
  }
}

TEST(PowerCut, GivesTheSameForTheSameSeedUnderANewBoot) {
  MemoryFileSystem fs;
  for (int i = 0; i < 20; ++i) put(fs, "/" + std::to_string(i), std::string(3000, 'x'));
  std::set<Dump> seen;
  for (uint64_t seed = 2; seed < 12; ++seed) {
    EXPECT_EQ(dump_of(*fs.power_cut(seed)), dump_of(*fs.power_cut(seed)));
    seen.insert(dump_of(*fs.power_cut(seed)));
  }
  EXPECT_GT(seen.size(), 5u);
  const auto after = fs.power_cut(7);
  EXPECT_NE(after->boot_id(), fs.boot_id());
  EXPECT_NE(after->power_cut(0)->boot_id(), after->boot_id());
  EXPECT_EQ(dump_of(*after->power_cut(0)), dump_of(*after));  // All that came back is durable.
}

// Changes a small tree at random, with syncs now and then.
class RandomChanges {
 public:
  RandomChanges(MemoryFileSystem& fs, uint64_t seed) : fs_(fs), random_(seed) {}

  // Most steps fail, as the paths are chosen blindly; what matters is what the others leave.
  void step() {
    switch (random_() % 10) {
      case 0:
      case 1:
        return (void)fs_.make_directory(path());
      case 2:
      case 3:
      case 4:
        return write();
      case 5:
        return (void)fs_.remove(path());
      case 6:
        return (void)fs_.remove_directory(path());
      case 7:
      case 8:
        return (void)fs_.rename(path(), path());
      default:
        if (random_() % 2 == 0) return (void)fs_.sync_directory(parent_path(path()));
        if (random_() % 10 == 0) (void)fs_.sync_file_system("/");
    }
  }

 private:
  std::string path() {
    std::string made;
    for (uint64_t depth = 1 + random_() % 3; depth > 0; --depth) {
      made += std::string("/") + static_cast<char>('a' + random_() % 4);
    }
    return made;
  }

  void write() {
    const auto file =
        fs_.open(path(), {.access = Access::kReadWrite, .create = Create::kIfMissing});
    if (!file.ok()) return;
    const std::string text(1 + random_() % 9000, static_cast<char>('a' + random_() % 26));
    PENSTOCK_EXPECT_OK(write_string(**file, random_() % 9000, text));
    if (random_() % 4 == 0) (void)(*file)->truncate(random_() % 9000);
    if (random_() % 8 == 0) fs_.fail_sync(**file);
    if (random_() % 2 == 0) (void)(*file)->sync();
    if (random_() % 8 == 0) (void)fs_.remove(path());
  }

  MemoryFileSystem& fs_;
  std::mt19937_64 random_;
};

uint64_t allocated_below(FileSystem& fs, const std::string& path) {
  uint64_t sum = 0;
  PENSTOCK_EXPECT_OK(fs.list(path + "/", [&](const DirectoryEntry& entry) {
    const std::string child = path + "/" + entry.name;
    sum += fs.stat(child)->allocated_bytes;
    if (entry.kind == FileKind::kDirectory) sum += allocated_below(fs, child);
    return true;
  }));
  return sum;
}

void expect_sound(FileSystem& fs) {
  const SpaceInfo space = *fs.space("/");
  EXPECT_EQ(space.total_bytes - space.free_bytes, allocated_below(fs, ""));
  EXPECT_EQ(space.total_inodes - space.free_inodes, dump_of(fs).size() + 1);
}

TEST(PowerCut, RandomHistoriesLeaveSoundTrees) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    MemoryFileSystem fs({.inode_limit = 1000});
    RandomChanges changes(fs, seed);
    for (int i = 0; i < 150; ++i) changes.step();
    expect_sound(fs);
    EXPECT_EQ(dump_of(*fs.power_cut(1)), dump_of(fs));
    for (uint64_t cut = 0; cut < 10; ++cut) expect_sound(*fs.power_cut(cut));
    // Life goes on after the cut, and after that one.
    const auto after = fs.power_cut(seed + 100);
    RandomChanges more(*after, seed);
    for (int i = 0; i < 50; ++i) more.step();
    expect_sound(*after->power_cut(seed));
  }
}

}  // namespace
}  // namespace penstock::io
