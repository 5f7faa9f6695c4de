// What somebody else put into the directory is not followed, not harmed, and not mistaken for ours.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "cache/directory_test_support.h"

namespace penstock::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST_P(CacheDirectoryTest, LinksPlantedForEntriesAreNotFollowed) {
  const auto directory = open();
  const EntryKey key = test_key(5000);
  ASSERT_TRUE(succeeded(publish(*directory, key)));
  const std::string path = directory->path_of(name_of(key));
  ASSERT_TRUE(succeeded(fs().rename(path, base("victim"))));  // A good entry, behind a link.
  const std::string precious = get_file(fs(), base("victim"));

  make_link(base("victim"), path);
  EXPECT_TRUE(failed_with(directory->open_entry(name_of(key)), ErrorCode::kNotFound));
  EXPECT_TRUE(succeeded(directory->drop(name_of(key))));
  EXPECT_TRUE(failed_with(fs().stat_link(path), ErrorCode::kNotFound));
  EXPECT_EQ(get_file(fs(), base("victim")), precious);

  make_link(base("victim"), path);
  ASSERT_TRUE(succeeded(publish(*directory, key, 2)));
  EXPECT_EQ(*read_entry(*directory, key), random_bytes(5000, 2));
  EXPECT_EQ(get_file(fs(), base("victim")), precious);
  EXPECT_EQ(fs().stat_link(path)->kind, io::FileKind::kFile);
}

TEST_P(CacheDirectoryTest, ADirectoryPlantedForAnEntryStays) {
  const auto directory = open();
  const EntryKey key = test_key(5000);
  const std::string path = directory->path_of(name_of(key));
  ASSERT_TRUE(succeeded(io::make_directories(fs(), path)));
  put_file(fs(), path + "/precious", "x");
  EXPECT_TRUE(failed_with(directory->open_entry(name_of(key)), ErrorCode::kNotFound));
  EXPECT_TRUE(failed_with(publish(*directory, key), ErrorCode::kInvalid));
  EXPECT_TRUE(failed_with(directory->drop(name_of(key)), ErrorCode::kInvalid));
  EXPECT_THAT(names_in(fs(), path), ElementsAre("precious"));
  EXPECT_THAT(names_in(fs(), root("tmp")), IsEmpty());
}

TEST_P(CacheDirectoryTest, PartsOfTheLayoutAreNoLinks) {
  ASSERT_NE(open(), nullptr);
  for (const char* name : {"entries", "tmp", "members"}) {
    ASSERT_TRUE(succeeded(fs().remove_directory(root(name))));
    make_link("..", root(name));
    for (const bool must_exist : {false, true}) {
      const auto opened = try_open(must_exist);
      EXPECT_TRUE(failed_with(opened, ErrorCode::kCorrupt)) << name;
      EXPECT_THAT(opened.error().detail, ::testing::HasSubstr(root(name) + " is a symbolic link"));
    }
    ASSERT_TRUE(succeeded(fs().remove(root(name))));
    put_file(fs(), root(name), "");
    EXPECT_TRUE(failed_with(try_open(), ErrorCode::kCorrupt)) << name;
    ASSERT_TRUE(succeeded(fs().remove(root(name))));
    EXPECT_TRUE(succeeded(try_open())) << name;
  }
}

TEST_P(CacheDirectoryTest, FilesOfTheLayoutAreNoLinks) {
  ASSERT_NE(open(), nullptr);
  for (const char* name : {"penstock-cache", "state", "index", "evictor.lock"}) {
    if (fs().stat_link(root(name)).ok()) {
      ASSERT_TRUE(succeeded(fs().rename(root(name), base("victim"))));
    } else {
      put_file(fs(), base("victim"), "precious");
    }
    const std::string precious = get_file(fs(), base("victim"));
    make_link(base("victim"), root(name));
    for (const bool must_exist : {false, true}) {
      const auto opened = try_open(must_exist);
      EXPECT_TRUE(failed_with(opened, ErrorCode::kCorrupt)) << name;
      EXPECT_THAT(opened.error().detail, ::testing::HasSubstr(root(name) + " is a symbolic link"));
    }
    EXPECT_EQ(get_file(fs(), base("victim")), precious);
    ASSERT_TRUE(succeeded(fs().rename(base("victim"), root(name))));
  }
}

