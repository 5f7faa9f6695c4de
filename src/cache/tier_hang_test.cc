// What a tier does when its drive does not answer at all.
#include <fmt/core.h>

#include <chrono>
#include <thread>

#include "cache/ailing_file_system.h"
#include "cache/tier.h"
#include "cache/tier_test_support.h"
#include "io/memory_file_system.h"

namespace penstock::cache {

namespace {

constexpr Nanoseconds kSlowAfter = std::chrono::milliseconds(80);

TierOptions hasty_options() {
  TierOptions options = patient_options();
  options.slow_after = kSlowAfter;
  options.retry_every = std::chrono::milliseconds(20);
  return options;
}

class TierHang : public testing::Test {
 protected:
  // Filled by another, so that no slow machine makes this one ill before its time.
  void SetUp() override {
    TestTier patient(memory_);
    for (uint32_t n = 0; n < 40; ++n) ASSERT_EQ(outcome(patient.fill(entry_key(n))), "ok");
  }
  void TearDown() override { fs_.ailment().recover(); }  // Or closing waits for ever.
  void start(const TierOptions& options = hasty_options()) {
    tier_ = std::make_unique<TestTier>(fs_, options);
    ASSERT_TRUE(eventually([&] { return tier_->on(); }));
  }
  void open(uint32_t n) {
    ASSERT_TRUE(eventually([&] { return tier_->read(entry_key(n)).ok(); }));
  }
  void comes_back() {
    fs_.ailment().recover();
    EXPECT_TRUE(eventually([&] { return tier_->on(); }));
    for (const uint32_t n : {1u, 2u, 30u}) {
      EXPECT_TRUE(eventually([&] { return tier_->read(entry_key(n)).ok(); }));
    }
    EXPECT_TRUE(eventually([&] { return tier_->fill(entry_key(50)).ok(); }));
  }

