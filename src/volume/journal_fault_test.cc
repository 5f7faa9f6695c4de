// Every call that can fail does, and the power goes at every call: what was synced is there, what
// is there was appended, byte for byte, and the journal goes on.
#include "io/faulty_file_system.h"
#include "volume/journal_test_support.h"

namespace penstock::volume {
namespace {

using io::CallKind;
using io::FaultOptions;
using io::FaultyFileSystem;
using io::MemoryFileSystem;

// Two lives of a journal, with all that it can do. Ends a life with the first failure.
void live_once(io::FileSystem& fs, Ledger& ledger) {
  const auto journal = ledger.reopen(fs);
  if (journal == nullptr) return;
  for (int i = 0; i < 14; ++i) {
    if (!ledger.append(*journal, ledger.next_entry()).ok()) return;
    if (i % 4 == 2 && !ledger.sync(*journal).ok()) return;
    if (i % 5 == 4 && !ledger.commit(*journal, ledger.appended() - 2).ok()) return;
  }
}

void use(io::FileSystem& fs, Ledger& ledger) {
  live_once(fs, ledger);
  live_once(fs, ledger);
}

// What was found can be added to, and survives all that follows.
void expect_goes_on(io::FileSystem& fs, MemoryFileSystem& disk, Ledger ledger) {
  for (int life = 0; life < 2; ++life) {
    const auto journal = ledger.reopen(fs);
    ASSERT_NE(journal, nullptr) << ledger.error().to_string();
    for (int i = 0; i < 3; ++i) ASSERT_THAT(ledger.append(*journal, ledger.next_entry()), IsOk());
    if (life == 0) continue;  // Killed without a sync: it is all there.
    ASSERT_THAT(ledger.commit(*journal, ledger.appended() - 4), IsOk());
    ASSERT_THAT(ledger.sync(*journal), IsOk());
  }
  for (const uint64_t seed : {0, 5}) {
    Ledger after = ledger;
    after.power_was_cut();
    const auto left = disk.power_cut(seed);
    ASSERT_NE(after.reopen(*left), nullptr) << after.error().to_string();
    EXPECT_EQ(after.appended(), ledger.appended());
    EXPECT_EQ(count_named(*left, kUnfinishedPrefix), 0u);
  }
}

// Whatever replay() gave survives a power cut, although syncs failed before.
void expect_durable_once_replayed(MemoryFileSystem& disk, Ledger ledger) {
  ASSERT_NE(ledger.reopen(disk), nullptr) << ledger.error().to_string();
  const uint64_t replayed = ledger.appended();
  ledger.power_was_cut();
  ASSERT_NE(ledger.reopen(*disk.power_cut(0)), nullptr) << ledger.error().to_string();
  EXPECT_EQ(ledger.appended(), replayed);
}

uint64_t try_every_failure(FaultOptions faults) {
  for (uint64_t n = 1;; ++n) {
    faults.fail_at = n;
    FaultyFileSystem fs(faults);
    Ledger ledger;
    use(fs, ledger);
    SCOPED_TRACE(fmt::format("failure {}: {}", n, fs.fault_hit() ? fs.trace().back() : "none"));
    expect_durable_once_replayed(fs.disk(), ledger);
    expect_goes_on(fs.disk(), fs.disk(), ledger);
    if (!fs.fault_hit() || ::testing::Test::HasFailure()) return n;
  }
}

TEST(JournalFaults, AnyCallMayFail) {
  EXPECT_GT(try_every_failure({}), 100u);
}

TEST(JournalFaults, AnyCallAndAllAfterItMayFail) {
  EXPECT_GT(try_every_failure({.for_good = true}), 100u);
}

TEST(JournalFaults, AnyCallMayRunOutOfSpace) {
  EXPECT_GT(try_every_failure({.error = ENOSPC}), 100u);
}

TEST(JournalFaults, ThePowerMayGoAtAnyCall) {
  uint64_t n = 1;
  for (;; ++n) {
    FaultyFileSystem fs({.cut_at = n});
    Ledger ledger;
    use(fs, ledger);
    ledger.power_was_cut();
    for (uint64_t seed = 0; seed < 10; ++seed) {
      SCOPED_TRACE(fmt::format("cut at {}, seed {}: {}", n, seed,
                               fs.fault_hit() ? fs.trace()[n - 1] : "none"));
      const auto disk = fs.power_cut(seed);
      expect_goes_on(*disk, *disk, ledger);
      if (HasFailure()) return;
    }
    if (!fs.fault_hit()) break;
  }
  EXPECT_GT(n, 100u);
}

// The power goes, and goes again while the journal is taken over.
TEST(JournalFaults, ThePowerMayGoAgainWhileReplaying) {
  FaultyFileSystem first({});
  Ledger ledger;
  use(first, ledger);
  ledger.power_was_cut();
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (uint64_t n = 1;; ++n) {
      FaultyFileSystem fs({.cut_at = n}, first.power_cut(seed));
      Ledger second = ledger;
      live_once(fs, second);
      second.power_was_cut();
      SCOPED_TRACE(fmt::format("seed {}, cut at {}", seed, n));
      const auto disk = fs.power_cut(seed * 31 + n);
      expect_goes_on(*disk, *disk, second);
      if (HasFailure()) return;
      if (!fs.fault_hit()) break;
    }
  }
}

TEST(JournalFaults, AFailedSyncIsFinalAndSaysWhatToDo) {
  // The first is that of the segment's header.
  FaultyFileSystem fs({.fail_at = 2, .only = CallKind::kSync});
  const auto journal = ready_journal(fs);
  const auto place = append(*journal, {bytes_of("one"), bytes_of("content")});
  ASSERT_THAT(place, IsOk());
  Bytes into(7);
  ASSERT_THAT(journal->read(*place, 0, into), IsOk());
  const Result<void> failed = journal->sync();
  ASSERT_THAT(failed, FailsWith(ErrorCode::kIo));
  EXPECT_THAT(failed.error().detail, ::testing::HasSubstr("open the volume again"));
  EXPECT_THAT(failed.error().detail, ::testing::HasSubstr(kJournalPath));
  // The second would succeed falsely.
  EXPECT_THAT(journal->sync(), FailsWith(ErrorCode::kIo));
  EXPECT_THAT(append(*journal, {bytes_of("two"), {}}), FailsWith(ErrorCode::kIo));
  EXPECT_THAT(journal->read(*place, 0, into), FailsWith(ErrorCode::kIo));
  EXPECT_THAT(journal->release(1), FailsWith(ErrorCode::kIo));
  EXPECT_EQ(journal->usage().synced, 0u);
}

// A record is found through those in front of it, so these must be durable as well, committed or not.
TEST(JournalFaults, WhatLiesInFrontOfAReplayedRecordIsDurableToo) {
  JournalOptions options = small_options();
  options.segment_bytes = 2 * kMiB;
  options.limit_bytes = 8 * kMiB;
  FaultyFileSystem fs({.fail_at = 2, .only = CallKind::kSync});
  {
    const auto journal = ready_journal(fs, options);
    for (uint64_t i = 1; i <= 4; ++i) {
      ASSERT_THAT(append(*journal, {bytes_of("record"), random_bytes(300 * kKiB, i)}), IsOk());
    }
    ASSERT_THAT(journal->sync(), FailsWith(ErrorCode::kIo));
  }
  ASSERT_EQ(replay_all(*open_journal(fs.disk(), options), 3)->size(), 1u);
  const auto visited = replay_all(*open_journal(*fs.power_cut(0), options), 3);
  ASSERT_THAT(visited, IsOk());
  ASSERT_EQ(visited->size(), 1u);
  EXPECT_EQ((*visited)[0].entry.content, random_bytes(300 * kKiB, 4));
}

TEST(JournalFaults, SpaceIsTakenByWritingWhereItCannotBeReserved) {
  FaultyFileSystem fs(
      {.fail_at = 1, .only = CallKind::kAllocate, .error = EOPNOTSUPP, .for_good = true});
  Ledger ledger;
  use(fs, ledger);
  EXPECT_TRUE(fs.fault_hit());
  EXPECT_EQ(fs.disk().stat(kJournalPath + "/" + names_in(fs)[0])->size,
            small_options().segment_bytes);
  expect_goes_on(fs.disk(), fs.disk(), ledger);
}

// Some file systems take space for writes to what was allocated, too.
TEST(JournalFaults, AnAppendThatFoundNoSpaceDoesNotComeBack) {
  // Opening writes nothing; the first write is the header of the segment.
  for (const uint64_t n : {2, 3, 4}) {
    FaultyFileSystem fs({.fail_at = n, .only = CallKind::kWrite, .error = ENOSPC});
    Ledger ledger;
    {
      const auto journal = ledger.reopen(fs);
      for (int i = 0; i < 4; ++i) {
        const auto place = ledger.append(*journal, {bytes_of(fmt::format("record {}", i)), {}});
        if (!place.ok()) {
          EXPECT_THAT(place, FailsWith(ErrorCode::kNoSpace));
          break;
        }
      }
    }
    EXPECT_EQ(ledger.appended(), n - 2);
    ASSERT_NE(ledger.reopen(fs.disk()), nullptr);
    EXPECT_EQ(ledger.appended(), n - 2);
    expect_goes_on(fs.disk(), fs.disk(), ledger);
  }
}

}  // namespace
}  // namespace penstock::volume
