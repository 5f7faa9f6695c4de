// What a tier promises while its drive is well.
#include "cache/tier.h"

#include <fmt/core.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "base/metrics.h"
#include "cache/ailing_file_system.h"
#include "cache/tier_test_support.h"
#include "io/faulty_file_system.h"
#include "io/memory_file_system.h"

namespace penstock::cache {

namespace {

// A file system, and a place on it for a cache.
class Bed {
 public:
  virtual ~Bed() = default;
  virtual io::FileSystem& fs() = 0;
  virtual std::string path() const = 0;
};

class MemoryBed final : public Bed {
 public:
  io::FileSystem& fs() override { return fs_; }
  std::string path() const override { return "/cache"; }

 private:
  io::MemoryFileSystem fs_;
};

class LocalBed final : public Bed {
 public:
  explicit LocalBed(io::EngineKind engine) {
    std::string pattern = (std::filesystem::temp_directory_path() / "tier-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
    io::LocalOptions options;
    options.engine = engine;
    fs_ = io::open_local_file_system(options).value();
  }
  ~LocalBed() override { std::filesystem::remove_all(directory_); }
  io::FileSystem& fs() override { return *fs_; }
  std::string path() const override { return directory_ + "/cache"; }

 private:
  std::string directory_;
  std::unique_ptr<io::LocalFileSystem> fs_;
};

struct BedKind {
  std::string name;
  io::CacheMode mode;
  std::function<std::unique_ptr<Bed>()> make;
};

class TierOnAny : public testing::TestWithParam<BedKind> {
 protected:
  TierOptions options() const {
    TierOptions options = patient_options(bed_->path());
    options.mode = GetParam().mode;
    return options;
  }
  io::FileSystem& fs() { return bed_->fs(); }

