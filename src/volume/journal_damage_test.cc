// Flipped bits and cut files: never wrong bytes, and nothing that is known to have been durable is
// lost in silence.
#include "volume/journal_test_support.h"

namespace penstock::volume {
namespace {

using io::MemoryFileSystem;
using ::testing::HasSubstr;

const std::string kFirstSegment = kJournalPath + "/segment-0000000000000001";

void flip(io::FileSystem& fs, const std::string& path, uint64_t offset, int bit) {
  const auto file = fs.open(path, {.access = io::Access::kReadWrite});
  ASSERT_THAT(file, IsOk());
  std::byte byte;
  ASSERT_THAT((*file)->read(offset, {&byte, 1}), IsOk());
  byte ^= static_cast<std::byte>(1 << bit);
  ASSERT_THAT((*file)->write(offset, {&byte, 1}), IsOk());
}

// Opens and replays, whichever fails.
Result<std::vector<Visited>> look(io::FileSystem& fs, uint64_t committed = 0) {
  const auto journal = PENSTOCK_TRY(Journal::open(fs, kJournalPath, small_options()));
  return replay_all(*journal, committed);
}

// Three records in one segment, the first two synced; whether the last says so is `proved`.
struct Three {
  MemoryFileSystem fs;
  std::vector<Entry> entries;
  std::vector<JournalPlace> places;