  io::MemoryFileSystem memory_;
  AilingFileSystem fs_{memory_};
  std::unique_ptr<TestTier> tier_;
};

TEST_F(TierHang, ReadsAreAnsweredWithoutTheDrive) {
  const LogLines log;
  start();
  open(1);
  fs_.ailment().hang(Ailment::kAll);
  const auto begin = std::chrono::steady_clock::now();
  std::vector<TestTier::Read> reads;
  reads.push_back(tier_->start_read(entry_key(1), 0, 100));     // In flight.
  reads.push_back(tier_->start_read(entry_key(1), 5000, 100));  // And another.
  for (uint32_t n = 2; n < 30; ++n)  // Opening, and waiting for a worker.
    reads.push_back(tier_->start_read(entry_key(n), 0, 100));
  reads.push_back(tier_->start_read(entry_key(2), 5000, 100));  // Waiting for another's opening.
  for (TestTier::Read& read : reads) EXPECT_EQ(outcome(read.get()), "not_found");
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kSlowAfter / 2);
  EXPECT_FALSE(tier_->on());
  // From now on at once: the drive is not asked.
  EXPECT_EQ(tier_->start_read(entry_key(1), 0, 100).wait_for(std::chrono::seconds(0)),
            std::future_status::ready);
  comes_back();
  EXPECT_EQ(log.get().size(), 1u) << testing::PrintToString(log.get());
}

// Drives often stop at one kind of operation only.
TEST_F(TierHang, OnlyTransfersHang) {
  const LogLines log;
  start();
  open(1);
  fs_.ailment().hang(Ailment::kReads);
  TestTier::Read data = tier_->start_read(entry_key(1), 0, 100);
  TestTier::Read header = tier_->start_read(entry_key(2), 0, 100);
  EXPECT_EQ(outcome(data.get()), "not_found");
  EXPECT_EQ(outcome(header.get()), "not_found");
  EXPECT_FALSE(tier_->on());
  comes_back();
  EXPECT_EQ(log.get().size(), 1u) << testing::PrintToString(log.get());
}

TEST_F(TierHang, FillsAreAnsweredWithoutTheDrive) {
  const LogLines log;
  start();
  fs_.ailment().hang(Ailment::kWrites);
  std::vector<TestTier::Fill> fills;
  for (uint32_t n = 60; n < 80; ++n) {  // Some hang, the others wait for a worker.
    // On a slow machine it is off before all were asked for.
    if (!tier_->tier().reserve(entry_key(n), version_id(entry_key(n).version))) break;
    fills.push_back(tier_->start_fill(entry_key(n)));
  }
  EXPECT_GT(fills.size(), 0u);
  for (TestTier::Fill& fill : fills) EXPECT_FALSE(fill.get().ok());
  tier_->tier().drain();
  EXPECT_FALSE(tier_->on());
  comes_back();
  // Those that were late are there, or were given up: none stays reserved.
  EXPECT_TRUE(eventually([&] { return tier_->notes().get(&Notes::reserved) == 0; }));
  EXPECT_EQ(log.get().size(), 1u) << testing::PrintToString(log.get());
}

// Nobody reads or writes: the look at the directory itself notices.
TEST_F(TierHang, IsNoticedByTheCheck) {
  const LogLines log;
  start();
  fs_.ailment().hang(Ailment::kAll);
  EXPECT_TRUE(eventually([&] { return !tier_->on(); }));
  comes_back();
  EXPECT_EQ(log.get().size(), 1u) << testing::PrintToString(log.get());
}

TEST_F(TierHang, OpeningDoesNotWaitForTheDrive) {
  fs_.ailment().hang(Ailment::kAll);
  TierOptions options = hasty_options();
  options.start_keeper = [](CacheDirectory&, const KeeperOptions&) {
    return std::make_unique<CountingKeeper>(std::make_shared<Notes>());
  };
  const std::shared_ptr<Tier> tier =
      Tier::open(fs_, options, io::BufferProvider::create({}).value());
  EXPECT_FALSE(tier->on());
  EXPECT_EQ(tier->keeper(), nullptr);
  EXPECT_EQ(outcome(tier->wait_tried(deadline_in(std::chrono::milliseconds(5)))), "timeout");
  fs_.ailment().recover();
}

TEST_F(TierHang, TheDestructorWaitsForWhatIsUnderWay) {
  start(patient_options());
  open(1);
  fs_.ailment().hang(Ailment::kReads | Ailment::kWrites | Ailment::kOpens);
  std::vector<TestTier::Read> reads;
  reads.push_back(tier_->start_read(entry_key(1), 0, 100));
  for (uint32_t n = 2; n < 30; ++n) reads.push_back(tier_->start_read(entry_key(n), 0, 100));
  ASSERT_TRUE(tier_->tier().reserve(entry_key(60), version_id(entry_key(60).version)));
  TestTier::Fill fill = tier_->start_fill(entry_key(60));
  fs_.ailment().wait_until_hanging(7);  // One in flight, all workers.
  std::thread closer([&] { tier_->close(); });
  fs_.ailment().recover();
  closer.join();
  for (TestTier::Read& read : reads) {
    ASSERT_EQ(read.wait_for(std::chrono::seconds(0)), std::future_status::ready);
    const Result<std::string> answer = read.get();
    EXPECT_TRUE(answer.ok() || answer.error().code == ErrorCode::kNotFound);
  }
  ASSERT_EQ(fill.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_EQ(tier_->notes().get(&Notes::reserved), 0);
}

// What was answered long ago still holds its buffer until the drive is done with it.
TEST_F(TierHang, LateCompletionsGiveTheirMemoryBack) {
  start();
  open(1);
  const auto in_use = [&] { return tier_->buffers().stats().in_use_bytes; };
  ASSERT_TRUE(eventually([&] { return in_use() == 0; }));
  fs_.ailment().hang(Ailment::kReads);
  EXPECT_EQ(outcome(tier_->read(entry_key(1))), "not_found");
  EXPECT_GT(in_use(), 0u);
  fs_.ailment().recover();
  EXPECT_TRUE(eventually([&] { return in_use() == 0; }));
}

TEST_F(TierHang, FillsBeyondTheLimitAreSkipped) {
  TierOptions options = patient_options();
  options.fill_bytes_max = 3 * file_bytes(entry_key(0));
  start(options);
  fs_.ailment().hang(Ailment::kWrites);
  std::vector<TestTier::Fill> fills;
  for (uint32_t n = 60; n < 65; ++n) {
    ASSERT_TRUE(tier_->tier().reserve(entry_key(n), version_id(entry_key(n).version)));
    fills.push_back(tier_->start_fill(entry_key(n)));
  }
  EXPECT_EQ(outcome(fills[3].get()), "busy");
  EXPECT_EQ(outcome(fills[4].get()), "busy");
  EXPECT_EQ(tier_->notes().get(&Notes::reserved), 3);
  fs_.ailment().recover();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(outcome(fills[i].get()), "ok");
  tier_->tier().drain();
  EXPECT_EQ(tier_->tier().stats().fills_skipped, 2u);
  EXPECT_EQ(outcome(tier_->fill(entry_key(70))), "ok");
}

// Fills keep some workers busy, and never all: reads go on beside them.
TEST_F(TierHang, ReadsDoNotWaitForFills) {
  start(patient_options());
  fs_.ailment().hang(Ailment::kWrites);
  std::vector<TestTier::Fill> fills;
  for (uint32_t n = 60; n < 75; ++n) fills.push_back(tier_->start_fill(entry_key(n)));
  fs_.ailment().wait_until_hanging(4);
  for (uint32_t n = 0; n < 20; ++n) EXPECT_TRUE(is_data(tier_->read(entry_key(n)), entry_key(n)));
  fs_.ailment().recover();
  for (TestTier::Fill& fill : fills) EXPECT_EQ(outcome(fill.get()), "ok");
}

// More reads than may wait: the rest goes to the source at once.
TEST_F(TierHang, ReadsThatWaitAreLimited) {
  start(patient_options());
  fs_.ailment().hang(Ailment::kOpens);
  std::vector<TestTier::Read> reads;
  for (int i = 0; i < 3000; ++i) reads.push_back(tier_->start_read(entry_key(1), 0, 100));
  EXPECT_EQ(reads.back().wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_EQ(outcome(reads.back().get()), "not_found");
  reads.pop_back();
  for (uint32_t n = 100; n < 3000; ++n) reads.push_back(tier_->start_read(entry_key(n), 0, 100));
  EXPECT_EQ(reads.back().wait_for(std::chrono::seconds(0)), std::future_status::ready);
  fs_.ailment().recover();
  EXPECT_EQ(outcome(reads.front().get()), "ok");
  for (size_t i = 1; i < reads.size(); ++i) {
    const Result<std::string> answer = reads[i].get();
    EXPECT_TRUE(answer.ok() || answer.error().code == ErrorCode::kNotFound);
  }
  EXPECT_TRUE(tier_->on());
}

}  // namespace

}  // namespace penstock::cache
