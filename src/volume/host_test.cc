// What volumes promise while nothing goes wrong, and across deaths of their owner.
#include "volume/host_test_support.h"

namespace penstock::volume {
namespace {

using io::MemoryFileSystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Host, KeepsWhatWasWrittenWhereverItLies) {
  MemoryFileSystem fs;
  const Bytes bytes = random_bytes(300'000, 1);
  {
    const auto host = new_host(fs);
    const auto volume = *host->open("v");
    const meta::Ino file = make_file(*volume, "a");
    ASSERT_THAT(volume->write(file, 0, bytes), IsOk());
    EXPECT_EQ(content_of(*volume, "a"), bytes);  // From the journal.
    ASSERT_THAT(host->drain(kNoDeadline), IsOk());
    EXPECT_EQ(content_of(*volume, "a"), bytes);  // From the store.
    EXPECT_EQ(content_of(*volume, "a"), bytes);  // From memory.
    const auto status = host->status();
    ASSERT_THAT(status, IsOk());
    EXPECT_EQ(status->pending.content_bytes, 0u);
    EXPECT_EQ(status->objects, 1u);
    EXPECT_GT(status->live_bytes, bytes.size());
  }
  const auto host = same_host(fs);
  EXPECT_EQ(content_of(**host->open("v"), "a"), bytes);
}

TEST(Host, WhatReturnedSurvivesTheDeathOfTheProcess) {
  MemoryFileSystem fs;
  const auto host = new_host(fs);
  const auto volume = *host->open("v");
  const meta::Ino file = make_file(*volume, "a");
  const Bytes first = random_bytes(100'000, 1);
  ASSERT_THAT(volume->write(file, 0, first), IsOk());
  ASSERT_THAT(host->commit(), IsOk());
  const Bytes second = random_bytes(5'000, 2);
  ASSERT_THAT(volume->write(file, 100'000, second), IsOk());
  ASSERT_THAT(volume->rename(meta::kRoot, "a", meta::kRoot, "b", meta::Rename::kReplace), IsOk());

  const auto left = fs.clone();  // As it is now: nothing is closed.
  const auto again = same_host(*left);
  const auto found = *again->open("v");
  EXPECT_THAT(found->names().lookup(meta::kRoot, "a"), FailsWith(ErrorCode::kNotFound));
  Bytes both = first;
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(content_of(*found, "b"), both);
  EXPECT_EQ(found->names().lookup(meta::kRoot, "b")->ino, file);
}

TEST(Host, WhatWasSyncedSurvivesAPowerCut) {
  MemoryFileSystem fs;
  const auto host = new_host(fs);
  const auto volume = *host->open("v");
  const meta::Ino file = make_file(*volume, "a");
  const Bytes bytes = random_bytes(70'000, 3);
  ASSERT_THAT(volume->write(file, 0, bytes), IsOk());
  ASSERT_THAT(volume->sync(), IsOk());
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const auto after = fs.power_cut(seed);
    EXPECT_EQ(content_of(**same_host(*after)->open("v"), "a"), bytes);
  }
}

TEST(Host, OverwritesPunchesAndTruncatesAreSeenAtOnce) {
  MemoryFileSystem fs;
  const auto host = new_host(fs);
  const auto volume = *host->open("v");
  const meta::Ino file = make_file(*volume, "a");
  Bytes expected = random_bytes(200'000, 4);
  ASSERT_THAT(volume->write(file, 0, expected), IsOk());
  ASSERT_THAT(host->drain(kNoDeadline), IsOk());
  const Bytes patch = random_bytes(1'000, 5);
  ASSERT_THAT(volume->write(file, 50'000, patch), IsOk());
  std::ranges::copy(patch, expected.begin() + 50'000);
  ASSERT_THAT(volume->punch(file, 10'000, 20'000, /*zeros=*/false), IsOk());
  std::fill_n(expected.begin() + 10'000, 20'000, std::byte{0});
  ASSERT_THAT(volume->change(file, {.size = 150'000}), IsOk());
  expected.resize(150'000);
  ASSERT_THAT(volume->change(file, {.size = 160'000}), IsOk());
  expected.resize(160'000);
  EXPECT_EQ(content_of(*volume, file), expected);
  ASSERT_THAT(host->drain(kNoDeadline), IsOk());
  EXPECT_EQ(content_of(*volume, file), expected);
  EXPECT_EQ(content_of(**same_host(*fs.clone())->open("v"), file), expected);
}

TEST(Host, FilesWithoutANameLiveWhileTheyAreHeld) {
  MemoryFileSystem fs;
  const auto host = new_host(fs);
  const auto volume = *host->open("v");
  const meta::Ino file = make_file(*volume, "a");
  ASSERT_THAT(volume->hold(file), IsOk());
  const Bytes bytes = random_bytes(10'000, 6);
  ASSERT_THAT(volume->write(file, 0, bytes), IsOk());
  ASSERT_THAT(volume->unlink(meta::kRoot, "a"), IsOk());
  EXPECT_EQ(content_of(*volume, file), bytes);
  // Its owner dies: nobody has it open any more.
  const auto left = fs.clone();
  const auto again = same_host(*left);
  EXPECT_THAT((*again->open("v"))->names().inode(file), FailsWith(ErrorCode::kNotFound));
  volume->let_go(file);
  EXPECT_THAT(volume->names().inode(file), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(volume->hold(file), FailsWith(ErrorCode::kNotFound));
}

TEST(Host, PastVersionsStayWhatTheyWere) {
  MemoryFileSystem fs;
  const auto host = new_host(fs, {.name = "v", .retention = std::nullopt});
  const auto volume = *host->open("v");
  const meta::Ino file = make_file(*volume, "a");
  const Bytes before = random_bytes(100'000, 7);
  ASSERT_THAT(volume->write(file, 0, before), IsOk());
  const meta::Version version = *host->commit();
  const Bytes after = random_bytes(100'000, 8);
  ASSERT_THAT(volume->write(file, 0, after), IsOk());
  ASSERT_THAT(volume->unlink(meta::kRoot, "a"), IsOk());
  ASSERT_THAT(host->commit(), IsOk());
  const auto past = volume->at(version);
  ASSERT_THAT(past, IsOk());
  EXPECT_EQ(content_of(**past, "a"), before);
  ASSERT_THAT(host->drain(kNoDeadline), IsOk());
  EXPECT_EQ(content_of(**past, "a"), before);
  EXPECT_THAT(volume->names().lookup(meta::kRoot, "a"), FailsWith(ErrorCode::kNotFound));
}

TEST(Host, ChangesBetweenCommitsAreOneVersion) {
  MemoryFileSystem fs;
  const auto host = new_host(fs);
  const auto volume = *host->open("v");
  const meta::Ino file = make_file(*volume, "a");
  ASSERT_THAT(volume->write(file, 0, random_bytes(1'000, 1)), IsOk());
  const meta::Version first = *host->commit();
  ASSERT_THAT(host->commit(), IsOk());  // What was there before it is forgotten.
  for (int i = 0; i < 20; ++i) {
    ASSERT_THAT(volume->write(file, 0, random_bytes(1'000, 2)), IsOk());
    ASSERT_THAT(volume->change(file, {.permissions = 0600 + i % 8}), IsOk());
    ASSERT_THAT(volume->rename(meta::kRoot, i % 2 == 0 ? "a" : "b", meta::kRoot,
                               i % 2 == 0 ? "b" : "a", meta::Rename::kReplace),
                IsOk());
  }
  const meta::Version second = *host->commit();
  EXPECT_EQ(second, first + 1);
  // Of the root, the file, its name, its content and the totals, one row each at most.
  EXPECT_LE(host->database().purge(INT64_MAX, 1'000)->rows, 5u);
  // Nor are there versions of what nobody changed, or only looked at.
  ASSERT_THAT(volume->change(file, {.atime = 1}), IsOk());
  EXPECT_EQ(*host->commit(), second);
}

TEST(Host, WritersWaitForRoomAndSayWhatTheyWaitFor) {
  MemoryFileSystem fs;
  HostOptions options = quiet_options(fs);
  options.writeback.journal_bytes = 2 * options.segment_bytes;
  options.io_timeout = std::chrono::milliseconds(50);
  const auto host = *create_host(kHostPath, {.name = "v"}, options);
  const auto volume = *host->open("v");
  const meta::Ino file = make_file(*volume, "a");
  Result<void> written;
  uint64_t at = 0;
  while (written.ok() && at < kMiB) {
    written = volume->write(file, at, random_bytes(30'000, at + 1));
    at += 30'000;
  }
  ASSERT_THAT(written, FailsWith(ErrorCode::kTimeout));
  EXPECT_THAT(written.error().detail, HasSubstr("is full"));
  // Metadata goes on: it is committed instead.
  make_file(*volume, "b");
  ASSERT_THAT(host->drain(kNoDeadline), IsOk());
  EXPECT_THAT(volume->write(file, at, random_bytes(30'000, 1)), IsOk());
}

TEST(Host, HasOneOwner) {
  MemoryFileSystem fs;
  const auto host = new_host(fs);
  const auto second = open_host(kHostPath, quiet_options(fs));
  ASSERT_THAT(second, FailsWith(ErrorCode::kBusy));
  EXPECT_THAT(second.error().detail, HasSubstr(kHostPath));
}

TEST(Host, RefusesWhatMakesNoSense) {
  MemoryFileSystem fs;
  EXPECT_THAT(open_host("/nowhere", quiet_options(fs)), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(create_host(kHostPath, {.name = "a/b"}, quiet_options(fs)),
              FailsWith(ErrorCode::kInvalid));
  EXPECT_THAT(create_host(kHostPath, {.name = "v", .block_bytes = 100'000}, quiet_options(fs)),
              FailsWith(ErrorCode::kInvalid));
  new_host(fs);
  EXPECT_THAT(create_host(kHostPath, {.name = "v"}, quiet_options(fs)),
              FailsWith(ErrorCode::kExists));
}

TEST(Host, ClonesShareContentAndGoTheirOwnWay) {
  MemoryFileSystem fs;
  const auto host = new_host(fs);
  const auto volume = *host->open("v");
  const meta::Ino file = make_file(*volume, "a");
  const Bytes bytes = random_bytes(100'000, 9);
  ASSERT_THAT(volume->write(file, 0, bytes), IsOk());
  ASSERT_THAT(host->clone("v", meta::kLive, "w"), IsOk());
  EXPECT_THAT(*host->volumes(), ElementsAre("v", "w"));
  const auto clone = *host->open("w");
  EXPECT_EQ(content_of(*clone, "a"), bytes);
  ASSERT_THAT(clone->write(file, 0, random_bytes(10, 10)), IsOk());
  EXPECT_EQ(content_of(*volume, "a"), bytes);
  ASSERT_THAT(host->remove("v"), IsOk());
  ASSERT_THAT(host->drain(kNoDeadline), IsOk());
  EXPECT_EQ(content_of(*clone, "a").size(), bytes.size());
}

TEST(Host, DamageIsAnErrorAndNeverBytes) {
  MemoryFileSystem fs;
  const auto host = new_host(fs, {.name = "v", .codec = {codec::Codec::kNone}});
  const auto volume = *host->open("v");
  const meta::Ino file = make_file(*volume, "a");
  const Bytes bytes = random_bytes(100'000, 11);
  ASSERT_THAT(volume->write(file, 0, bytes), IsOk());
  ASSERT_THAT(host->drain(kNoDeadline), IsOk());
  const auto store = store::open_store("file:" + kHostPath + "/blocks", {.file_system = &fs});
  const auto page = (*store)->list({});
  ASSERT_EQ(page->objects.size(), 1u);
  Bytes object = *store::read_object(**store, page->objects[0].key, kMiB);
  object[50'000] ^= std::byte{1};
  ASSERT_THAT((*store)->put(page->objects[0].key, object), IsOk());
  Bytes into(bytes.size());
  for (int again = 0; again < 3; ++again) {
    const auto read = volume->read(file, 0, into);
    ASSERT_THAT(read, FailsWith(ErrorCode::kCorrupt));
    EXPECT_THAT(read.error().detail, HasSubstr(page->objects[0].key));
  }
  const auto report = host->fsck({});
  ASSERT_EQ(report->findings.size(), 1u);
  EXPECT_EQ(report->findings[0].path, "/a");
  // One that is gone is no file that is not there.
  ASSERT_THAT((*store)->remove(page->objects[0].key), IsOk());
  const auto gone = volume->read(file, 0, into);
  ASSERT_THAT(gone, FailsWith(ErrorCode::kCorrupt));
  EXPECT_EQ(gone.error().os_errno, EIO);
}

}  // namespace
}  // namespace penstock::volume
