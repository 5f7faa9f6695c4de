// What a tier does when its drive, or somebody else, does something to its files.
#include <fmt/core.h>

#include <cerrno>
#include <cstring>

#include "cache/ailing_file_system.h"
#include "cache/entry_header.h"
#include "cache/tier.h"
#include "cache/tier_test_support.h"
#include "io/faulty_file_system.h"
#include "io/memory_file_system.h"

namespace penstock::cache {

namespace {

// Tries an ill drive again soon.
TierOptions quick_options() {
  TierOptions options = patient_options();
  options.retry_every = std::chrono::milliseconds(20);
  return options;
}

class TierFaults : public testing::Test {
 protected:
  // Changes a file behind the tier's back.
  void flip(const EntryKey& key, uint64_t at) {
    const auto file = open(key);
    std::byte byte{};
    ASSERT_EQ(file->read(at, {&byte, 1}).value(), 1u);
    byte ^= std::byte{0x10};
    ASSERT_TRUE(file->write(at, {&byte, 1}).ok());
  }
  void truncate(const EntryKey& key, uint64_t size) { ASSERT_TRUE(open(key)->truncate(size).ok()); }
  void overwrite(const EntryKey& key, std::span<const std::byte> bytes) {
    ASSERT_TRUE(open(key)->write(0, bytes).ok());
  }
  bool is_there(const EntryKey& key) { return memory_.stat(tier_->file_of(key)).ok(); }
  uint64_t failures() { return tier_->tier().stats().verification_failures; }

  std::unique_ptr<io::File> open(const EntryKey& key) {
    return memory_.open(tier_->file_of(key), {.access = io::Access::kReadWrite}).value();
  }
  void start(TierOptions options = patient_options()) {
    tier_ = std::make_unique<TestTier>(fs_, std::move(options));
  }
  // An entry that is there; `opened`: and is open.
  void put(const EntryKey& key, bool opened) {
    ASSERT_EQ(outcome(tier_->fill(key)), "ok");
    if (opened) {
      ASSERT_TRUE(is_data(tier_->read(key), key));
    }
  }

