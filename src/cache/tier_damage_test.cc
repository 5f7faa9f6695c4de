// What a tier does when somebody does something to its files.
#include <fmt/core.h>

#include <cstring>

#include "cache/entry_header.h"
#include "cache/tier_faults.h"

namespace penstock::cache {

namespace {

TEST_F(TierFaults, DamageIsFoundCountedDroppedAndRefilled) {
  start();
  const EntryKey key = entry_key(1, 20'000);
  uint64_t damaged = 0;
  // The identity, the checksums, the first block, the last, its padding.
  for (const uint64_t at : {uint64_t{20}, uint64_t{70}, uint64_t{header_bytes(key)} + 5,
                            file_bytes(key) - 4000, file_bytes(key) - 1}) {
    for (const bool opened : {false, true}) {
      SCOPED_TRACE(fmt::format("byte {} of a file that is {}", at, opened ? "open" : "not open"));
      put(key, opened);
      flip(key, at);
      // A header that was read already is not read again.
      if (opened && at < header_bytes(key)) {
        EXPECT_TRUE(is_data(tier_->read(key), key));
        continue;
      }
      EXPECT_EQ(outcome(tier_->read(key)), "not_found");
      EXPECT_EQ(failures(), ++damaged);
      EXPECT_FALSE(is_there(key));
      EXPECT_EQ(tier_->notes().get(&Notes::dropped), damaged);
      EXPECT_EQ(outcome(tier_->read(key)), "not_found");
      EXPECT_EQ(failures(), damaged);
    }
  }
  EXPECT_TRUE(tier_->on());
  put(key, true);
}

TEST_F(TierFaults, DamageElsewhereInTheEntryIsNoMatter) {
  start();
  const EntryKey key = entry_key(1, 40'000);
  put(key, false);
  flip(key, header_bytes(key) + 30'000);
  EXPECT_TRUE(is_data(tier_->read(key, 0, 20'000), key, 0, 20'000));
  EXPECT_EQ(outcome(tier_->read(key, 20'000, 20'000)), "not_found");
  EXPECT_EQ(failures(), 1u);
}

// Everybody who reads a damaged entry at once is told so, and it is counted once or more.
TEST_F(TierFaults, DamageUnderManyReaders) {
  start();
  const EntryKey key = entry_key(1, 200'000);
  put(key, false);
  flip(key, 30);
  std::vector<TestTier::Read> reads;
  for (uint32_t i = 0; i < 50; ++i) reads.push_back(tier_->start_read(key, i * 4000, 4000));
  for (TestTier::Read& read : reads) EXPECT_EQ(outcome(read.get()), "not_found");
  EXPECT_GE(failures(), 1u);
  EXPECT_FALSE(is_there(key));
}

// Whoever comes while the header is being read asks for its own bytes meanwhile; what became of the
// header is the same for all.
TEST_F(TierFaults, WhoComesWhileAnEntryIsOpenedDoesNotWaitToAsk) {
  start();
  const EntryKey key = entry_key(1, 200'000);
  for (const bool is_damaged : {false, true}) {
    put(key, false);
    tier_ = nullptr;
    start();
    if (is_damaged) flip(key, 30);
    fs_.ailment().hang(Ailment::kReads);
    std::vector<TestTier::Read> reads;
    reads.push_back(tier_->start_read(key, 0, 4000));
    fs_.ailment().wait_until_hanging(2);  // The header, and its data.
    for (uint32_t i = 1; i < 20; ++i) reads.push_back(tier_->start_read(key, i * 4000, 4000));
    fs_.ailment().wait_until_hanging(21);
    fs_.ailment().recover();
    for (uint32_t i = 0; i < 20; ++i) {
      if (is_damaged) {
        EXPECT_EQ(outcome(reads[i].get()), "not_found");
      } else {
        EXPECT_TRUE(is_data(reads[i].get(), key, i * 4000, 4000));
      }
    }
  }
}

TEST_F(TierFaults, TruncatedUnderneathIsAnEviction) {
  start();
  const EntryKey key = entry_key(1, 40'000);
  for (const uint64_t size : {uint64_t{0}, uint64_t{100}, uint64_t{header_bytes(key)},
                              uint64_t{header_bytes(key)} + 8192}) {
    for (const bool opened : {false, true}) {
      SCOPED_TRACE(fmt::format("to {} bytes, {}", size, opened ? "open" : "not open"));
      put(key, opened);
      truncate(key, size);
      EXPECT_EQ(outcome(tier_->read(key)), "not_found");
      // Who did this may have been killed before removing it.
      EXPECT_TRUE(eventually([&] { return !is_there(key); }));
    }
  }
  EXPECT_EQ(failures(), 0u);
  EXPECT_TRUE(tier_->on());
}

// Another process evicted the entry and filled it anew while we had it open.
TEST_F(TierFaults, EvictedAndRefilledByOthersIsAHit) {
  start();
  const EntryKey key = entry_key(1);
  put(key, true);
  const std::string path = tier_->file_of(key);
  truncate(key, 0);
  ASSERT_TRUE(memory_.remove(path).ok());
  {
    TestTier other(memory_);
    ASSERT_EQ(outcome(other.fill(key)), "ok");
  }
  EXPECT_TRUE(is_data(tier_->read(key), key));
  EXPECT_EQ(failures(), 0u);
}

// Unlinked and not truncated: the open file still has the right bytes.
TEST_F(TierFaults, RemovedWhileOpenIsStillRead) {
  start();
  const EntryKey key = entry_key(1);
  put(key, true);
  ASSERT_TRUE(memory_.remove(tier_->file_of(key)).ok());
  EXPECT_TRUE(is_data(tier_->read(key), key));
}

TEST_F(TierFaults, AnotherEntrysFileIsNotOurs) {
  start();
  const EntryKey key = entry_key(1);
  put(key, false);
  const std::shared_ptr<io::Buffer> other = tier_->make_file(entry_key(2));
  seal_entry(other->bytes(), entry_key(2));
  overwrite(key, other->bytes());
  EXPECT_EQ(outcome(tier_->read(key)), "not_found");
  EXPECT_EQ(failures(), 0u);
  EXPECT_TRUE(is_there(key));
}

TEST_F(TierFaults, NewerVersionsAreLeftAlone) {
  start();
  const EntryKey key = entry_key(1);
  put(key, false);
  const std::shared_ptr<io::Buffer> file = tier_->make_file(key);
  seal_entry(file->bytes(), key);
  const uint32_t newer = kEntryVersion + 1;
  std::memcpy(file->data() + offsetof(HeaderFields, version), &newer, sizeof(newer));
  seal_header(file->bytes().first(header_bytes(key)));
  overwrite(key, file->bytes());
  EXPECT_EQ(outcome(tier_->read(key)), "not_found");
  EXPECT_EQ(failures(), 0u);
  EXPECT_TRUE(is_there(key));
}

TEST_F(TierFaults, PlantedThingsInTheEntrysPlace) {
  start();
  const EntryKey key = entry_key(1);
  put(key, false);
  const std::string path = tier_->file_of(key);
  ASSERT_TRUE(memory_.remove(path).ok());
  ASSERT_TRUE(memory_.make_symlink("/etc/passwd", path).ok());
  EXPECT_EQ(outcome(tier_->read(key)), "not_found");
  put(key, false);
  ASSERT_TRUE(memory_.remove(path).ok());
  ASSERT_TRUE(memory_.make_directory(path).ok());
  EXPECT_EQ(outcome(tier_->read(key)), "not_found");
  EXPECT_EQ(outcome(tier_->fill(key)), "invalid");
  EXPECT_TRUE(tier_->on());
  EXPECT_EQ(tier_->notes().get(&Notes::reserved), 0);
}

}  // namespace

}  // namespace penstock::cache
