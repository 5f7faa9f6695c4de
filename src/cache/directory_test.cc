// What directory.h promises, in memory and on a real disk.
#include "cache/directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "cache/directory_test_support.h"
#include "penstock/buffer.h"

namespace penstock::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

INSTANTIATE_TEST_SUITE_P(On, CacheDirectoryTest, ::testing::Values(Disk::kMemory, Disk::kReal),
                         [](const auto& param) {
                           return param.param == Disk::kMemory ? "Memory" : "RealDisk";
                         });

TEST_P(CacheDirectoryTest, MakesWhatIsMissing) {
  const auto directory = CacheDirectory::open(fs(), base("a/b/cache//"), io::CacheMode::kDirect);
  ASSERT_TRUE(succeeded(directory));
  EXPECT_EQ((*directory)->path(), base("a/b/cache"));
  EXPECT_EQ(&(*directory)->file_system(), &fs());
  EXPECT_THAT(names_in(fs(), base("a/b/cache")),
              ElementsAre("entries", "members", "penstock-cache", "tmp"));
  EXPECT_EQ(get_file(fs(), base("a/b/cache/penstock-cache")), kTestMarker);
}

TEST_P(CacheDirectoryTest, EveryOpeningIsAMemberOfItsOwn) {
  const auto one = open();
  const auto two = open();
  EXPECT_NE(one->member(), two->member());
  EXPECT_THAT(one->member(), ::testing::MatchesRegex("[0-9]+-[0-9a-f]{16}"));
}

