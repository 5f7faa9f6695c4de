#include "cache/member_log.h"

#include <fmt/core.h>

#include <thread>

#include "cache/members.h"
#include "cache/testing.h"
#include "io/faulty_file_system.h"

namespace penstock::cache {

namespace {

using io::CallKind;
using io::FaultyFileSystem;
using io::MemoryFileSystem;
using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr const char* kFolder = "/members";
constexpr const char* kMember = "17-00000000000000aa";
constexpr Terms kTestTerms{1000, 10};
constexpr uint64_t kPlenty = UINT64_MAX;
constexpr std::chrono::milliseconds kPatience{300};

std::string encode(const LogRecord& record) {
  std::string bytes;
  append_record(bytes, record);
  return bytes;
}

std::optional<LogRecord> parse_bytes(const std::string& bytes) {
  return parse_record(std::as_bytes(std::span(bytes)).first<kRecordBytes>());
}

Note used(uint64_t number, uint64_t bytes = 1) {
  return {Note::Kind::kUsed, test_id(number), bytes};
}
Note added(uint64_t number, uint32_t blocks = 3) {
  return {Note::Kind::kAdded, test_id(number), uint64_t{blocks} * kBlockBytes};
}

TEST(LogRecord, RoundTrips) {
  const std::vector<LogRecord> records = {
      used(1, UINT64_MAX),
      Note{Note::Kind::kMissed, test_id(2), 5},
      added(3, UINT32_MAX),
      Note{Note::Kind::kDropped, test_id(3), kBlockBytes},
      Note{Note::Kind::kExpected, test_id(4), 0},
      Note{Note::Kind::kFinished, test_id(4), 0},
      Note{Note::Kind::kFinishedAgain, test_id(4), 0},
      Terms{UINT64_MAX, 7},
      Standing{1, UINT32_MAX, 3, UINT64_MAX},
      Tally{1, UINT64_MAX, false},
      Tally{0, 0, true},
      Left{},
      Lost{},
  };
  for (const LogRecord& record : records) {
    const std::string bytes = encode(record);
    ASSERT_THAT(bytes, SizeIs(kRecordBytes));
    EXPECT_EQ(parse_bytes(bytes), record) << record.index();
  }
}

// The one in docs/formats/cache-members.md.
TEST(LogRecord, IsAsDocumented) {
  const Note note{Note::Kind::kAdded, {0x0123456789abcdef, 0xfedcba9876543210}, 1027 * kBlockBytes};
  std::string hex;
  for (const char byte : encode(note)) hex += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  EXPECT_EQ(hex, "030000006020be99efcdab89674523011032547698badcfe0304000000000000");
}

TEST(LogRecord, DamageIsNoRecord) {
  const std::string good = encode(added(3));
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    EXPECT_EQ(parse_bytes(bad), std::nullopt) << bit;
  }
  EXPECT_EQ(parse_bytes(std::string(kRecordBytes, '\0')), std::nullopt);
  // A file without a block, or with more of them than a name can tell, is none.
  EXPECT_EQ(parse_bytes(encode(added(3, 0))), std::nullopt);
}

TEST(MemberFiles, OnlyOurNamesCount) {
  EXPECT_EQ(parse_member_file("17-00000000000000aa.lock"), (MemberFileName{kMember, {}}));
  EXPECT_EQ(parse_member_file("17-00000000000000aa.log"), (MemberFileName{kMember, 0}));
  EXPECT_EQ(parse_member_file("17-00000000000000aa.12.log"), (MemberFileName{kMember, 12}));
  for (const char* other :
       {"", ".lock", ".log", "a.lock", "17-aa.lock", "-00000000000000aa.lock", "17.lock",
        "17-00000000000000aa", "17-00000000000000aa.0.log", "17-00000000000000aa.01.log",
        "17-00000000000000aa..log", "17-00000000000000aa.-1.log", "17-00000000000000aa.1.2.log",
        "17-00000000000000aa.99999999999.log", "17-00000000000000AA.log", "x17-0000000000000aa.log",
        "17-00000000000000aa.log.tmp"}) {
    EXPECT_EQ(parse_member_file(other), std::nullopt) << other;
  }
}

TEST(MemberFiles, MembershipNoticesThatItsFileIsGone) {
  MemoryFileSystem fs;
  ASSERT_THAT(fs.make_directory(kFolder), IsOk());
  Membership one(fs, kFolder, kMember);
  EXPECT_FALSE(one.joined());
  ASSERT_THAT(one.join(), IsOk());
  EXPECT_THAT(*one.check(), true);
  EXPECT_THAT(fs.try_lock(lock_path(kFolder, kMember)), FailsWith(ErrorCode::kBusy));

  ASSERT_THAT(fs.remove(lock_path(kFolder, kMember)), IsOk());
  EXPECT_EQ(*one.check(), false);
  EXPECT_EQ(*one.check(), true);  // Joined anew.
  EXPECT_THAT(fs.try_lock(lock_path(kFolder, kMember)), FailsWith(ErrorCode::kBusy));
  EXPECT_THAT(one.leave(), IsOk());
  EXPECT_THAT(fs.stat(lock_path(kFolder, kMember)), FailsWith(ErrorCode::kNotFound));
}

// A writer and a reader over the same folder.
class MemberLog : public ::testing::Test {
 protected:
  MemberLog() { EXPECT_THAT(fs_.make_directory(kFolder), IsOk()); }