TEST_P(CacheDirectoryTest, NothingIsWrittenOrRemovedThroughALinkOnTheWay) {
  const auto directory = open();
  const EntryKey key = test_key(5000);
  ASSERT_TRUE(succeeded(publish(*directory, key)));
  const std::string part = io::parent_path(directory->path_of(name_of(key)));
  ASSERT_TRUE(succeeded(fs().rename(part, base("elsewhere"))));
  make_link(base("elsewhere"), part);
  const std::vector<std::string> before = names_in(fs(), base("elsewhere"));

  EXPECT_TRUE(failed_with(directory->drop(name_of(key)), ErrorCode::kInvalid));
  ASSERT_TRUE(succeeded(fs().remove(base("elsewhere/" + name_of(key).text()))));
  EXPECT_TRUE(failed_with(publish(*directory, key), ErrorCode::kInvalid));
  EXPECT_EQ(names_in(fs(), base("elsewhere")).size(), before.size() - 1);
  const auto opened = try_open();
  EXPECT_TRUE(failed_with(opened, ErrorCode::kCorrupt));
  EXPECT_THAT(opened.error().detail, ::testing::HasSubstr(part + " is a symbolic link"));

  ASSERT_TRUE(succeeded(fs().remove(part)));
  ASSERT_TRUE(succeeded(publish(*directory, key)));
  ASSERT_TRUE(succeeded(fs().rename(root("entries"), base("all"))));
  make_link(base("all"), root("entries"));
  EXPECT_TRUE(failed_with(directory->drop(name_of(key)), ErrorCode::kInvalid));
  EXPECT_TRUE(failed_with(publish(*directory, test_key(6000)), ErrorCode::kInvalid));
  EXPECT_EQ(names_in(fs(), base("all")).size(), 1u);
  ASSERT_TRUE(succeeded(fs().remove(root("entries"))));
  ASSERT_TRUE(succeeded(fs().rename(base("all"), root("entries"))));

  put_file(fs(), root("tmp/1-0123456789abcdef-1"), "of a dead member");
  ASSERT_TRUE(succeeded(fs().rename(root("tmp"), base("temporary"))));
  make_link(base("temporary"), root("tmp"));
  EXPECT_TRUE(failed_with(publish(*directory, key), ErrorCode::kInvalid));
  EXPECT_TRUE(failed_with(directory->sweep(), ErrorCode::kInvalid));
  EXPECT_THAT(names_in(fs(), base("temporary")), ElementsAre("1-0123456789abcdef-1"));
}