  io::MemoryFileSystem memory_;
  AilingFileSystem fs_{memory_};
  std::unique_ptr<TestTier> tier_;
};

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

// One warning, whatever comes after it; nothing is asked of the drive while it is off; and it comes
// back by itself.
struct Illness {
  const char* name;
  unsigned what;
  int os_errno;
};
class TierIllness : public TierFaults, public testing::WithParamInterface<Illness> {};

TEST_P(TierIllness, SwitchesOffOnceAndComesBack) {
  const LogLines log;
  start(quick_options());
  const EntryKey open = entry_key(1);
  const EntryKey closed = entry_key(2);
  put(open, true);
  put(closed, false);
  fs_.ailment().fail(GetParam().what, GetParam().os_errno);
  for (int i = 0; i < 3; ++i) {
    for (const EntryKey& key : {open, closed}) {
      const Result<std::string> read = tier_->read(key);
      EXPECT_TRUE(read.ok() ? is_data(read, key) : is_not_found(read));
    }
    EXPECT_FALSE(tier_->fill(entry_key(3)).ok());
  }
  EXPECT_FALSE(tier_->on());
  EXPECT_EQ(outcome(tier_->read(open)), "not_found");
  EXPECT_FALSE(tier_->tier().reserve(open, version_id(open.version)));
  EXPECT_EQ(outcome(tier_->start_fill(open).get()), "unavailable");

  fs_.ailment().recover();
  EXPECT_TRUE(eventually([&] { return tier_->on(); }));
  EXPECT_EQ(outcome(tier_->fill(entry_key(4))), "ok");
  EXPECT_TRUE(is_data(tier_->read(entry_key(4)), entry_key(4)));
  const std::vector<std::string> lines = log.get();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("directory=/cache"), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("read from the source"), std::string::npos) << lines[0];
  EXPECT_EQ(failures(), 0u);
}

INSTANTIATE_TEST_SUITE_P(, TierIllness,
                         testing::Values(Illness{"ReadErrors", Ailment::kReads, EIO},
                                         Illness{"OpenErrors", Ailment::kOpens, EIO},
                                         Illness{"WriteErrors", Ailment::kWrites, EIO},
                                         Illness{"ReadOnly", Ailment::kWrites | Ailment::kNames,
                                                 EROFS},
                                         Illness{"Dead", Ailment::kAll, ENODEV}),
                         [](const auto& illness) { return illness.param.name; });

TEST_F(TierFaults, NoSpaceIsNoIllness) {
  const LogLines log;
  start(quick_options());
  put(entry_key(1), false);
  fs_.ailment().fail(Ailment::kWrites, ENOSPC);
  EXPECT_EQ(outcome(tier_->fill(entry_key(2))), "no_space");
  fs_.ailment().recover();
  // No more are tried for a second, in which the keeper makes room.
  EXPECT_FALSE(tier_->tier().reserve(entry_key(2), version_id(entry_key(2).version)));
  EXPECT_EQ(outcome(tier_->start_fill(entry_key(2)).get()), "no_space");
  EXPECT_TRUE(tier_->on());
  EXPECT_TRUE(is_data(tier_->read(entry_key(1)), entry_key(1)));
  EXPECT_EQ(tier_->tier().stats().fills_skipped, 2u);
  EXPECT_TRUE(eventually([&] { return tier_->fill(entry_key(2)).ok(); }));
  EXPECT_EQ(log.get().size(), 0u);
}

TEST_F(TierFaults, TooManyOpenFilesIsNoIllness) {
  const LogLines log;
  start(quick_options());
  for (uint32_t n = 0; n < 4; ++n) put(entry_key(n), n < 3);
  fs_.ailment().fail(Ailment::kOpens, EMFILE);
  EXPECT_EQ(outcome(tier_->read(entry_key(3))), "not_found");
  EXPECT_TRUE(is_data(tier_->read(entry_key(2)), entry_key(2)));  // Still open.
  EXPECT_EQ(outcome(tier_->read(entry_key(0))), "not_found");     // Closed, to make room.
  EXPECT_EQ(outcome(tier_->fill(entry_key(5))), "busy");
  EXPECT_TRUE(tier_->on());
  fs_.ailment().recover();
  EXPECT_TRUE(is_data(tier_->read(entry_key(3)), entry_key(3)));
  EXPECT_EQ(log.get().size(), 0u);
}

// A drive with one bad place is found well again: the entry there must not switch it off for ever.
TEST_F(TierFaults, AnEntryOnABadPlaceIsDropped) {
  start(quick_options());
  put(entry_key(1), true);
  fs_.ailment().fail(Ailment::kReads, EIO);
  EXPECT_EQ(outcome(tier_->read(entry_key(1))), "not_found");
  EXPECT_TRUE(eventually([&] { return !is_there(entry_key(1)); }));
  fs_.ailment().recover();
  EXPECT_TRUE(eventually([&] { return tier_->on(); }));
}

TEST_F(TierFaults, TheKeepersErrorsSwitchOffAndStartAnother) {
  const LogLines log;
  start(quick_options());
  put(entry_key(1), true);
  tier_->tier().set_quota({.bytes = 77 * kMiB});
  fs_.ailment().fail(Ailment::kOpens, EIO);  // So that it stays off for long enough to be seen.
  tier_->notes().on_error(make_error(ErrorCode::kNoSpace, "the log"));
  EXPECT_TRUE(tier_->on());
  tier_->notes().on_error(make_error(ErrorCode::kIo, "the log"));
  EXPECT_FALSE(tier_->on());
  EXPECT_EQ(outcome(tier_->read(entry_key(1))), "not_found");
  tier_->notes().quota_bytes = 0;
  fs_.ailment().recover();
  EXPECT_TRUE(eventually([&] { return tier_->on(); }));
  EXPECT_EQ(tier_->notes().get(&Notes::started), 2u);
  EXPECT_EQ(tier_->notes().get(&Notes::quota_bytes), 77 * kMiB);
  EXPECT_TRUE(is_data(tier_->read(entry_key(1)), entry_key(1)));
  EXPECT_EQ(log.get().size(), 1u);
}

TEST_F(TierFaults, ADirectoryThatCannotBeOpenedIsOffUntilItCan) {
  const LogLines log;
  ASSERT_TRUE(memory_.make_directory("/cache").ok());
  ASSERT_TRUE(io::write_file_durably(memory_, "/cache/thesis.tex", "years of work").ok());
  start(quick_options());
  EXPECT_EQ(outcome(tier_->first_try()), "invalid");
  EXPECT_FALSE(tier_->on());
  EXPECT_EQ(tier_->tier().keeper(), nullptr);
  EXPECT_EQ(outcome(tier_->read(entry_key(1))), "not_found");
  EXPECT_EQ(outcome(tier_->start_fill(entry_key(1)).get()), "unavailable");
  tier_->tier().drop(entry_key(1), version_id(entry_key(1).version));
  tier_->tier().drain();
  EXPECT_FALSE(tier_->tier().stats().on);
  ASSERT_TRUE(memory_.remove("/cache/thesis.tex").ok());
  EXPECT_TRUE(eventually([&] { return tier_->on(); }));
  put(entry_key(1), true);
  EXPECT_EQ(log.get().size(), 1u);
}

// The mount point is an empty directory of another file system then: nothing must be put there.
TEST_F(TierFaults, UnmountedUnderneath) {
  for (const bool noticed_by_fill : {false, true}) {
    const LogLines log;
    start(noticed_by_fill ? patient_options() : quick_options());
    put(entry_key(1), false);
    ASSERT_TRUE(memory_.rename("/cache", "/elsewhere").ok());
    ASSERT_TRUE(memory_.make_directory("/cache").ok());
    if (noticed_by_fill) {
      EXPECT_EQ(outcome(tier_->fill(entry_key(2))), "not_found");
      EXPECT_FALSE(tier_->on());
    } else {
      EXPECT_TRUE(eventually([&] { return !tier_->on(); }));
    }
    EXPECT_EQ(outcome(tier_->read(entry_key(1))), "not_found");
    size_t strangers = 0;
    ASSERT_TRUE(
        memory_.list("/cache", [&](const io::DirectoryEntry&) { return ++strangers > 0; }).ok());
    EXPECT_EQ(strangers, 0u);
    ASSERT_TRUE(memory_.remove_directory("/cache").ok());
    ASSERT_TRUE(memory_.rename("/elsewhere", "/cache").ok());
    if (!noticed_by_fill) {
      EXPECT_TRUE(eventually([&] { return tier_->on(); }));
      EXPECT_TRUE(is_data(tier_->read(entry_key(1)), entry_key(1)));
    }
    EXPECT_EQ(log.get().size(), 1u);
    tier_.reset();
  }
}

// Whatever fails, and whenever: an answer, and never other bytes.
TEST(TierEveryFault, NeverWrongBytesAndNeverAHang) {
  for (const int error : {EIO, ENOSPC, EMFILE}) {
    for (uint64_t n = 1;; ++n) {
      SCOPED_TRACE(fmt::format("call {} fails with {}", n, std::strerror(error)));
      set_log_level(LogLevel::kOff);
      io::FaultyFileSystem fs({.fail_at = n, .error = error});
      {
        TestTier tier(fs, [] {
          TierOptions options = patient_options();
          options.open_files = 1;
          return options;
        }());
        for (uint32_t i = 0; i < 3; ++i) {
          const EntryKey key = entry_key(i % 2);
          (void)tier.fill(key);
          for (const uint32_t begin : {0u, 9000u}) {
            const Result<std::string> read = tier.read(key, begin, 10'000);
            EXPECT_TRUE(read.ok() ? is_data(read, key, begin, 10'000) : is_not_found(read));
          }
        }
        tier.tier().drop(entry_key(0), version_id(entry_key(0).version));
        tier.tier().drain();
        EXPECT_EQ(outcome(tier.read(entry_key(0))), "not_found");
        EXPECT_EQ(tier.notes().get(&Notes::reserved), 0);
      }
      set_log_level(LogLevel::kWarn);
      // What is left on the disk is whole, for the next one.
      TestTier next(fs.disk());
      for (uint32_t i = 0; i < 2; ++i) {
        const Result<std::string> read = next.read(entry_key(i));
        EXPECT_TRUE(read.ok() ? is_data(read, entry_key(i)) : is_not_found(read));
      }
      EXPECT_EQ(next.tier().stats().verification_failures, 0u);
      if (!fs.fault_hit()) break;
    }
  }
}

}  // namespace

}  // namespace penstock::cache
