// Every call that a keeper makes fails once, or from then on: it goes on, says so, never exceeds the
// quota, and counts what is there as soon as it can look.
#include <fmt/core.h>

#include <atomic>

#include "cache/keeper_test_bed.h"
#include "io/faulty_file_system.h"

namespace penstock::cache {

namespace {

using io::FaultOptions;
using io::FaultyFileSystem;
using io::MemoryFileSystem;
using std::chrono::milliseconds;

constexpr uint64_t kQuota = 100 * kBlock;

// A directory with a past: entries, an index, the log and temporary file of one that was killed.
std::unique_ptr<MemoryFileSystem> prepare() {
  MemoryFileSystem fs({.capacity_bytes = 16 * kMiB});
  TestMember evictor(fs, kPath, {.quota = bytes_of(kQuota), .tick = milliseconds(1)});
  evictor.settle();
  for (uint64_t i = 0; i < 8; ++i) EXPECT_TRUE(evictor.fill(test_name(i, 5)));
  TestMember other(fs, kPath, {.quota = bytes_of(kQuota), .tick = milliseconds(1)});
  EXPECT_TRUE(eventually([&] { return other.fill(test_name(8, 5)); }));
  other.settle();
  evictor.settle();
  std::unique_ptr<MemoryFileSystem> killed = fs.clone();
  const std::string left = fmt::format("{}/tmp/{}-7", kPath, other.directory->member());
  EXPECT_THAT(killed->open(left, {.access = io::Access::kWrite, .create = io::Create::kIfMissing}),
              IsOk());
  return killed;
}

class Script {
 public:
  explicit Script(io::FileSystem& fs) : fs_(fs) {}

  // Whatever fails. Returns how many errors were told.
  int run() {
    std::atomic<int> errors = 0;
    Result<std::unique_ptr<CacheDirectory>> directory =
        CacheDirectory::open(fs_, kPath, io::CacheMode::kBuffered);
    if (!directory.ok()) return 1;
    std::unique_ptr<Keeper> keeper =
        Keeper::start(**directory, {.quota = bytes_of(kQuota),
                                    .free_floor = {.fraction = 0.01},
                                    .tick = milliseconds(1),
                                    .on_error = [&](const Error&) { ++errors; }});
    settle(*keeper);
    for (uint64_t i = 20; i < 40; ++i) fill(**directory, *keeper, test_name(i, 5));
    settle(*keeper);
    keeper->note_finished(test_id(21), false);
    keeper->set_quota(bytes_of(kQuota / 2));
    settle(*keeper);
    if (recovers_) check(**directory, *keeper);
    keeper.reset();
    return errors;
  }
  // The fault is over: what is counted becomes right.
  Script& recovers() {
    recovers_ = true;
    return *this;
  }

 private:
  static void settle(Keeper& keeper) {
    const Result<void> settled = keeper.settle(deadline_in(std::chrono::seconds(20)));
    EXPECT_TRUE(settled.ok() || settled.error().code != ErrorCode::kTimeout);
  }
  static void fill(CacheDirectory& directory, Keeper& keeper, const EntryName& name) {
    if (!keeper.reserve(name)) return;
    std::vector<std::byte> file(name.file_bytes());
    if (directory.publish(name, std::span(file)).ok()) {
      keeper.note_added(name);
    } else {
      keeper.cancel_fill(name);
    }
  }
  static void check(CacheDirectory& directory, Keeper& keeper) {
    KeeperStatus status;
    uint64_t bytes = 0;
    EXPECT_TRUE(eventually([&] {
      settle(keeper);
      status = keeper.status();
      bytes = 0;
      const Result<void> scanned = directory.scan([&](const EntryName& name) {
        bytes += name.file_bytes();
        return true;
      });
      return scanned.ok() && status.known && status.used_bytes == bytes && bytes <= kQuota / 2;
    })) << status.used_bytes
        << " counted, " << bytes << " there";
  }