  explicit Three(bool proved) {
    const auto journal = ready_journal(fs);
    for (uint64_t i = 0; i < 3; ++i) {
      entries.push_back({random_bytes(50 + i, i), random_bytes(101 + i, i + 10)});
      if (i == 2 && proved) {
        EXPECT_THAT(journal->sync(), IsOk());
      }
      places.push_back(*append(*journal, entries.back()));
    }
    EXPECT_THAT(fs.sync_file_system("/"), IsOk());
  }
};

bool is_padding(const JournalPlace& place, const Entry& entry, uint64_t offset) {
  const uint64_t end = kRecordHeaderBytes + kSumBytes + entry.record.size() + entry.content.size();
  return offset >= place.offset + end;
}

TEST(JournalDamage, AFlippedBitInASyncedRecordIsFound) {
  const Three three(/*proved=*/true);
  for (size_t record = 0; record < 2; ++record) {
    const JournalPlace& place = three.places[record];
    for (uint64_t at = place.offset; at < place.offset + place.bytes; ++at) {
      const auto fs = three.fs.clone();
      flip(*fs, kFirstSegment, at, static_cast<int>(at % 8));
      const auto seen = look(*fs);
      if (is_padding(place, three.entries[record], at)) {
        ASSERT_THAT(seen, IsOk());
        continue;
      }
      ASSERT_THAT(seen, FailsWith(ErrorCode::kCorrupt)) << "record " << record << " at " << at;
      EXPECT_THAT(seen.error().detail, HasSubstr("Nothing was changed"));
      // Repaired, it is whole.
      flip(*fs, kFirstSegment, at, static_cast<int>(at % 8));
      ASSERT_EQ(look(*fs)->size(), 3u);
    }
  }
}

TEST(JournalDamage, WithoutProofItIsTheEndAsAfterAPowerCut) {
  const Three three(/*proved=*/false);
  for (size_t record = 0; record < 3; ++record) {
    const JournalPlace& place = three.places[record];
    for (uint64_t at = place.offset; at < place.offset + place.bytes; ++at) {
      if (is_padding(place, three.entries[record], at)) continue;
      const auto fs = three.fs.clone();
      flip(*fs, kFirstSegment, at, static_cast<int>(at % 8));
      const auto seen = look(*fs);
      ASSERT_THAT(seen, IsOk());
      ASSERT_EQ(seen->size(), record);
      for (size_t i = 0; i < record; ++i) ASSERT_EQ((*seen)[i].entry, three.entries[i]);
    }
  }
}

TEST(JournalDamage, WhatIsCommittedNeedNotBeWhole) {
  const Three three(/*proved=*/true);
  const auto fs = three.fs.clone();
  flip(*fs, kFirstSegment, three.places[0].offset + three.places[0].bytes - 16, 0);  // Its content.
  ASSERT_THAT(look(*fs->clone(), 0), FailsWith(ErrorCode::kCorrupt));
  EXPECT_EQ(look(*fs, 1)->size(), 2u);
}

TEST(JournalDamage, WhatLiesBehindTheEndIsCutOffForGood) {
  const Three three(/*proved=*/false);
  const auto fs = three.fs.clone();
  flip(*fs, kFirstSegment, three.places[1].offset + 3, 0);
  {
    const auto journal = ready_journal(*fs);
    // Of the same length: the old third record lies right behind it, were it in the same place.
    const auto place = journal->append(random_bytes(51, 77), random_bytes(102, 78));
    ASSERT_THAT(place, IsOk());
    EXPECT_EQ(place->sequence, 2u);
    EXPECT_EQ(place->bytes, three.places[1].bytes);
    ASSERT_THAT(journal->sync(), IsOk());
  }
  EXPECT_EQ(look(*fs->power_cut(0))->size(), 2u);
  EXPECT_EQ(look(*fs)->size(), 2u);
  // Nor do the old ones come back when they are whole again.
  flip(*fs, kFirstSegment, three.places[1].offset + 3, 0);
  const auto seen = look(*fs);
  ASSERT_THAT(seen, IsOk());
  ASSERT_EQ(seen->size(), 2u);
  EXPECT_EQ((*seen)[1].entry.record, random_bytes(51, 77));
}

// Segments of four records each, all synced and said to be so by one more.
void fill_segments(io::FileSystem& fs) {
  const auto journal = ready_journal(fs);
  for (uint64_t i = 0; i < 13; ++i) {
    if (i == 12) {
      ASSERT_THAT(journal->sync(), IsOk());
    }
    ASSERT_THAT(journal->append(random_bytes(10, i), random_bytes(15'000, i)), IsOk());
  }
  ASSERT_THAT(fs.sync_file_system("/"), IsOk());
}

TEST(JournalDamage, ASegmentThatIsMissingOrCutIsFound) {
  MemoryFileSystem whole;
  fill_segments(whole);
  for (uint64_t number = 1; number <= 3; ++number) {
    const std::string path =
        fmt::format("{}/{}", kJournalPath, journal_file_name(kSegmentPrefix, number));
    const auto missing = whole.clone();
    ASSERT_THAT(missing->remove(path), IsOk());
    EXPECT_THAT(look(*missing), FailsWith(ErrorCode::kCorrupt)) << number;
    for (const uint64_t size : {uint64_t{0}, uint64_t{50}, uint64_t{4096}, 40 * kKiB}) {
      const auto cut = whole.clone();
      ASSERT_THAT((*cut->open(path, {.access = io::Access::kWrite}))->truncate(size), IsOk());
      EXPECT_THAT(look(*cut), FailsWith(ErrorCode::kCorrupt)) << number << " cut to " << size;
      // With all of it committed it does not matter.
      EXPECT_THAT(look(*cut, 12), IsOk());
    }
    const auto swapped = whole.clone();
    ASSERT_THAT(swapped->rename(path, kJournalPath + "/segment-0000000000000004"), IsOk());
    EXPECT_THAT(look(*swapped), FailsWith(ErrorCode::kCorrupt)) << number;
  }
}

TEST(JournalDamage, AFlippedBitInTheHeaderOfASegmentIsFound) {
  MemoryFileSystem whole;
  fill_segments(whole);
  for (uint64_t number = 1; number <= 4; ++number) {
    const std::string path =
        fmt::format("{}/{}", kJournalPath, journal_file_name(kSegmentPrefix, number));
    for (uint64_t at = 0; at < kSegmentFieldsBytes; ++at) {
      const auto fs = whole.clone();
      flip(*fs, path, at, static_cast<int>(at % 8));
      ASSERT_THAT(look(*fs), FailsWith(ErrorCode::kCorrupt)) << number << " at " << at;
    }
  }
}

TEST(JournalDamage, ReadVerifiesWhatItReads) {
  MemoryFileSystem fs;
  JournalOptions options = small_options();
  options.segment_bytes = kMiB;
  options.limit_bytes = 16 * kMiB;
  const auto journal = ready_journal(fs, options);
  const Bytes content = random_bytes(3 * kPieceBytes + 100, 1);
  const auto place = journal->append(bytes_of("record"), content);
  ASSERT_THAT(place, IsOk());
  const uint64_t content_at = place->offset + kRecordHeaderBytes + 4 * kSumBytes + 6;
  Bytes into(100);
  for (const uint64_t piece : {0, 1, 2, 3}) {
    const uint64_t at = content_at + piece * kPieceBytes + 99;
    flip(fs, kFirstSegment, at, 3);
    for (const uint64_t read : {0, 1, 2, 3}) {
      const Result<void> result = journal->read(*place, read * kPieceBytes, into);
      if (read == piece) {
        EXPECT_THAT(result, FailsWith(ErrorCode::kCorrupt));
      } else {
        EXPECT_THAT(result, IsOk());
      }
    }
    Bytes all(content.size());
    EXPECT_THAT(journal->read(*place, 0, all), FailsWith(ErrorCode::kCorrupt));
    flip(fs, kFirstSegment, at, 3);
  }
  for (uint64_t at = place->offset; at < place->offset + kRecordHeaderBytes + 4 * kSumBytes; ++at) {
    flip(fs, kFirstSegment, at, 5);
    EXPECT_THAT(journal->read(*place, 0, into), FailsWith(ErrorCode::kCorrupt));
    flip(fs, kFirstSegment, at, 5);
  }
  JournalPlace wrong = *place;
  ++wrong.sequence;
  EXPECT_THAT(journal->read(wrong, 0, into), FailsWith(ErrorCode::kCorrupt));
  wrong = *place;
  wrong.offset += 8;
  EXPECT_THAT(journal->read(wrong, 0, into), FailsWith(ErrorCode::kCorrupt));
}

}  // namespace
}  // namespace penstock::volume