TEST_P(CacheDirectoryTest, ScanTellsOursFromOthers) {
  const auto directory = open();
  std::vector<EntryName> ours;
  for (uint32_t i = 1; i <= 300; ++i) {  // In most parts.
    const EntryKey key = test_key(i);
    ours.push_back(name_of(key));
    ASSERT_TRUE(
        succeeded(io::make_directories(fs(), io::parent_path(directory->path_of(ours.back())))));
    put_file(fs(), directory->path_of(ours.back()), "");
  }
  EXPECT_THAT(scanned(*directory), ::testing::UnorderedElementsAreArray(ours));

  const std::string good = EntryName{{0xab00000000000000, 1}, 2}.text();
  const std::vector<std::string> others = {root("entries/file"), root("entries/ab/file"),
                                           root("entries/ab/" + good + ".tmp"),
                                           root("entries/cd/" + good)};  // In another's part.
  ASSERT_TRUE(succeeded(io::make_directories(fs(), root("entries/cd"))));
  ASSERT_TRUE(succeeded(io::make_directories(fs(), root("entries/ab"))));
  for (const std::string& path : others) put_file(fs(), path, "");
  make_link(root("entries/ab"), root("entries/zz"));
  ASSERT_TRUE(succeeded(io::make_directories(fs(), root("entries/AB/x"))));
  make_link(others[0], root("entries/ab/" + good));
  ASSERT_TRUE(succeeded(
      fs().make_directory(root("entries/ab/" + EntryName{{0xab00000000000000, 2}, 2}.text()))));

  std::vector<std::string> foreign;
  std::vector<EntryName> seen;
  EXPECT_TRUE(succeeded(directory->scan(
      [&](const EntryName& name) {
        seen.push_back(name);
        return true;
      },
      [&](const std::string& path) { foreign.push_back(path); })));
  EXPECT_THAT(seen, ::testing::UnorderedElementsAreArray(ours));
  EXPECT_THAT(foreign, UnorderedElementsAre(
                           others[0], others[1], others[2], others[3], root("entries/zz"),
                           root("entries/AB"), root("entries/ab/" + good),
                           root("entries/ab/" + EntryName{{0xab00000000000000, 2}, 2}.text())));
  for (const std::string& path : others) EXPECT_TRUE(succeeded(fs().stat(path)));
}

TEST_P(CacheDirectoryTest, OnlyAnEmptyDirectoryBecomesACache) {
  ASSERT_TRUE(succeeded(fs().make_directory(root())));
  ASSERT_TRUE(succeeded(fs().make_directory(root("lost+found"))));
  put_file(fs(), root("penstock-cache.tmp-12-0"), "pen");  // One died while making it.
  EXPECT_TRUE(succeeded(try_open()));

  for (const bool must_exist : {false, true}) {
    ASSERT_TRUE(succeeded(io::remove_tree(fs(), root())));
    ASSERT_TRUE(succeeded(fs().make_directory(root())));
    put_file(fs(), root("thesis.tex"), "years of work");
    EXPECT_TRUE(
        failed_with(try_open(must_exist), must_exist ? ErrorCode::kNotFound : ErrorCode::kInvalid));
    EXPECT_THAT(names_in(fs(), root()), ElementsAre("thesis.tex"));
  }
  ASSERT_TRUE(succeeded(io::remove_tree(fs(), root())));
  put_file(fs(), root(), "a file");
  EXPECT_TRUE(failed_with(try_open(), ErrorCode::kInvalid));
  EXPECT_TRUE(failed_with(try_open(/*must_exist=*/true), ErrorCode::kInvalid));
}

TEST_P(CacheDirectoryTest, NoCacheIsMadeInsideAnother) {
  ASSERT_NE(open(), nullptr);
  make_link(root(), base("alias"));
  for (const std::string& path : {root("entries/sub"), root("sub/deep"), base("alias/sub")}) {
    const auto opened = CacheDirectory::open(fs(), path, io::CacheMode::kDirect);
    EXPECT_TRUE(failed_with(opened, ErrorCode::kInvalid)) << path;
    EXPECT_THAT(opened.error().detail, ::testing::HasSubstr("inside the cache"));
    EXPECT_TRUE(failed_with(fs().stat(path), ErrorCode::kNotFound)) << path;
  }
}