  std::vector<uint32_t> files() {
    auto members = list_members(fs_, kFolder);
    EXPECT_THAT(members, IsOk());
    return (*members)[kMember].logs;
  }

  void write(const std::vector<LogRecord>& records) {
    ASSERT_THAT(writer_.prepare(kTestTerms, {}), IsOk());
    for (const LogRecord& record : records) ASSERT_TRUE(writer_.add(record));
    ASSERT_THAT(writer_.flush(), IsOk());
  }

  // What is new, without what stands in front of each file.
  std::vector<LogRecord> read(uint64_t budget = kPlenty, bool finished = false) {
    std::vector<LogRecord> records;
    const auto progress = reader_.read(files(), budget, finished, [&](const LogRecord& record) {
      if (!std::holds_alternative<Terms>(record) && !std::holds_alternative<Standing>(record)) {
        records.push_back(record);
      }
    });
    EXPECT_THAT(progress, IsOk());
    if (progress.ok()) progress_ = *progress;
    return records;
  }

  void overwrite(uint32_t file, uint64_t offset, const std::string& bytes) {
    const auto opened = fs_.open(log_path(kFolder, kMember, file), {.access = io::Access::kWrite});
    ASSERT_THAT(opened, IsOk());
    ASSERT_THAT((*opened)->write(offset, std::as_bytes(std::span(bytes))), IsOk());
  }

