// What happens between two steps of a keeper: moments that are met now and then, held here.
#include <atomic>
#include <future>
#include <utility>

#include "cache/ailing_file_system.h"
#include "cache/evictor.h"
#include "cache/keeper_test_bed.h"
#include "cache/members.h"
#include "io/faulty_file_system.h"
#include "io/memory_file_system.h"

namespace penstock::cache {

namespace {

using std::chrono::milliseconds;

constexpr uint64_t kRacedQuota = 100 * kBlock;

KeeperOptions options_of_test() {
  return {.quota = bytes_of(kRacedQuota),
          .free_floor = bytes_of(0),
          .tick = milliseconds(2),
          .on_error = [](const Error& error) { ADD_FAILURE() << error.to_string(); }};
}

// All that it can get, block by block.
uint64_t reserve_all(TestMember& member, uint64_t first) {
  uint64_t blocks = 0;
  while (member.keeper->reserve(test_name(first + blocks, 1))) ++blocks;
  return blocks * kBlock;
}

// The evictor's own process fills while a tick of it shares out the room: what it took then is not
// given to another as well. The tick is held where it reads the logs, or where it writes the state.
class KeeperSharingTest : public ::testing::TestWithParam<Ailment::What> {};

INSTANTIATE_TEST_SUITE_P(Moments, KeeperSharingTest,
                         ::testing::Values(Ailment::kReads, Ailment::kWrites));

TEST_P(KeeperSharingTest, WhatTheEvictorTakesMeanwhileIsNotGivenToAnother) {
  io::MemoryFileSystem fs({.capacity_bytes = 16 * kMiB});
  AilingFileSystem ailing(fs);
  TestMember evictor(ailing, kPath, options_of_test());
  evictor.settle();
  ASSERT_EQ(evictor.keeper->room_bytes(), kRacedQuota);
  ailing.ailment().hang(GetParam());
  TestMember other(fs, kPath, options_of_test());
  other.settle();  // Its log is there.
  ailing.ailment().wait_until_hanging(1);
  const uint64_t taken = reserve_all(evictor, 0);
  ailing.ailment().recover();
  for (int i = 0; i < 3; ++i) {
    evictor.settle();
    other.settle();
  }
  EXPECT_GT(taken, 0u);
  EXPECT_LE(taken + reserve_all(other, 1000) + reserve_all(evictor, 2000), kRacedQuota);
}

// Does something once, in front of the next call that lists the temporary files.
class HookedFileSystem final : public io::MemoryFileSystem {
 public:
  HookedFileSystem() : MemoryFileSystem({.capacity_bytes = 16 * kMiB}) {}
  Result<void> list(const std::string& path,
                    const std::function<bool(const io::DirectoryEntry&)>& visit) override {
    if (path == "/cache/tmp" && hook) std::exchange(hook, nullptr)();
    return MemoryFileSystem::list(path, visit);
  }
  std::function<void()> hook;
};

// A member of which nobody but the evictor before has heard.
class KeeperInheritedTest : public ::testing::Test {
 protected:
  static constexpr const char* kMember = "1-0123456789abcdef";

  KeeperInheritedTest() {
    Result<std::unique_ptr<CacheDirectory>> opened =
        CacheDirectory::open(fs_, kPath, io::CacheMode::kBuffered);
    EXPECT_THAT(opened, IsOk());
    directory_ = std::move(*opened);
    State state;
    state.evictor = "1-00000000000000ff";
    state.counter = 7;
    state.known = state.clean = true;
    state.rows = {{.member = member_hash(kMember),
                   .ceiling = kLease,
                   .changed = 5,
                   .ceiling_max = kLease,
                   .consumed = {}}};
    EXPECT_THAT(replace_file(fs_, state_path(*directory_) + ".new", state_path(*directory_),
                             encode_state(state)),
                IsOk());
    Result<std::unique_ptr<io::FileLock>> lock = fs_.try_lock(lock_path("/cache/members", kMember));
    EXPECT_THAT(lock, IsOk());
    lock_ = std::move(*lock);
  }

  static constexpr uint64_t kLease = 50 * kBlock;
  HookedFileSystem fs_;
  std::unique_ptr<CacheDirectory> directory_;
  std::unique_ptr<io::FileLock> lock_;  // Without it, the member is dead.
};

TEST_F(KeeperInheritedTest, WhatItFilledUnsaidIsCountedWhenItIsKilled) {
  TestMember evictor(fs_, kPath, options_of_test());
  evictor.settle();
  EXPECT_EQ(evictor.keeper->room_bytes(), kRacedQuota - kLease);
  const EntryName name = test_name(1, 30);
  std::vector<std::byte> file(name.file_bytes());
  ASSERT_THAT(directory_->publish(name, std::span(file)), IsOk());
  lock_.reset();
  EXPECT_TRUE(eventually([&] { return evictor.status().used_bytes == name.file_bytes(); }));
  EXPECT_TRUE(
      eventually([&] { return evictor.keeper->room_bytes() == kRacedQuota - 30 * kBlock; }));
}

TEST_F(KeeperInheritedTest, WhatItSaysAsItLeavesIsReadBeforeItIsSwept) {
  fs_.hook = [&] {  // When the evictor has looked at it for the first time.
    std::string log;
    append_record(log, Tally{.hit_bytes = 5, .miss_bytes = 7});
    append_record(log, Left{});
    const auto file = fs_.open(log_path("/cache/members", kMember, 0),
                               {.access = io::Access::kWrite, .create = io::Create::kMustNotExist});
    ASSERT_THAT(file, IsOk());
    EXPECT_THAT((*file)->write(0, std::as_bytes(std::span(log))), IsOk());
    lock_.reset();
  };
  {
    TestMember evictor(fs_, kPath, options_of_test());
    EXPECT_TRUE(eventually([&] { return evictor.status().members == 1; }));
    evictor.settle();
  }
  const Result<State> state = read_state(fs_, state_path(*directory_));
  ASSERT_THAT(state, IsOk());
  EXPECT_EQ(state->totals.hit_bytes, 5u);
  EXPECT_EQ(state->totals.miss_bytes, 7u);
}

TEST_F(KeeperInheritedTest, WhereNobodyCanBeFoundThereIsNoRoom) {
  std::promise<void> looked;
  std::atomic<bool> failed = false;
  KeeperOptions options = options_of_test();
  options.on_error = [&, over = looked.get_future().share()](const Error&) {
    failed = true;
    over.wait();
  };
  // The first is that of opening the directory.
  io::FaultyFileSystem faulty({.fail_at = 2, .only = io::CallKind::kList}, fs_);
  TestMember evictor(faulty, kPath, options);
  ASSERT_TRUE(eventually([&] { return failed.load(); }));
  EXPECT_EQ(evictor.keeper->room_bytes(), 0u);
  looked.set_value();
  EXPECT_TRUE(eventually([&] { return evictor.keeper->room_bytes() == kRacedQuota - kLease; }));
}

}  // namespace

}  // namespace penstock::cache