TEST_P(CacheDirectoryTest, MarkersOfOthersAreRefused) {
  ASSERT_TRUE(succeeded(fs().make_directory(root())));
  const auto opened = [&](std::string_view marker, bool must_exist) {
    put_file(fs(), root("penstock-cache"), marker);
    return try_open(must_exist);
  };
  const std::string title = "penstock cache\n";
  for (const bool must_exist : {true, false}) {
    for (const std::string& newer :
         {title + "version 2\ncompatible 0\nincompatible 0\n",
          title + "version 1\ncompatible 0\nincompatible 4\n",
          title + "version 1\ncompatible 0\nincompatible 99999999999\n"}) {
      EXPECT_TRUE(failed_with(opened(newer, must_exist), ErrorCode::kUnsupported)) << newer;
    }
    for (const std::string& damaged :
         {title, title + "version 1\n", title + "version \nincompatible 0\n",
          title + "version x\nincompatible 0\n", title + "version 1\nincompatible 0",
          title + "version 1\nincompatible 99999999999999999999999\n"}) {
      EXPECT_TRUE(failed_with(opened(damaged, must_exist), ErrorCode::kCorrupt)) << damaged;
    }
    for (const std::string& other : {std::string(), std::string("penstock file store\nversion 1\n"),
                                     std::string(100'000, 'x')}) {
      EXPECT_TRUE(failed_with(opened(other, must_exist), ErrorCode::kInvalid));
    }
    EXPECT_THAT(names_in(fs(), root()), ElementsAre("penstock-cache"));
  }
  // What may be ignored is, and is kept.
  const std::string later = title + "version 1\ncompatible 8\nincompatible 0\nmore 5\n";
  EXPECT_TRUE(succeeded(opened(later, false)));
  EXPECT_EQ(get_file(fs(), root("penstock-cache")), later);
}

// Only a real disk has these.
class PlantedOnDisk : public CacheDirectoryTest {};
INSTANTIATE_TEST_SUITE_P(On, PlantedOnDisk, ::testing::Values(Disk::kReal),
                         [](const auto&) { return "RealDisk"; });

TEST_P(PlantedOnDisk, AFileWithASecondNameIsNotCut) {
  const auto directory = open();
  const EntryKey key = test_key(5000);
  const std::string path = directory->path_of(name_of(key));
  ASSERT_TRUE(succeeded(io::make_directories(fs(), io::parent_path(path))));
  put_file(fs(), base("victim"), "years of work");
  std::filesystem::create_hard_link(base("victim"), path);
  EXPECT_TRUE(failed_with(read_entry(*directory, key), ErrorCode::kCorrupt));
  EXPECT_TRUE(succeeded(directory->drop(name_of(key))));
  EXPECT_TRUE(failed_with(fs().stat_link(path), ErrorCode::kNotFound));
  EXPECT_EQ(get_file(fs(), base("victim")), "years of work");

  std::filesystem::create_hard_link(base("victim"), path);
  EXPECT_TRUE(succeeded(publish(*directory, key)));
  EXPECT_EQ(*read_entry(*directory, key), random_bytes(5000, 1));
  EXPECT_EQ(get_file(fs(), base("victim")), "years of work");
}

TEST_P(PlantedOnDisk, NobodyWaitsForAPipe) {
  const auto directory = open();
  const EntryKey key = test_key(5000);
  const std::string path = directory->path_of(name_of(key));
  ASSERT_TRUE(succeeded(io::make_directories(fs(), io::parent_path(path))));
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_TRUE(failed_with(directory->open_entry(name_of(key)), ErrorCode::kNotFound));
  EXPECT_THAT(scanned(*directory), IsEmpty());
  EXPECT_TRUE(succeeded(directory->drop(name_of(key))));
  EXPECT_TRUE(failed_with(fs().stat_link(path), ErrorCode::kNotFound));
}

TEST_P(PlantedOnDisk, AFileThatWeMayNotWriteIsStillRemoved) {
  const auto directory = open();
  const EntryKey key = test_key(5000);
  ASSERT_TRUE(succeeded(publish(*directory, key)));
  std::filesystem::permissions(directory->path_of(name_of(key)),
                               std::filesystem::perms::owner_read);
  EXPECT_EQ(*read_entry(*directory, key), random_bytes(5000, 1));
  EXPECT_TRUE(succeeded(directory->drop(name_of(key))));
  EXPECT_THAT(scanned(*directory), IsEmpty());
}

}  // namespace
}  // namespace penstock::cache
