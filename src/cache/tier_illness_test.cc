// What a tier does when its drive fails.
#include <fmt/core.h>

#include <cerrno>
#include <cstring>

#include "cache/tier_faults.h"
#include "io/faulty_file_system.h"

namespace penstock::cache {

namespace {

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

// A script of fills, reads and drops, of which the Nth call fails, and maybe all after it.
void run_script(io::FileSystem& fs) {
  TierOptions options = patient_options();
  options.open_files = 1;
  TestTier tier(fs, options);
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

// Whatever fails, and whenever: an answer, and never other bytes.
TEST(TierEveryFault, NeverWrongBytesAndNeverAHang) {
  const LogLines silenced;
  for (const auto& [error, for_good] :
       {std::pair(EIO, false), {EIO, true}, {ENOSPC, false}, {EMFILE, false}}) {
    for (uint64_t n = 1;; ++n) {
      SCOPED_TRACE(fmt::format("call {} fails with {}{}", n, std::strerror(error),
                               for_good ? ", as do those after it" : ""));
      io::FaultyFileSystem fs({.fail_at = n, .error = error, .for_good = for_good});
      run_script(fs);
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