  MemoryFileSystem fs_;
  LogWriter writer_{fs_, kFolder, kMember};
  LogReader reader_{fs_, kFolder, kMember, kPatience};
  LogReader::Progress progress_;
};

TEST_F(MemberLog, IsReadOn) {
  EXPECT_THAT(read(), ElementsAre());
  write({used(1), added(2)});
  EXPECT_THAT(read(), ElementsAre(used(1), added(2)));
  EXPECT_THAT(read(), ElementsAre());
  write({used(3)});
  EXPECT_THAT(read(), ElementsAre(used(3)));
  EXPECT_FALSE(progress_.damaged);
}

TEST_F(MemberLog, IsReadInPortions) {
  write({used(1), used(2), used(3)});
  EXPECT_THAT(read(3 * kRecordBytes), ElementsAre(used(1)));
  EXPECT_TRUE(progress_.more);
  EXPECT_THAT(read(kRecordBytes + 5), ElementsAre(used(2)));
  EXPECT_THAT(read(), ElementsAre(used(3)));
  EXPECT_FALSE(progress_.more);
}

TEST_F(MemberLog, ASecondReaderGoesOnWhereTheFirstWas) {
  write({used(1)});
  EXPECT_THAT(read(), ElementsAre(used(1)));
  write({used(2)});
  LogReader second(fs_, kFolder, kMember, kPatience);
  second.start_at(reader_.position());
  std::vector<LogRecord> records;
  ASSERT_THAT(second.read(files(), kPlenty, false,
                          [&](const LogRecord& record) { records.push_back(record); }),
              IsOk());
  EXPECT_THAT(records, ElementsAre(used(2)));
}

TEST_F(MemberLog, LargeFilesAreFollowedByNewOnesAndRemovedWhenRead) {
  uint64_t number = 0;
  uint64_t seen = 0;
  while (number < 3 * kLogFileBytes / kRecordBytes) {
    std::vector<LogRecord> batch;
    for (int i = 0; i < 1000; ++i) batch.emplace_back(used(number++));
    write(batch);
  }
  EXPECT_THAT(files(), ElementsAre(0, 1, 2));
  for (const LogRecord& record : read()) EXPECT_EQ(record, LogRecord(used(seen++)));
  EXPECT_EQ(seen, number);
  EXPECT_THAT(files(), ElementsAre(2));
}

TEST_F(MemberLog, EveryFileBeginsWithTerms) {
  std::vector<LogRecord> batch(kLogFileBytes / kRecordBytes / 2, used(1));
  write(batch);
  write(batch);
  write(batch);
  ASSERT_THAT(files(), ElementsAre(0, 1));
  LogReader late(fs_, kFolder, kMember, kPatience);
  std::vector<LogRecord> records;
  ASSERT_THAT(
      late.read({1}, kPlenty, false, [&](const LogRecord& record) { records.push_back(record); }),
      IsOk());
  ASSERT_GE(records.size(), 2u);
  EXPECT_EQ(records[0], LogRecord(kTestTerms));
  EXPECT_EQ(records[1], LogRecord(Standing{}));
}

TEST_F(MemberLog, DoesNotGrowWhileNobodyReads) {
  const LogRecord note = used(1);
  uint64_t refused = 0;
  for (int batch = 0; batch < 20; ++batch) {
    ASSERT_THAT(writer_.prepare(kTestTerms, {}), IsOk());
    for (uint64_t i = 0; i < kLogFileBytes / kRecordBytes; ++i)
      refused += writer_.add(note) ? 0 : 1;
    // What changes files is still said.
    EXPECT_TRUE(writer_.add(added(static_cast<uint64_t>(batch)))) << batch;
    ASSERT_THAT(writer_.flush(), IsOk());
  }
  EXPECT_GT(refused, 10 * kLogFileBytes / kRecordBytes);
  EXPECT_THAT(files(), SizeIs(kLogFilesMax));
  uint64_t bytes = 0;
  for (const uint32_t file : files()) bytes += fs_.stat(log_path(kFolder, kMember, file))->size;
  EXPECT_LE(bytes, kLogFilesMax * (kLogFileBytes + kKiB));

  uint64_t adds = 0;
  for (const LogRecord& record : read()) adds += std::get<Note>(record).changes_files() ? 1 : 0;
  EXPECT_EQ(adds, 20u);
  write({used(5)});  // And on it goes.
  EXPECT_THAT(read(), ElementsAre(used(5)));
}

TEST_F(MemberLog, AHalfWrittenRecordIsWaitedFor) {
  write({used(1)});
  EXPECT_THAT(read(), ElementsAre(used(1)));
  const uint64_t end = reader_.position().offset;
  const std::string record = encode(used(2));
  overwrite(0, end, record.substr(0, 20));
  EXPECT_THAT(read(), ElementsAre());
  overwrite(0, end, record.substr(0, 20) + std::string(30, '\0'));
  EXPECT_THAT(read(), ElementsAre());
  EXPECT_FALSE(progress_.damaged);
  overwrite(0, end, record + encode(used(3)));
  EXPECT_THAT(read(), ElementsAre(used(2), used(3)));
  EXPECT_FALSE(progress_.damaged);
}

TEST_F(MemberLog, ForeignBytesArePassedOverInTheEnd) {
  write({used(1), used(2), used(3), used(4)});
  overwrite(0, 3 * kRecordBytes, std::string(2 * kRecordBytes, 'x'));
  EXPECT_THAT(read(), ElementsAre(used(1)));
  EXPECT_THAT(read(), ElementsAre());
  std::this_thread::sleep_for(kPatience);  // The time that is promised, not luck.
  EXPECT_THAT(read(), ElementsAre(used(4)));
  EXPECT_TRUE(progress_.damaged);
}

TEST_F(MemberLog, NothingIsWaitedForInTheLogOfTheDead) {
  write({used(1), used(2), used(3)});
  overwrite(0, 3 * kRecordBytes, "x");
  overwrite(0, 5 * kRecordBytes, "torn");
  EXPECT_THAT(read(kPlenty, /*finished=*/true), ElementsAre(used(1), used(3)));
  EXPECT_TRUE(progress_.damaged);
}

TEST_F(MemberLog, ALogCutShortOrGoneIsNoError) {
  write({used(1), used(2)});
  EXPECT_THAT(read(), ElementsAre(used(1), used(2)));
  auto file = fs_.open(log_path(kFolder, kMember, 0), {.access = io::Access::kWrite});
  ASSERT_THAT((*file)->truncate(0), IsOk());
  EXPECT_THAT(read(), ElementsAre());
  write({used(3)});  // At its own place; the hole before was read.
  EXPECT_THAT(read(), ElementsAre(used(3)));
  ASSERT_THAT(fs_.remove(log_path(kFolder, kMember, 0)), IsOk());
  EXPECT_THAT(read(), ElementsAre());
}

// Every failing call: what was accepted is read in the end, once and in order.
TEST(MemberLogFaults, NothingIsLostTwiceOrMixedUp) {
  for (const int error : {EIO, ENOSPC, EROFS}) {
    for (uint64_t n = 1;; ++n) {
      FaultyFileSystem fs({.fail_at = n, .error = error});
      ASSERT_THAT(fs.disk().make_directory(kFolder), IsOk());
      LogWriter writer(fs, kFolder, kMember);
      LogReader reader(fs.disk(), kFolder, kMember, kPatience);
      std::vector<LogRecord> accepted;
      std::vector<LogRecord> seen;
      const auto read = [&] {
        const auto members = list_members(fs.disk(), kFolder);
        const auto found = members->find(kMember);
        if (found == members->end()) return;
        ASSERT_THAT(reader.read(found->second.logs, kPlenty, false,
                                [&](const LogRecord& record) {
                                  if (std::holds_alternative<Note>(record)) seen.push_back(record);
                                }),
                    IsOk());
      };
      for (uint64_t i = 0; i < 5; ++i) {
        if (!writer.prepare(kTestTerms, {}).ok()) continue;
        for (uint64_t j = 0; j < kLogFileBytes / kRecordBytes / 3; ++j) {
          const LogRecord record = used(1000 * i + j);
          if (writer.add(record)) accepted.push_back(record);
        }
        (void)writer.flush();
        read();
      }
      EXPECT_THAT(writer.flush(), IsOk());
      read();
      EXPECT_EQ(seen, accepted) << n << ": " << fs.trace().back();
      if (!fs.fault_hit()) break;
    }
  }
}

}  // namespace

}  // namespace penstock::cache
