// What a journal promises while nothing goes wrong, and what it refuses.
#include "volume/journal_test_support.h"

namespace penstock::volume {
namespace {

using io::MemoryFileSystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Entry entry_of(std::string_view record, std::string_view content = "") {
  return {bytes_of(record), bytes_of(content)};
}

// Records of about a quarter of a segment.
Entry large_entry(uint64_t seed) {
  return {random_bytes(100, seed), random_bytes(15'000, seed + 1000)};
}

void append_many(Journal& journal, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    ASSERT_THAT(append(journal, large_entry(journal.usage().last + 1)), IsOk());
  }
}

TEST(Journal, GivesBackWhatWasAppendedInOrder) {
  MemoryFileSystem fs;
  const std::vector<Entry> entries = {entry_of("one"), entry_of("", "only content"), entry_of(""),
                                      entry_of("both", "of them"), large_entry(5)};
  {
    const auto journal = ready_journal(fs);
    for (const Entry& entry : entries) ASSERT_THAT(append(*journal, entry), IsOk());
  }
  const auto journal = open_journal(fs);
  const auto visited = replay_all(*journal);
  ASSERT_THAT(visited, IsOk());
  ASSERT_EQ(visited->size(), entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ((*visited)[i].place.sequence, i + 1);
    EXPECT_EQ((*visited)[i].entry, entries[i]);
  }
}

TEST(Journal, GoesOnInTheSameSegmentWithTheNextSequence) {
  MemoryFileSystem fs;
  for (uint64_t life = 0; life < 5; ++life) {
    const auto journal = open_journal(fs);
    const auto visited = replay_all(*journal);
    ASSERT_THAT(visited, IsOk());
    ASSERT_EQ(visited->size(), life);
    const auto place = append(*journal, entry_of("a record"));
    ASSERT_THAT(place, IsOk());
    EXPECT_EQ(place->sequence, life + 1);
    EXPECT_EQ(place->segment, 1u);
  }
  EXPECT_THAT(names_in(fs), ElementsAre("segment-0000000000000001"));
}

TEST(Journal, KeepsWhatWasSynced) {
  MemoryFileSystem fs;
  const auto journal = ready_journal(fs);
  append_many(*journal, 10);
  ASSERT_THAT(journal->sync(), IsOk());
  append_many(*journal, 10);
  EXPECT_EQ(journal->usage().synced, 10u);
  EXPECT_EQ(journal->usage().last, 20u);
  const auto after = fs.power_cut(0);
  EXPECT_EQ(replay_all(*open_journal(*after))->size(), 10u);
}

TEST(Journal, NothingIsAcceptedBeforeReplay) {
  MemoryFileSystem fs;
  const auto journal = open_journal(fs);
  EXPECT_THAT(append(*journal, entry_of("early")), FailsWith(ErrorCode::kInvalid));
  EXPECT_THAT(journal->sync(), FailsWith(ErrorCode::kInvalid));
  EXPECT_THAT(journal->release(0), FailsWith(ErrorCode::kInvalid));
  EXPECT_THAT(journal->read({}, 0, {}), FailsWith(ErrorCode::kInvalid));
  ASSERT_THAT(replay_all(*journal), IsOk());
  EXPECT_THAT(append(*journal, entry_of("in time")), IsOk());
  EXPECT_THAT(replay_all(*journal), FailsWith(ErrorCode::kInvalid));
}

TEST(Journal, ContinuesBehindWhatIsCommitted) {
  MemoryFileSystem fs;
  {
    const auto journal = ready_journal(fs, small_options(), 41);
    EXPECT_EQ(append(*journal, entry_of("first"))->sequence, 42u);
    EXPECT_EQ(append(*journal, entry_of("second"))->sequence, 43u);
  }
  {
    const auto journal = open_journal(fs);
    const auto visited = replay_all(*journal, 42);
    ASSERT_THAT(visited, IsOk());
    ASSERT_EQ(visited->size(), 1u);
    EXPECT_EQ((*visited)[0].place.sequence, 43u);
  }
  {
    // More is committed than is here: unsynced records can be, and be lost after that.
    const auto journal = open_journal(fs);
    EXPECT_THAT(*replay_all(*journal, 50), IsEmpty());
    EXPECT_EQ(append(*journal, entry_of("third"))->sequence, 51u);
  }
  const auto visited = replay_all(*open_journal(fs), 50);
  ASSERT_THAT(visited, IsOk());
  ASSERT_EQ(visited->size(), 1u);
  EXPECT_EQ((*visited)[0].entry, entry_of("third"));
}

TEST(Journal, MissingRecordsAreNotPassedOver) {
  MemoryFileSystem fs;
  {
    const auto journal = ready_journal(fs, small_options(), 41);
    append_many(*journal, 1);
  }
  const auto failed = replay_all(*open_journal(fs), 39);
  ASSERT_THAT(failed, FailsWith(ErrorCode::kCorrupt));
  EXPECT_THAT(failed.error().detail, HasSubstr("records 40 to 41"));
}

TEST(Journal, AnErrorOfVisitEndsReplay) {
  MemoryFileSystem fs;
  append_many(*ready_journal(fs), 3);
  const std::vector<std::string> before = names_in(fs);
  uint64_t visits = 0;
  const Result<void> failed =
      open_journal(fs)->replay(0, [&](const JournalPlace&, auto, auto) -> Result<void> {
        if (++visits == 2) return make_error(ErrorCode::kCancelled, "enough");
        return {};
      });
  EXPECT_THAT(failed, FailsWith(ErrorCode::kCancelled));
  EXPECT_EQ(visits, 2u);
  EXPECT_EQ(names_in(fs), before);
  EXPECT_EQ(replay_all(*open_journal(fs))->size(), 3u);
}

TEST(Journal, ContentIsReadFromItsPlace) {
  MemoryFileSystem fs;
  JournalOptions options = small_options();
  options.segment_bytes = 4 * kMiB;
  options.limit_bytes = 16 * kMiB;
  const auto journal = ready_journal(fs, options);
  for (const size_t size : {size_t{1}, kPieceBytes - 1, kPieceBytes, kPieceBytes + 1,
                            5 * kPieceBytes + 77, size_t{kMiB}}) {
    const Bytes content = random_bytes(size, size);
    const auto place = journal->append(bytes_of("a write"), content);
    ASSERT_THAT(place, IsOk());
    std::mt19937_64 random(size);
    for (int i = 0; i < 20; ++i) {
      const size_t offset = random() % (size + 1);
      Bytes into(i == 0 ? size - offset : random() % (size - offset + 1));
      ASSERT_THAT(journal->read(*place, offset, into), IsOk());
      ASSERT_TRUE(std::ranges::equal(into, std::span(content).subspan(offset, into.size())));
    }
    Bytes beyond(2);
    EXPECT_THAT(journal->read(*place, size - 1, beyond), FailsWith(ErrorCode::kInvalid));
    EXPECT_THAT(journal->read(*place, UINT64_MAX, beyond), FailsWith(ErrorCode::kInvalid));
  }
}

TEST(Journal, ReleasedSegmentsAreUsedAgainUnderNewNumbers) {
  MemoryFileSystem fs;
  const auto journal = ready_journal(fs);
  append_many(*journal, 13);  // Four to a segment.
  EXPECT_EQ(count_named(fs, kSegmentPrefix), 4u);
  ASSERT_THAT(journal->release(3), IsOk());
  EXPECT_EQ(count_named(fs, kSparePrefix), 0u);  // The fourth is in the same segment.
  ASSERT_THAT(journal->release(12), IsOk());
  EXPECT_EQ(journal->usage().released, 12u);
  // No more than spare_bytes of them are kept.
  EXPECT_THAT(names_in(fs), ElementsAre("segment-0000000000000004", "spare-0000000000000001",
                                        "spare-0000000000000002"));
  EXPECT_EQ(journal->usage().bytes, small_options().segment_bytes);
  const uint64_t inode = fs.stat(kJournalPath + "/spare-0000000000000002")->inode;
  append_many(*journal, 4);
  EXPECT_THAT(names_in(fs), ElementsAre("segment-0000000000000004", "segment-0000000000000005",
                                        "spare-0000000000000001"));
  EXPECT_EQ(fs.stat(kJournalPath + "/segment-0000000000000005")->inode, inode);
}

TEST(Journal, SparesOfADeadProcessAreUsedToo) {
  MemoryFileSystem fs;
  {
    const auto journal = ready_journal(fs);
    append_many(*journal, 13);
    ASSERT_THAT(journal->release(12), IsOk());
  }
  const auto journal = ready_journal(fs, small_options(), 12);
  append_many(*journal, 7);
  EXPECT_THAT(names_in(fs), ElementsAre("segment-0000000000000004", "segment-0000000000000005",
                                        "spare-0000000000000001"));
  // Somebody tidied up.
  ASSERT_THAT(fs.remove(kJournalPath + "/spare-0000000000000001"), IsOk());
  append_many(*journal, 4);
  EXPECT_EQ(count_named(fs, kSegmentPrefix), 3u);
  // Of another size they are of no use.
  JournalOptions other = small_options();
  ASSERT_THAT(journal->release(23), IsOk());
  EXPECT_EQ(count_named(fs, kSparePrefix), 2u);
  other.segment_bytes *= 2;
  EXPECT_EQ(replay_all(*open_journal(fs, other), 23)->size(), 1u);
  EXPECT_EQ(count_named(fs, kSparePrefix), 0u);
}

TEST(Journal, RecordsOfReleasedSegmentsNeverComeBack) {
  MemoryFileSystem fs;
  JournalOptions options = small_options();
  options.spare_bytes = 100 * options.segment_bytes;
  uint64_t committed = 0;
  for (int life = 0; life < 12; ++life) {
    const auto journal = ready_journal(fs, options, committed);
    // Each record where another lay before, of the same length.
    append_many(*journal, 11);
    committed += 11;
    ASSERT_THAT(journal->release(committed), IsOk());
    ASSERT_THAT(append(*journal, entry_of("the newest")), IsOk());
    EXPECT_EQ(replay_all(*open_journal(fs, options), committed)->size(), 1u);
    ++committed;
  }
}

TEST(Journal, SegmentsWithContentThatIsReferredToAreKept) {
  MemoryFileSystem fs;
  const auto journal = ready_journal(fs);
  const auto place = append(*journal, large_entry(1));
  append_many(*journal, 12);
  std::vector<uint64_t> asked;
  const auto keep_first = [&](uint64_t segment) {
    asked.push_back(segment);
    return segment == place->segment;
  };
  ASSERT_THAT(journal->release(13, keep_first), IsOk());
  EXPECT_THAT(asked, ElementsAre(1, 2, 3));
  EXPECT_EQ(count_named(fs, kSegmentPrefix), 2u);
  Bytes into(15'000);
  ASSERT_THAT(journal->read(*place, 0, into), IsOk());
  EXPECT_EQ(into, large_entry(1).content);
  // The records in it are released all the same.
  EXPECT_THAT(*replay_all(*open_journal(*fs.clone()), 13), IsEmpty());
  ASSERT_THAT(journal->release(13), IsOk());
  EXPECT_EQ(count_named(fs, kSegmentPrefix), 1u);
  EXPECT_THAT(journal->read(*place, 0, into), FailsWith(ErrorCode::kNotFound));
}

TEST(Journal, AReplayKeepsSegmentsWithContentThatIsReferredTo) {
  MemoryFileSystem fs;
  JournalPlace place;
  {
    const auto journal = ready_journal(fs);
    place = *append(*journal, large_entry(1));
    append_many(*journal, 12);
  }
  const auto nothing = [](const JournalPlace&, auto, auto) -> Result<void> { return {}; };
  const auto keep_first = [&](uint64_t segment) { return segment == place.segment; };
  for (int life = 0; life < 2; ++life) {
    const auto journal = open_journal(fs);
    ASSERT_THAT(journal->replay(13, nothing, keep_first), IsOk());
    EXPECT_EQ(count_named(fs, kSegmentPrefix), 2u);
    Bytes into(15'000);
    ASSERT_THAT(journal->read(place, 0, into), IsOk());
    EXPECT_EQ(into, large_entry(1).content);
  }
  const auto journal = ready_journal(fs, small_options(), 13);
  EXPECT_EQ(count_named(fs, kSegmentPrefix), 1u);
  Bytes into(15'000);
  EXPECT_THAT(journal->read(place, 0, into), FailsWith(ErrorCode::kNotFound));
}

TEST(Journal, AtTheLimitItIsBusyUntilSomethingIsReleased) {
  MemoryFileSystem fs;
  JournalOptions options = small_options();
  options.limit_bytes = 3 * options.segment_bytes;
  const auto journal = ready_journal(fs, options);
  append_many(*journal, 12);
  for (int i = 0; i < 3; ++i) {
    const auto refused = append(*journal, large_entry(13));
    ASSERT_THAT(refused, FailsWith(ErrorCode::kBusy));
    EXPECT_TRUE(refused.error().retryable);
  }
  EXPECT_THAT(append(*journal, entry_of("a small one fits")), IsOk());
  EXPECT_EQ(journal->usage().bytes, options.limit_bytes);
  ASSERT_THAT(journal->sync(), IsOk());
  ASSERT_THAT(journal->release(4), IsOk());
  append_many(*journal, 4);
  EXPECT_THAT(append(*journal, large_entry(18)), FailsWith(ErrorCode::kBusy));
  EXPECT_EQ(replay_all(*open_journal(fs, options), 4)->size(), 13u);
}

TEST(Journal, OnAFullDriveNothingIsWrittenUntilThereIsSpace) {
  MemoryFileSystem fs({.capacity_bytes = 3 * small_options().segment_bytes - 4096});
  const auto journal = ready_journal(fs);
  append_many(*journal, 8);
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(append(*journal, large_entry(9)), FailsWith(ErrorCode::kNoSpace));
    EXPECT_EQ(names_in(fs).size(), 2u);
  }
  EXPECT_THAT(journal->sync(), IsOk());
  EXPECT_EQ(replay_all(*open_journal(*fs.clone()))->size(), 8u);
  ASSERT_THAT(journal->release(4), IsOk());
  append_many(*journal, 4);
  EXPECT_EQ(journal->usage().last, 12u);
}

TEST(Journal, AFullDriveDoesNotKeepItFromBeingReplayed) {
  MemoryFileSystem fs({.capacity_bytes = 2 * small_options().segment_bytes});
  append_many(*ready_journal(fs), 8);
  const auto journal = open_journal(fs);
  EXPECT_EQ(replay_all(*journal)->size(), 8u);
  EXPECT_THAT(append(*journal, large_entry(9)), FailsWith(ErrorCode::kNoSpace));
  ASSERT_THAT(journal->release(8), IsOk());
  append_many(*journal, 1);
}

TEST(Journal, RecordsThatNeverFitAreInvalid) {
  MemoryFileSystem fs;
  const auto small = ready_journal(fs);
  EXPECT_THAT(small->append({}, Bytes(64 * kKiB)), FailsWith(ErrorCode::kInvalid));
  MemoryFileSystem other;
  JournalOptions options = small_options();
  options.segment_bytes = 4 * kMiB;
  options.limit_bytes = 16 * kMiB;
  const auto journal = ready_journal(other, options);
  EXPECT_THAT(journal->append(Bytes(1), Bytes(2 * kMiB)), FailsWith(ErrorCode::kInvalid));
  const Entry largest{random_bytes(kMiB, 1), random_bytes(kMiB, 2)};
  ASSERT_THAT(append(*journal, largest), IsOk());
  ASSERT_THAT(append(*journal, {{}, random_bytes(2 * kMiB, 3)}), IsOk());
  EXPECT_EQ((*replay_all(*open_journal(other, options)))[0].entry, largest);
}

TEST(Journal, BadOptionsAreRefused) {
  MemoryFileSystem fs;
  for (const uint64_t bytes : {uint64_t{0}, 60 * kKiB, 64 * kKiB + 1, 2 * kTiB}) {
    JournalOptions options = small_options();
    options.segment_bytes = bytes;
    options.limit_bytes = UINT64_MAX;
    EXPECT_THAT(Journal::open(fs, kJournalPath, options), FailsWith(ErrorCode::kInvalid));
  }
  JournalOptions options = small_options();
  options.limit_bytes = 2 * options.segment_bytes - 1;
  EXPECT_THAT(Journal::open(fs, kJournalPath, options), FailsWith(ErrorCode::kInvalid));
  EXPECT_FALSE(fs.stat(kJournalPath).ok());
  EXPECT_THAT(open_journal(fs)->replay(UINT64_MAX, nullptr), FailsWith(ErrorCode::kInvalid));
}

TEST(Journal, ReleaseOfWhatIsNotThereIsInvalid) {
  MemoryFileSystem fs;
  const auto journal = ready_journal(fs);
  append_many(*journal, 2);
  EXPECT_THAT(journal->release(3), FailsWith(ErrorCode::kInvalid));
  EXPECT_THAT(journal->release(2), IsOk());
  EXPECT_THAT(journal->release(1), IsOk());
  EXPECT_EQ(journal->usage().released, 2u);
}

TEST(Journal, AnotherVolumesIsRefused) {
  MemoryFileSystem fs;
  append_many(*ready_journal(fs), 1);
  JournalOptions other = small_options();
  other.volume[15] = std::byte{99};
  const auto refused = Journal::open(fs, kJournalPath, other);
  ASSERT_THAT(refused, FailsWith(ErrorCode::kInvalid));
  EXPECT_THAT(refused.error().detail,
              HasSubstr("another volume, 000102030405060708090a0b0c0d0e0f"));
}

TEST(Journal, ForeignFilesAreLeftAlone) {
  MemoryFileSystem fs;
  append_many(*ready_journal(fs), 1);
  for (const char* name : {"/segment-1", "/lost+found", "/spare-000000000000000G"}) {
    ASSERT_THAT(fs.make_directory(kJournalPath + name), IsOk());
  }
  append_many(*ready_journal(fs), 1);
  EXPECT_EQ(names_in(fs).size(), 4u);
}

TEST(Journal, IsForItsOwnersEyesOnly) {
  MemoryFileSystem fs;
  append_many(*ready_journal(fs), 1);
  EXPECT_EQ(fs.stat(kJournalPath)->mode & 077u, 0u);
  EXPECT_EQ(fs.stat(kJournalPath + "/segment-0000000000000001")->mode & 077u, 0u);
}

TEST(Journal, TellsTheAgeOfTheOldestRecord) {
  MemoryFileSystem fs;
  int64_t now = 1'000'000'000;
  JournalOptions options = small_options();
  options.now_ns = [&now] { return now; };
  {
    const auto journal = ready_journal(fs, options);
    EXPECT_EQ(journal->usage().oldest_ns, 0);
    for (int i = 0; i < 5; ++i) {
      ASSERT_THAT(append(*journal, entry_of("tick")), IsOk());
      now += 1'000'000'000;
    }
    EXPECT_EQ(journal->usage().oldest_ns, 1'000'000'000);
    ASSERT_THAT(journal->release(2), IsOk());
    EXPECT_EQ(journal->usage().oldest_ns, 3'000'000'000);
    ASSERT_THAT(journal->release(5), IsOk());
    EXPECT_EQ(journal->usage().oldest_ns, 0);
  }
  const auto journal = ready_journal(fs, options, 3);
  EXPECT_EQ(journal->usage().oldest_ns, 4'000'000'000);
}

}  // namespace
}  // namespace penstock::volume