  io::FileSystem& fs_;
  bool recovers_ = false;
};

uint64_t bytes_in(MemoryFileSystem& fs) {
  uint64_t bytes = 0;
  const auto directory = CacheDirectory::open(fs, kPath, io::CacheMode::kBuffered);
  EXPECT_THAT(directory, IsOk());
  EXPECT_THAT((*directory)->scan([&](const EntryName& name) {
    bytes += name.file_bytes();
    return true;
  }),
              IsOk());
  return bytes;
}

class KeeperFaultsTest : public ::testing::TestWithParam<int> {
 protected:
  void check_after(FaultyFileSystem& fs, uint64_t n) {
    EXPECT_LE(bytes_in(fs.disk()), kQuota) << n;
    if (Script(fs.disk()).recovers().run() != 0) ADD_FAILURE() << n << ": does not recover";
  }

  const std::unique_ptr<MemoryFileSystem> prepared_ = prepare();
};

INSTANTIATE_TEST_SUITE_P(Errors, KeeperFaultsTest, ::testing::Values(EIO, ENOSPC, EROFS),
                         [](const auto& error) {
                           return std::string(strerrorname_np(error.param));
                         });

TEST_P(KeeperFaultsTest, AnyCallMayFailOnce) {
  uint64_t told = 0;
  for (uint64_t n = 1;; ++n) {
    FaultyFileSystem fs({.fail_at = n, .error = GetParam()}, prepared_->clone());
    if (Script(fs).recovers().run() > 0) ++told;
    EXPECT_LE(bytes_in(fs.disk()), kQuota) << n;
    if (HasFailure()) {
      for (const std::string& line : fs.trace()) std::cout << line << "\n";
    }
    if (!fs.fault_hit() || HasFailure()) break;
  }
  EXPECT_GT(told, 20u);
}

TEST_P(KeeperFaultsTest, TheDriveMayDieAtAnyCall) {
  for (uint64_t n = 1;; n += 1 + n / 16) {
    FaultyFileSystem fs({.fail_at = n, .error = GetParam(), .for_good = true}, prepared_->clone());
    const int errors = Script(fs).run();
    if (!fs.fault_hit()) break;
    EXPECT_GT(errors, 0) << n;
    check_after(fs, n);
  }
}

// One member's calls fail, the evictor's do not; then the other way round.
TEST_P(KeeperFaultsTest, OneMembersTroubleIsNotTheOthers) {
  for (const bool evictor_fails : {false, true}) {
    for (uint64_t n = 1;; n += 1 + n / 4) {
      const std::unique_ptr<MemoryFileSystem> disk = prepared_->clone();
      FaultyFileSystem faulty({.fail_at = n, .error = GetParam()}, *disk);
      KeeperOptions options{.quota = bytes_of(kQuota), .free_floor = bytes_of(0)};
      options.tick = milliseconds(1);
      {
        const auto first =
            CacheDirectory::open(evictor_fails ? faulty : static_cast<io::FileSystem&>(*disk),
                                 kPath, io::CacheMode::kBuffered);
        if (!first.ok()) continue;
        const auto evictor = Keeper::start(**first, options);
        (void)evictor->settle(deadline_in(std::chrono::seconds(20)));
        const auto second =
            CacheDirectory::open(evictor_fails ? *disk : static_cast<io::FileSystem&>(faulty),
                                 kPath, io::CacheMode::kBuffered);
        if (!second.ok()) continue;
        const auto member = Keeper::start(**second, options);
        const std::vector<std::byte> file(5 * kBlock);
        for (uint64_t i = 20; i < 60; ++i) {
          const EntryName name = test_name(i, 5);
          member->note_missed(name.id, 1);
          if (member->reserve(name)) {
            std::vector<std::byte> bytes = file;
            if ((*second)->publish(name, std::span(bytes)).ok()) {
              member->note_added(name);
            } else {
              member->cancel_fill(name);
            }
          }
          (void)member->settle(deadline_in(std::chrono::seconds(20)));
        }
        EXPECT_LE(bytes_in(*disk), kQuota) << n;
      }
      if (Script(*disk).recovers().run() != 0) ADD_FAILURE() << n << ": does not recover";
      if (!faulty.fault_hit() || HasFailure()) break;
    }
  }
}

}  // namespace

}  // namespace penstock::cache
