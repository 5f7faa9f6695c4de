// Every call that can fail does, and the power goes at every call: a cache directory never gives
// wrong bytes, keeps no rubbish, and opens again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/directory_test_support.h"
#include "io/faulty_file_system.h"

namespace penstock::cache {
namespace {

using io::CallKind;
using io::FaultOptions;
using io::FaultyFileSystem;
using io::MemoryFileSystem;
using ::testing::IsEmpty;

const std::string kRoot = "/cache";

std::vector<EntryKey> keys() {
  return {test_key(3000), test_key(9000), test_key(70'000), test_key(9000, 0)};
}
Bytes data_for(const EntryKey& key) {
  return random_bytes(key.length, 1);
}

// An empty cache, or one with the first two entries, all of it durable.
std::unique_ptr<MemoryFileSystem> prepared(bool with_entries) {
  auto fs = std::make_unique<MemoryFileSystem>();
  const auto directory = open_cache(*fs, kRoot);
  if (with_entries) {
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(succeeded(publish(*directory, keys()[i])));
  }
  EXPECT_TRUE(succeeded(fs->sync_file_system("/")));
  return fs;
}

// Uses the directory in every way. Failures are its own affair.
void use(io::FileSystem& fs) {
  const auto directory = CacheDirectory::open(fs, kRoot, io::CacheMode::kDirect);
  if (!directory.ok()) return;
  for (const EntryKey& key : keys()) (void)publish(**directory, key);
  (void)(*directory)->drop(name_of(keys()[1]));
  (void)publish(**directory, keys()[0]);  // Replaces.
  (void)(*directory)->sweep();
  (void)(*directory)->probe();
  (void)(*directory)->scan([](const EntryName&) { return true; });
}

bool remove_failed(const FaultyFileSystem& fs) {
  return std::ranges::any_of(fs.trace(), [](const std::string& line) {
    return line.find(" remove /cache/tmp/") != std::string::npos &&
           line.find(": ") != std::string::npos;
  });
}

// How many entries are right, and how many are found to be damaged.
struct Found {
  int right = 0;
  int damaged = 0;
};

Found check_entries(CacheDirectory& directory) {
  Found found;
  for (const EntryKey& key : keys()) {
    const Result<Bytes> bytes = read_entry(directory, key);
    if (bytes.ok()) {
      EXPECT_EQ(*bytes, data_for(key)) << "wrong bytes were accepted";
      ++found.right;
    } else if (bytes.error().code == ErrorCode::kCorrupt) {
      ++found.damaged;
    } else {
      EXPECT_TRUE(failed_with(bytes, ErrorCode::kNotFound));
    }
  }
  return found;
}

void try_every_failure(FaultOptions faults, bool with_entries) {
  uint64_t n = 1;
  for (;; ++n) {
    SCOPED_TRACE(fmt::format("failure at call {}", n));
    faults.fail_at = n;
    FaultyFileSystem fs(faults, prepared(with_entries));
    use(fs);
    const auto after = open_cache(fs.disk(), kRoot);
    ASSERT_NE(after, nullptr);
    EXPECT_EQ(check_entries(*after).damaged, 0);  // No half of a file under a final name.
    EXPECT_TRUE(remove_failed(fs) || names_in(fs.disk(), "/cache/tmp").empty());
    ASSERT_TRUE(succeeded(after->sweep()));
    EXPECT_THAT(names_in(fs.disk(), "/cache/tmp"), IsEmpty());
    EXPECT_THAT(names_in(fs.disk(), "/cache/members"), IsEmpty());
    if (!fs.fault_hit() || ::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(n, faults.only ? 3u : 40u) << "fewer calls than there should be";
}

TEST(CacheDirectoryFaults, AnyCallFails) {
  try_every_failure({}, /*with_entries=*/false);
  try_every_failure({}, /*with_entries=*/true);
}

TEST(CacheDirectoryFaults, AnyCallAndAllAfterItFail) {
  try_every_failure({.for_good = true}, /*with_entries=*/false);
  try_every_failure({.error = EROFS, .for_good = true}, /*with_entries=*/true);
}

TEST(CacheDirectoryFaults, AnyWriteRunsOutOfSpace) {
  try_every_failure({.only = CallKind::kWrite, .error = ENOSPC}, /*with_entries=*/true);
  try_every_failure({.only = CallKind::kAllocate, .error = ENOSPC}, /*with_entries=*/true);
}

TEST(CacheDirectoryFaults, PublishTellsWhatFailed) {
  for (const CallKind kind : {CallKind::kOpen, CallKind::kAllocate, CallKind::kWrite,
                              CallKind::kClose, CallKind::kRename}) {
    SCOPED_TRACE(call_kind_name(kind));
    // Opening reads the marker, and is over before the first of the others.
    FaultyFileSystem fs({.fail_at = kind == CallKind::kOpen ? 2u : 1u, .only = kind},
                        prepared(true));
    const auto directory = open_cache(fs, kRoot);
    EXPECT_TRUE(failed_with(publish(*directory, keys()[3]), ErrorCode::kIo));
    EXPECT_THAT(names_in(fs.disk(), "/cache/tmp"), IsEmpty());
    EXPECT_TRUE(failed_with(read_entry(*directory, keys()[3]), ErrorCode::kNotFound));
    EXPECT_TRUE(succeeded(publish(*directory, keys()[3])));
    EXPECT_EQ(*read_entry(*directory, keys()[3]), data_for(keys()[3]));
  }
}

TEST(CacheDirectoryFaults, AllocatingIsNotNeeded) {
  FaultyFileSystem fs({.fail_at = 1, .only = CallKind::kAllocate, .error = EOPNOTSUPP},
                      prepared(false));
  const auto directory = open_cache(fs, kRoot);
  EXPECT_TRUE(succeeded(publish(*directory, keys()[0])));
  EXPECT_TRUE(fs.fault_hit());
  EXPECT_EQ(*read_entry(*directory, keys()[0]), data_for(keys()[0]));
}

TEST(CacheDirectoryFaults, DropSaysWhetherItIsGone) {
  FaultyFileSystem removing({.fail_at = 1, .only = CallKind::kRemove}, prepared(true));
  EXPECT_TRUE(failed_with(open_cache(removing, kRoot)->drop(name_of(keys()[0])), ErrorCode::kIo));
  // What cannot be cut or opened for it is removed all the same.
  for (const CallKind kind : {CallKind::kTruncate, CallKind::kOpen}) {
    FaultyFileSystem fs({.fail_at = kind == CallKind::kOpen ? 2u : 1u, .only = kind},
                        prepared(true));
    const auto directory = open_cache(fs, kRoot);
    EXPECT_TRUE(succeeded(directory->drop(name_of(keys()[0]))));
    EXPECT_TRUE(fs.fault_hit());
    EXPECT_TRUE(failed_with(directory->open_entry(name_of(keys()[0])), ErrorCode::kNotFound));
  }
}

TEST(CacheDirectoryFaults, ProbeTellsWhatFailed) {
  for (const CallKind kind :
       {CallKind::kWrite, CallKind::kRead, CallKind::kClose, CallKind::kRemove}) {
    SCOPED_TRACE(call_kind_name(kind));
    // The first read is that of the marker.
    FaultyFileSystem fs({.fail_at = kind == CallKind::kRead ? 2u : 1u, .only = kind},
                        prepared(true));
    const auto directory = open_cache(fs, kRoot);
    EXPECT_TRUE(failed_with(directory->probe(), ErrorCode::kIo));
    EXPECT_EQ(names_in(fs.disk(), "/cache/tmp").size(), kind == CallKind::kRemove ? 1u : 0u);
  }
}

TEST(CacheDirectoryFaults, AFullDriveCostsNothing) {
  MemoryFileSystem fs({.capacity_bytes = 100 * 4096});
  const auto directory = open_cache(fs, kRoot);
  const uint64_t before = directory->space()->available_bytes;
  EXPECT_TRUE(failed_with(publish(*directory, test_key(1 << 20)), ErrorCode::kNoSpace));
  EXPECT_EQ(directory->space()->available_bytes, before);
  EXPECT_THAT(names_in(fs, "/cache/tmp"), IsEmpty());
  EXPECT_TRUE(succeeded(publish(*directory, test_key(100'000))));
  EXPECT_LT(directory->space()->available_bytes, before);
  EXPECT_TRUE(succeeded(directory->drop(name_of(test_key(100'000)))));
  EXPECT_EQ(directory->space()->available_bytes, before);
}

// Opens what a power cut left, as the next process would, and goes on with it.
Found go_on_after(MemoryFileSystem& disk) {
  const auto directory = open_cache(disk, kRoot);
  if (directory == nullptr) return {};
  const Found found = check_entries(*directory);
  EXPECT_TRUE(succeeded(directory->sweep()));
  EXPECT_THAT(names_in(disk, "/cache/tmp"), IsEmpty());
  EXPECT_TRUE(succeeded(publish(*directory, keys()[2])));
  EXPECT_EQ(*read_entry(*directory, keys()[2]), data_for(keys()[2]));
  return found;
}

TEST(CacheDirectoryPowerCuts, AtAnyCall) {
  Found all;
  for (uint64_t n = 1;; ++n) {
    FaultyFileSystem fs({.cut_at = n}, prepared(n % 2 == 0));
    use(fs);
    for (uint64_t seed = 0; seed < 6; ++seed) {
      SCOPED_TRACE(fmt::format("power cut at call {}, seed {}", n, seed));
      const Found found = go_on_after(*fs.power_cut(seed));
      all.right += found.right;
      all.damaged += found.damaged;
    }
    if (!fs.fault_hit() || ::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(all.right, 100);  // Both happened often: the test sees what it is about.
  EXPECT_GT(all.damaged, 20);
}

// While a cache is being made, by one process after another that died on the way: never a directory
// that is refused afterwards.
TEST(CacheDirectoryPowerCuts, WhileMakingACache) {
  for (uint64_t died_at = 8; died_at <= 11; ++died_at) {
    for (uint64_t n = died_at;; ++n) {
      FaultyFileSystem fs({.cut_at = n});
      FaultyFileSystem first({.fail_at = died_at, .for_good = true}, fs);
      (void)CacheDirectory::open(first, kRoot, io::CacheMode::kDirect);
      (void)CacheDirectory::open(fs, kRoot, io::CacheMode::kDirect);
      for (uint64_t seed = 0; seed < 6; ++seed) {
        SCOPED_TRACE(
            fmt::format("the first died at {}, power cut at {}, seed {}", died_at, n, seed));
        go_on_after(*fs.power_cut(seed));
      }
      if (!fs.fault_hit() || ::testing::Test::HasFailure()) break;
    }
  }
}

}  // namespace
}  // namespace penstock::cache