TEST_P(CacheDirectoryTest, WhatOnePublishesAnotherReads) {
  for (const io::CacheMode mode : {io::CacheMode::kDirect, io::CacheMode::kBuffered}) {
    const auto one = open(mode);
    const auto two = open(mode);
    for (const uint32_t length : {1u, 5000u, 300'000u}) {
      const EntryKey key = test_key(length);
      EXPECT_TRUE(failed_with(two->open_entry(name_of(key)), ErrorCode::kNotFound));
      ASSERT_TRUE(succeeded(publish(*one, key)));
      EXPECT_EQ(*read_entry(*two, key), random_bytes(length, 1));
      EXPECT_EQ(fs().stat(one->path_of(name_of(key)))->size, name_of(key).file_bytes());
      EXPECT_THAT(scanned(*two), ElementsAre(name_of(key)));
      EXPECT_TRUE(succeeded(two->drop(name_of(key))));
      EXPECT_TRUE(failed_with(one->open_entry(name_of(key)), ErrorCode::kNotFound));
    }
    EXPECT_THAT(names_in(fs(), root("tmp")), IsEmpty());
  }
}

TEST_P(CacheDirectoryTest, AnEntryLiesWhereItsNameSays) {
  const auto directory = open();
  const EntryName name{{0x0f00000000000001, 0xabc}, 2};
  EXPECT_EQ(directory->path_of(name), root("entries/0f/0f000000000000010000000000000abc-2"));
}

TEST_P(CacheDirectoryTest, PublishTakesRegisteredMemory) {
  const auto directory = open();
  const auto buffers = io::BufferProvider::create(
      {.budget_bytes = 4 * kMiB, .registrar = local_ ? local_->registrar() : nullptr});
  ASSERT_TRUE(succeeded(buffers));
  const EntryKey key = test_key(300'000);
  const Bytes entry = make_entry(key);
  const io::Buffer buffer = std::move(*(*buffers)->take(entry.size()));
  std::ranges::copy(entry, buffer.data());
  ASSERT_TRUE(succeeded(directory->publish(name_of(key), buffer.slice())));
  EXPECT_EQ(*read_entry(*directory, key), random_bytes(key.length, 1));
}

TEST_P(CacheDirectoryTest, PublishReplaces) {
  const auto directory = open();
  const EntryKey key = test_key(5000);
  ASSERT_TRUE(succeeded(publish(*directory, key, 1)));
  const auto old = directory->open_entry(name_of(key));
  ASSERT_TRUE(succeeded(publish(*directory, key, 2)));
  EXPECT_EQ(*read_entry(*directory, key), random_bytes(5000, 2));
  Bytes bytes(file_bytes(key));
  EXPECT_EQ(*(*old)->read(0, bytes), bytes.size());  // Who has it open keeps what it was.
  EXPECT_EQ(bytes, make_entry(key, 1));
}

TEST_P(CacheDirectoryTest, PublishRefusesAnotherSize) {
  const auto directory = open();
  const EntryKey key = test_key(5000);
  Bytes entry = make_entry(key);
  entry.resize(entry.size() - kBlockBytes);
  EXPECT_TRUE(failed_with(directory->publish(name_of(key), std::span(entry)), ErrorCode::kInvalid));
  EXPECT_THAT(scanned(*directory), IsEmpty());
  EXPECT_THAT(names_in(fs(), root("tmp")), IsEmpty());
}

TEST_P(CacheDirectoryTest, PublishDoesNotMakeACacheThatIsGone) {
  const auto directory = open();
  ASSERT_TRUE(succeeded(io::remove_tree(fs(), root())));
  ASSERT_TRUE(succeeded(fs().make_directory(root())));  // The mount point of a drive that is gone.
  EXPECT_TRUE(failed_with(publish(*directory, test_key()), ErrorCode::kNotFound));
  EXPECT_THAT(names_in(fs(), root()), IsEmpty());
  ASSERT_TRUE(succeeded(fs().make_directory(root("tmp"))));
  EXPECT_TRUE(failed_with(publish(*directory, test_key()), ErrorCode::kNotFound));
  EXPECT_THAT(names_in(fs(), root("tmp")), IsEmpty());
}

TEST_P(CacheDirectoryTest, DropGivesSpaceBackUnderReaders) {
  const auto directory = open();
  const EntryKey key = test_key(300'000);
  ASSERT_TRUE(succeeded(publish(*directory, key)));
  const auto reader = directory->open_entry(name_of(key));
  ASSERT_TRUE(succeeded(reader));
  EXPECT_TRUE(succeeded(directory->drop(name_of(key))));
  EXPECT_EQ((*reader)->stat()->size, 0u);
  EXPECT_EQ((*reader)->stat()->allocated_bytes, 0u);
  Bytes bytes(4096);
  EXPECT_EQ(*(*reader)->read(0, bytes), 0u);
  EXPECT_TRUE(succeeded(directory->drop(name_of(key))));  // Not there any more: fine.
}

TEST_P(CacheDirectoryTest, ProbeLeavesNothing) {
  for (const io::CacheMode mode : {io::CacheMode::kDirect, io::CacheMode::kBuffered}) {
    const auto directory = open(mode);
    EXPECT_TRUE(succeeded(directory->probe()));
    EXPECT_THAT(names_in(fs(), root("tmp")), IsEmpty());
    EXPECT_GT(directory->space()->total_bytes, 0u);
  }
  const auto directory = open();
  ASSERT_TRUE(succeeded(fs().remove_directory(root("tmp"))));
  EXPECT_TRUE(failed_with(directory->probe(), ErrorCode::kNotFound));
}

TEST_P(CacheDirectoryTest, MustExistMakesNothing) {
  EXPECT_TRUE(failed_with(try_open(/*must_exist=*/true), ErrorCode::kNotFound));
  EXPECT_TRUE(failed_with(fs().stat(root()), ErrorCode::kNotFound));
  ASSERT_TRUE(succeeded(fs().make_directory(root())));
  EXPECT_TRUE(failed_with(try_open(/*must_exist=*/true), ErrorCode::kNotFound));
  EXPECT_THAT(names_in(fs(), root()), IsEmpty());
  put_file(fs(), root("penstock-cache"), kTestMarker);
  EXPECT_TRUE(succeeded(try_open(/*must_exist=*/true)));
  EXPECT_THAT(names_in(fs(), root()), ElementsAre("penstock-cache"));
}

TEST_P(CacheDirectoryTest, ScanStopsWhenToldAndMayDrop) {
  const auto directory = open();
  for (uint32_t i = 1; i <= 20; ++i) ASSERT_TRUE(succeeded(publish(*directory, test_key(i))));
  int seen = 0;
  EXPECT_TRUE(succeeded(directory->scan([&](const EntryName&) { return ++seen < 7; })));
  EXPECT_EQ(seen, 7);
  EXPECT_TRUE(succeeded(directory->scan([&](const EntryName& name) {
    EXPECT_TRUE(succeeded(directory->drop(name)));
    return true;
  })));
  EXPECT_THAT(scanned(*directory), IsEmpty());
}

TEST_P(CacheDirectoryTest, ScanOfACacheThatIsGoneFails) {
  const auto directory = open();
  ASSERT_TRUE(succeeded(fs().remove_directory(root("entries"))));
  EXPECT_TRUE(
      failed_with(directory->scan([](const EntryName&) { return true; }), ErrorCode::kNotFound));
}

TEST_P(CacheDirectoryTest, ManyOpeningsAtOnceAllSucceed) {
  for (int round = 0; round < 5; ++round) {
    const std::string path = base(fmt::format("round-{}/cache", round));
    std::vector<std::thread> threads;
    for (int i = 0; i < 6; ++i) {
      threads.emplace_back([&] {
        const auto directory = open_cache(fs(), path);
        ASSERT_NE(directory, nullptr);
        EXPECT_TRUE(succeeded(publish(*directory, test_key())));
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_THAT(names_in(fs(), path), ElementsAre("entries", "members", "penstock-cache", "tmp"));
    EXPECT_EQ(*read_entry(*open_cache(fs(), path), test_key()), random_bytes(10'000, 1));
  }
}

// Readers get the right bytes or none, whatever others do to the entry meanwhile.
TEST_P(CacheDirectoryTest, ReadersBesidePublishersAndDroppers) {
  const auto directory = open();
  const EntryKey key = test_key(20'000);
  const Bytes expected = random_bytes(20'000, 1);
  std::atomic<bool> over = false;
  std::vector<std::thread> others;
  others.emplace_back([&] {
    while (!over) EXPECT_TRUE(succeeded(publish(*directory, key)));
  });
  others.emplace_back([&] {
    while (!over) EXPECT_TRUE(succeeded(directory->drop(name_of(key))));
  });
  int right = 0;
  for (int i = 0; i < 1'000'000 && right < 100; ++i) {
    const Result<Bytes> bytes = read_entry(*directory, key);
    if (bytes.ok()) {
      ++right;
      ASSERT_EQ(*bytes, expected);
    } else {
      ASSERT_TRUE(bytes.error().code == ErrorCode::kNotFound ||
                  bytes.error().code == ErrorCode::kCorrupt)
          << bytes.error().to_string();
    }
  }
  over = true;
  for (std::thread& thread : others) thread.join();
  EXPECT_GT(right, 0);
  EXPECT_THAT(names_in(fs(), root("tmp")), IsEmpty());
}

}  // namespace
}  // namespace penstock::cache
