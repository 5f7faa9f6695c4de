// Entries that are opened before anybody reads them.
#include <algorithm>

#include "cache/tier_faults.h"
#include "io/faulty_file_system.h"

namespace penstock::cache {

namespace {

class TierOpenAhead : public TierFaults {
 protected:
  void open_ahead(const EntryKey& key) { tier_->tier().open_ahead(key, version_id(key.version)); }
};

TEST(TierOpensAhead, WhoReadsThenDoesNotOpen) {
  io::FaultyFileSystem counted({});
  AilingFileSystem fs(counted);
  const EntryKey key = entry_key(1);
  TestTier tier(fs);
  ASSERT_EQ(outcome(tier.fill(key)), "ok");
  const auto opened = [&] {
    const std::string line = "open " + tier.file_of(key);
    const std::vector<std::string> trace = counted.trace();
    return std::ranges::count_if(trace, [&](const auto& call) { return call.ends_with(line); });
  };
  tier.tier().open_ahead(key, version_id(key.version));
  ASSERT_TRUE(eventually([&] { return opened() == 1; }));
  EXPECT_TRUE(is_data(tier.read(key), key));
  tier.tier().open_ahead(key, version_id(key.version));
  EXPECT_TRUE(is_data(tier.read(key, 5000, 700), key, 5000, 700));
  EXPECT_EQ(opened(), 1);
  EXPECT_EQ(tier.notes().used, 2u);  // By the reads alone.
}

TEST_F(TierOpenAhead, WhoComesMeanwhileAsksAtOnce) {
  start();
  const EntryKey key = entry_key(1, 200'000);
  for (const bool is_damaged : {false, true}) {
    put(key, false);
    tier_ = nullptr;
    start();
    if (is_damaged) flip(key, 30);
    fs_.ailment().hang(Ailment::kReads);
    open_ahead(key);
    fs_.ailment().wait_until_hanging(1);  // The header.
    std::vector<TestTier::Read> reads;
    for (uint32_t i = 0; i < 20; ++i) reads.push_back(tier_->start_read(key, i * 4000, 4000));
    open_ahead(key);
    fs_.ailment().wait_until_hanging(21);
    fs_.ailment().recover();
    for (uint32_t i = 0; i < 20; ++i) {
      if (is_damaged) {
        EXPECT_EQ(outcome(reads[i].get()), "not_found");
      } else {
        EXPECT_TRUE(is_data(reads[i].get(), key, i * 4000, 4000));
      }
    }
    if (is_damaged) {
      EXPECT_TRUE(eventually([&] { return !is_there(key) && failures() > 0; }));
    }
  }
}

TEST_F(TierOpenAhead, BehindAReadThatOpensItDoesNothing) {
  start();
  const EntryKey key = entry_key(1);
  put(key, false);
  fs_.ailment().hang(Ailment::kOpens);
  TestTier::Read read = tier_->start_read(key, 0, key.length);
  fs_.ailment().wait_until_hanging(1);
  for (int i = 0; i < 3; ++i) open_ahead(key);
  fs_.ailment().recover();
  EXPECT_TRUE(is_data(read.get(), key));
}

TEST_F(TierOpenAhead, WhatIsNotThereIsNoTrouble) {
  start();
  open_ahead(entry_key(7));
  open_ahead(entry_key(8, 0));  // No entry at all.
  tier_->tier().drain();
  EXPECT_TRUE(is_not_found(tier_->read(entry_key(7))));
  EXPECT_TRUE(tier_->on());
  EXPECT_EQ(failures(), 0u);
}

// Closing waits for it; a drive that hangs is switched off as for a read.
TEST_F(TierOpenAhead, ADriveThatHangsIsFoundOut) {
  TierOptions options = quick_options();
  options.slow_after = std::chrono::milliseconds(50);
  start(options);
  const EntryKey key = entry_key(1);
  put(key, false);
  fs_.ailment().hang(Ailment::kOpens);
  open_ahead(key);
  EXPECT_TRUE(eventually([&] { return !tier_->on(); }));
  fs_.ailment().recover();
  EXPECT_TRUE(eventually([&] { return tier_->on(); }));
  tier_ = nullptr;
}

}  // namespace

}  // namespace penstock::cache