  const std::unique_ptr<Bed> bed_ = GetParam().make();
};

TEST_P(TierOnAny, ReadsBackWhatWasFilled) {
  TestTier tier(fs(), options());
  ASSERT_EQ(outcome(tier.first_try()), "ok");
  std::vector<EntryKey> keys;
  std::vector<std::string> model;
  for (const uint32_t length : {1u, 4095u, 4096u, 4097u, 100'000u, 1u << 20, (3u << 20) + 5}) {
    keys.push_back(entry_key(static_cast<uint32_t>(keys.size()), length));
    model.push_back(entry_data(keys.back()));
    ASSERT_EQ(outcome(tier.fill(keys.back())), "ok");
  }
  Random random(7);
  for (int i = 0; i < 300; ++i) {
    const size_t n = random() % keys.size();
    const uint32_t begin = random() % keys[n].length;
    const uint32_t length = 1 + random() % (keys[n].length - begin);
    const Result<std::string> read = tier.read(keys[n], begin, length);
    ASSERT_EQ(outcome(read), "ok");
    ASSERT_TRUE(*read == model[n].substr(begin, length)) << begin << "+" << length << " of " << n;
  }
  for (const EntryKey& key : keys) EXPECT_TRUE(is_data(tier.read(key), key));
  EXPECT_EQ(tier.notes().get(&Notes::used), 300 + keys.size());
}

TEST_P(TierOnAny, EntriesOutliveTheTier) {
  const EntryKey key = entry_key(1);
  {
    TestTier tier(fs(), options());
    ASSERT_EQ(outcome(tier.fill(key)), "ok");
  }
  TestTier tier(fs(), options());
  EXPECT_TRUE(is_data(tier.read(key), key));
}

TEST_P(TierOnAny, HundredReadersGetTheirOwnBytes) {
  TierOptions few = options();
  few.open_files = 4;
  TestTier tier(fs(), few, 256 * kMiB);
  constexpr uint32_t kEntries = 12;
  for (uint32_t n = 0; n < kEntries; ++n) ASSERT_EQ(outcome(tier.fill(entry_key(n))), "ok");
  std::atomic<int> wrong = 0;
  std::vector<std::thread> readers;
  for (unsigned seed = 0; seed < 100; ++seed) {
    readers.emplace_back([&, seed] {
      Random random(seed);
      for (int i = 0; i < 20; ++i) {
        const EntryKey key = entry_key(random() % kEntries);
        const uint32_t begin = random() % key.length;
        const uint32_t length = 1 + random() % (key.length - begin);
        if (!is_data(tier.read(key, begin, length), key, begin, length)) ++wrong;
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
}

// The last of two fills of one entry wins, and readers of the first are not disturbed.
TEST_P(TierOnAny, FillsAndDropsWhileReading) {
  TestTier tier(fs(), options());
  const EntryKey key = entry_key(3);
  ASSERT_EQ(outcome(tier.fill(key)), "ok");
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0;
  std::thread reader([&] {
    while (!stop) {
      const Result<std::string> read = tier.read(key, 1000, 20'000);
      if (read.ok() && !is_data(read, key, 1000, 20'000)) ++wrong;
      if (!read.ok() && read.error().code != ErrorCode::kNotFound) ++wrong;
    }
  });
  for (int i = 0; i < 50; ++i) {
    if (i % 3 == 2) tier.tier().drop(key, version_id(key.version));
    EXPECT_EQ(outcome(tier.fill(key)), "ok");
  }
  stop = true;
  reader.join();
  EXPECT_EQ(wrong, 0);
  tier.tier().drain();
  EXPECT_EQ(tier.tier().stats().verification_failures, 16u);  // Only what drop() said.
}

INSTANTIATE_TEST_SUITE_P(
    , TierOnAny,
    testing::Values(BedKind{"memory", io::CacheMode::kDirect, std::make_unique<MemoryBed>},
                    BedKind{"direct", io::CacheMode::kDirect,
                            [] { return std::make_unique<LocalBed>(io::EngineKind::kAuto); }},
                    BedKind{"buffered", io::CacheMode::kBuffered,
                            [] { return std::make_unique<LocalBed>(io::EngineKind::kThreads); }}),
    [](const auto& kind) { return kind.param.name; });

TEST(Tier, WhatIsNotThereIsNotFound) {
  io::MemoryFileSystem fs;
  TestTier tier(fs);
  EXPECT_EQ(outcome(tier.read(entry_key(1))), "not_found");
  EXPECT_EQ(tier.notes().get(&Notes::used), 0u);
  EXPECT_TRUE(tier.on());
}

TEST(Tier, WhatCannotBeAnEntryIsNotFoundAndNotFilled) {
  io::MemoryFileSystem fs;
  TestTier tier(fs);
  EntryKey key = entry_key(1);
  key.version.url = std::string(100'000, 'u');
  EXPECT_FALSE(tier.tier().reserve(key, version_id(key.version)));
  EXPECT_EQ(outcome(tier.read(key)), "not_found");
}

TEST(Tier, TheKeeperHearsOfFillsAndUses) {
  io::MemoryFileSystem fs;
  TestTier tier(fs);
  const EntryKey key = entry_key(1);
  ASSERT_TRUE(tier.tier().reserve(key, version_id(key.version)));
  EXPECT_EQ(tier.notes().get(&Notes::reserved), 1);
  EXPECT_EQ(outcome(tier.start_fill(key).get()), "ok");
  tier.tier().drain();
  EXPECT_EQ(tier.notes().get(&Notes::reserved), 0);
  EXPECT_EQ(tier.notes().get(&Notes::added), 1u);
  EXPECT_TRUE(is_data(tier.read(key, 5, 100), key, 5, 100));
  EXPECT_EQ(tier.notes().get(&Notes::used_bytes), 100u);
  const TierStats stats = tier.tier().stats();
  EXPECT_TRUE(stats.on);
  EXPECT_EQ(stats.fills, 1u);
  EXPECT_EQ(stats.fill_bytes, file_bytes(key));
  ASSERT_TRUE(tier.tier().reserve(key, version_id(key.version)));
  tier.tier().cancel_fill(key, version_id(key.version));
  EXPECT_EQ(tier.notes().get(&Notes::cancelled), 1u);
  tier.notes().room = false;
  EXPECT_FALSE(tier.tier().reserve(key, version_id(key.version)));
}

TEST(Tier, DropRemovesTheFileAndCounts) {
  io::MemoryFileSystem fs;
  TestTier tier(fs);
  const EntryKey key = entry_key(1);
  ASSERT_EQ(outcome(tier.fill(key)), "ok");
  ASSERT_TRUE(is_data(tier.read(key), key));  // So that it is open.
  tier.tier().drop(key, version_id(key.version));
  tier.tier().drain();
  EXPECT_EQ(outcome(fs.stat(tier.file_of(key))), "not_found");
  EXPECT_EQ(outcome(tier.read(key)), "not_found");
  EXPECT_EQ(tier.tier().stats().verification_failures, 1u);
  EXPECT_EQ(tier.notes().get(&Notes::dropped), 1u);
}

// However many reads meet an entry that is not open, they open it once between them.
TEST(Tier, ConcurrentFirstReadsOpenOnce) {
  io::FaultyFileSystem counted({});
  AilingFileSystem fs(counted);
  const EntryKey key = entry_key(1);
  TestTier tier(fs);
  ASSERT_EQ(outcome(tier.fill(key)), "ok");
  fs.ailment().hang(Ailment::kOpens);
  std::vector<TestTier::Read> reads;
  for (uint32_t i = 0; i < 30; ++i) reads.push_back(tier.start_read(key, i * 1000, 1000));
  fs.ailment().wait_until_hanging(1);
  fs.ailment().recover();
  for (uint32_t i = 0; i < 30; ++i) EXPECT_TRUE(is_data(reads[i].get(), key, i * 1000, 1000));
  const std::vector<std::string> trace = counted.trace();
  EXPECT_EQ(std::ranges::count_if(trace,
                                  [&](const std::string& line) {
                                    return line.ends_with("open " + tier.file_of(key));
                                  }),
            1);
}

TEST(Tier, OpenFilesAreLimited) {
  LocalBed bed(io::EngineKind::kAuto);
  TierOptions options = patient_options(bed.path());
  options.open_files = 5;
  TestTier tier(bed.fs(), options);
  const auto open_entries = [&] {
    size_t count = 0;
    for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const std::filesystem::path target = std::filesystem::read_symlink(fd, gone);
      if (target.string().starts_with(bed.path() + "/entries/")) ++count;
    }
    return count;
  };
  for (uint32_t n = 0; n < 20; ++n) ASSERT_EQ(outcome(tier.fill(entry_key(n))), "ok");
  for (int round = 0; round < 3; ++round) {
    for (uint32_t n = 0; n < 20; ++n) {
      ASSERT_TRUE(is_data(tier.read(entry_key(n)), entry_key(n)));
      // The one that had to make room is closed by a worker, soon.
      EXPECT_TRUE(eventually([&] { return open_entries() <= 5; }));
    }
  }
  EXPECT_EQ(open_entries(), 5u);
}

TEST(Tier, WithoutMemoryReadsAreBusy) {
  io::MemoryFileSystem fs;
  TestTier tier(fs, patient_options(), 2 * kMiB);
  const EntryKey open = entry_key(1);
  const EntryKey closed = entry_key(2);
  ASSERT_EQ(outcome(tier.fill(open)), "ok");
  ASSERT_EQ(outcome(tier.fill(closed)), "ok");
  ASSERT_TRUE(is_data(tier.read(open), open));
  {
    // The fills' buffers may be given back a little later than they are answered.
    const io::Buffer all = tier.buffers().take(2 * kMiB).value();
    EXPECT_EQ(outcome(tier.read(open)), "busy");
    EXPECT_EQ(outcome(tier.read(closed)), "busy");
    EXPECT_EQ(outcome(tier.read(entry_key(3))), "not_found");  // No memory is needed to know.
  }
  EXPECT_TRUE(is_data(tier.read(open), open));
  EXPECT_TRUE(is_data(tier.read(closed), closed));
}

TEST(Tier, ReadsThatCanNeverFitAreNotFound) {
  io::MemoryFileSystem fs;
  const EntryKey key = entry_key(1, 3 << 20);
  {
    TestTier tier(fs);
    ASSERT_EQ(outcome(tier.fill(key)), "ok");
  }
  TestTier tier(fs, patient_options(), 2 * kMiB);
  EXPECT_EQ(outcome(tier.read(key)), "not_found");
  EXPECT_TRUE(is_data(tier.read(key, 1 << 20, 5000), key, 1 << 20, 5000));
}

TEST(Tier, MetricsAreKept) {
  io::MemoryFileSystem fs;
  const std::string before = Metrics::global().prometheus();
  {
    TestTier tier(fs, patient_options("/metrics"));
    ASSERT_EQ(outcome(tier.fill(entry_key(1))), "ok");
    ASSERT_TRUE(is_data(tier.read(entry_key(1)), entry_key(1)));
    EXPECT_NE(Metrics::global().prometheus().find(
                  "penstock_cache_directory_on{directory=\"/metrics\"} 1"),
              std::string::npos);
  }
  const std::string after = Metrics::global().prometheus();
  EXPECT_NE(after.find("penstock_cache_directory_on{directory=\"/metrics\"} 0"), std::string::npos);
  const auto value = [](const std::string& text, const std::string& name) {
    const size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? 0 : std::stoull(text.substr(at + name.size() + 2));
  };
  for (const std::string name :
       {"penstock_cache_hit_seconds_count", "penstock_cache_fill_seconds_count",
        "penstock_cache_fills_total"}) {
    EXPECT_EQ(value(after, name), value(before, name) + 1) << name;
  }
  EXPECT_EQ(value(after, "penstock_cache_fill_bytes_total"),
            value(before, "penstock_cache_fill_bytes_total") + file_bytes(entry_key(1)));
}

}  // namespace

}  // namespace penstock::cache
