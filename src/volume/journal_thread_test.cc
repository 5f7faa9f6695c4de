// A journal used by many threads at once.
#include <array>
#include <atomic>
#include <thread>

#include "io/passing_file.h"
#include "volume/journal_test_support.h"

namespace penstock::volume {
namespace {

using io::MemoryFileSystem;

constexpr size_t kThreads = 4;
constexpr uint64_t kEach = 60;

class Crowd {
 public:
  Crowd() {
    options_.limit_bytes = 1000 * options_.segment_bytes;
    journal_ = ready_journal(fs_, options_);
    for (auto& floor : floors_) floor = UINT64_MAX;
  }

  void append_and_read(size_t thread) {
    for (uint64_t i = 0; i < kEach; ++i) {
      const Bytes content = random_bytes(3000 + i, thread * 1000 + i);
      floors_[thread] = journal_->usage().last;  // From here on nothing may be released.
      const auto place = journal_->append(bytes_of("threads"), content);
      ASSERT_THAT(place, IsOk());
      Bytes into(content.size());
      ASSERT_THAT(journal_->read(*place, 0, into), IsOk());
      ASSERT_EQ(into, content);
      floors_[thread] = UINT64_MAX;
      if (i % 3 != 0) continue;
      ASSERT_THAT(journal_->sync(), IsOk());
      ASSERT_GE(journal_->usage().synced, place->sequence);
    }
  }

  void release_until(const std::atomic<bool>& stop) {
    while (!stop) {
      uint64_t floor = journal_->usage().last;
      for (const auto& one : floors_) floor = std::min(floor, one.load());
      ASSERT_THAT(journal_->release(floor / 2), IsOk());
      std::this_thread::yield();
    }
  }

  MemoryFileSystem fs_;
  JournalOptions options_ = small_options();
  std::unique_ptr<Journal> journal_;
  std::array<std::atomic<uint64_t>, kThreads> floors_;
};

TEST(JournalThreads, AppendSyncReadAndReleaseTogether) {
  Crowd crowd;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&crowd, t] { crowd.append_and_read(t); });
  }
  std::atomic<bool> stop = false;
  std::thread releaser([&] { crowd.release_until(stop); });
  for (std::thread& thread : threads) thread.join();
  stop = true;
  releaser.join();
  const Journal::Usage usage = crowd.journal_->usage();
  EXPECT_EQ(usage.last, kThreads * kEach);
  const auto after = crowd.fs_.power_cut(0);
  const auto visited = replay_all(*open_journal(*after, crowd.options_), usage.released);
  ASSERT_THAT(visited, IsOk());
  EXPECT_GE(visited->size(), usage.synced - usage.released);
}

// A file system whose syncs take so long that all others wait for one.
class SlowSyncs : public MemoryFileSystem {
 public:
  Result<std::unique_ptr<io::File>> open(const std::string& path,
                                         const io::OpenOptions& options) override;
  std::atomic<uint64_t> syncs = 0;
};

class SlowFile : public io::PassingFile {
 public:
  SlowFile(SlowSyncs& fs, std::unique_ptr<io::File> inner)
      : PassingFile(std::move(inner)), fs_(fs) {}
  Result<void> data_sync() override {
    ++fs_.syncs;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return PassingFile::data_sync();
  }

 private:
  SlowSyncs& fs_;
};

Result<std::unique_ptr<io::File>> SlowSyncs::open(const std::string& path,
                                                  const io::OpenOptions& options) {
  auto inner = PENSTOCK_TRY(MemoryFileSystem::open(path, options));
  return std::unique_ptr<io::File>(std::make_unique<SlowFile>(*this, std::move(inner)));
}

TEST(JournalThreads, SyncsThatWaitAtTheSameTimeShareOne) {
  SlowSyncs fs;
  const auto journal = ready_journal(fs);
  ASSERT_THAT(journal->append(bytes_of("makes the segment")), IsOk());
  ASSERT_THAT(journal->sync(), IsOk());
  const uint64_t before = fs.syncs;
  constexpr uint64_t kSyncs = 5;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 16; ++t) {
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < kSyncs; ++i) {
        const auto place = journal->append(bytes_of("group"));
        ASSERT_THAT(place, IsOk());
        ASSERT_THAT(journal->sync(), IsOk());
        ASSERT_GE(journal->usage().synced, place->sequence);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Each thread waits for the one that runs, and then for one more: 16 × 5 without sharing.
  EXPECT_LE(fs.syncs - before, 40u);
  ASSERT_THAT(journal->sync(), IsOk());
  EXPECT_EQ(replay_all(*open_journal(*fs.power_cut(0)))->size(), 1 + 16 * kSyncs);
}

}  // namespace
}  // namespace penstock::volume
