#include <gtest/gtest.h>

#include <cstring>
#include <ctime>
#include <random>
#include <span>

#include "cache/policy.h"
#include "cache/simulation.h"
#include "penstock/frame.h"

namespace penstock::cache {
namespace {

constexpr size_t kVersionAt = 8;
constexpr size_t kCountAt = 16;
constexpr size_t kEntriesAt = 48 + 2048;

// Makes the checksum right again.
void seal(std::string& snapshot) {
  const auto covered = std::as_bytes(std::span(snapshot)).first(snapshot.size() - 8);
  ASSERT_LE(covered.size(), IndexWriter::kPieceBytes);
  const uint64_t sum = codec::hash_bytes(covered);
  for (size_t i = 0; i < 8; ++i) {
    snapshot[covered.size() + i] = static_cast<char>(sum >> (8 * i) & 0xff);
  }
}

std::unique_ptr<Policy> trained() {
  std::unique_ptr<Policy> policy = make_policy();
  policy->set_capacity(100 * simulation::kFileBytes);
  for (uint32_t i = 0; i < 100; ++i) policy->added(simulation::name_of_window(i));
  for (const simulation::Access& access : simulation::shuffled(0, 200, 4, 1)) {
    policy->used(simulation::name_of_window(access.window).id, access.bytes);
  }
  return policy;
}

ErrorCode restore_code(const std::string& snapshot) {
  std::unique_ptr<Policy> policy = make_policy();
  policy->added({{1, 2}, 3});
  const Result<void> restored = restore_from(*policy, snapshot);
  EXPECT_FALSE(restored.ok());
  EXPECT_EQ(policy->entries(), 1U) << "unchanged";
  EXPECT_TRUE(policy->contains({1, 2}));
  return restored.ok() ? ErrorCode::kBusy : restored.error().code;
}

TEST(PolicySnapshot, GivesBackEverything) {
  const std::unique_ptr<Policy> policy = trained();
  const std::string snapshot = snapshot_of(*policy);
  std::unique_ptr<Policy> next = make_policy();
  next->set_capacity(100 * simulation::kFileBytes);
  next->added({{1, 2}, 3});  // Replaced.
  ASSERT_TRUE(restore_from(*next, snapshot).ok());
  EXPECT_EQ(next->entries(), 100U);
  EXPECT_EQ(next->used_bytes(), policy->used_bytes());
  EXPECT_EQ(next->clock_bytes(), policy->clock_bytes());
  EXPECT_TRUE(snapshot_of(*next) == snapshot);
  EXPECT_EQ(next->victim(Policy::Need::kRoomForOthers), std::nullopt) << "a loop goes on";
}

// What was learnt of what is not there survives as well: the third epoch invites, the fourth fills.
TEST(PolicySnapshot, RemembersWhatWasMissed) {
  std::unique_ptr<Policy> policy = trained();
  for (int epoch = 0; epoch < 4; ++epoch) {
    for (uint32_t i = 1000; i < 1005; ++i) {
      const EntryName name = simulation::name_of_window(i);
      policy->missed(name.id, simulation::kWindowBytes, name.blocks);
    }
    if (epoch == 2) {
      std::unique_ptr<Policy> next = make_policy();
      next->set_capacity(100 * simulation::kFileBytes);
      ASSERT_TRUE(restore_from(*next, snapshot_of(*policy)).ok());
      EXPECT_TRUE(next->invited().empty());
      policy = std::move(next);
    }
  }
  EXPECT_EQ(policy->invited().size(), 5U);
}

TEST(PolicySnapshot, UnseenFilesAreForgottenByAScan) {
  std::unique_ptr<Policy> next = make_policy();
  ASSERT_TRUE(restore_from(*next, snapshot_of(*trained())).ok());
  next->begin_scan();
  for (uint32_t i = 0; i < 40; ++i) next->seen(simulation::name_of_window(i));
  next->seen({{7, 7}, 5});
  next->added({{8, 8}, 5});
  next->end_scan();
  EXPECT_EQ(next->entries(), 42U);
  EXPECT_EQ(next->used_bytes(), 40 * simulation::kFileBytes + 10 * kBlockBytes);
  EXPECT_FALSE(next->contains(simulation::name_of_window(40).id));
}

TEST(PolicySnapshot, EveryTruncationIsRefused) {
  const std::string snapshot = snapshot_of(*trained());
  for (size_t length = 0; length < snapshot.size(); length += length < 100 ? 1 : 37) {
    ASSERT_EQ(restore_code(snapshot.substr(0, length)), ErrorCode::kCorrupt) << length;
  }
  EXPECT_EQ(restore_code(snapshot + '\0'), ErrorCode::kCorrupt);
}

TEST(PolicySnapshot, EveryFlippedBitIsRefused) {
  const std::string snapshot = snapshot_of(*trained());
  std::mt19937_64 random(1);
  for (int i = 0; i < 800; ++i) {
    std::string bad = snapshot;
    const size_t at = i < 400 ? static_cast<size_t>(i) / 8 : random() % bad.size();
    bad[at] = static_cast<char>(bad[at] ^ 1 << random() % 8);
    const ErrorCode code = restore_code(bad);
    const bool version = at >= kVersionAt && at < kVersionAt + 4;
    ASSERT_EQ(code, version ? ErrorCode::kUnsupported : ErrorCode::kCorrupt) << at;
  }
}

TEST(PolicySnapshot, NewerVersionIsUnsupported) {
  std::string snapshot = snapshot_of(*trained());
  snapshot[kVersionAt] = 2;
  seal(snapshot);
  EXPECT_EQ(restore_code(snapshot), ErrorCode::kUnsupported);
}

// Right checksums over wrong contents.
TEST(PolicySnapshot, NonsenseIsRefused) {
  const std::string good = snapshot_of(*trained());
  const auto with = [&](size_t at, uint64_t value, size_t bytes = 8) {
    std::string bad = good;
    for (size_t i = 0; i < bytes; ++i) bad[at + i] = static_cast<char>(value >> (8 * i) & 0xff);
    seal(bad);
    return bad;
  };
  EXPECT_EQ(restore_code(with(kCountAt, UINT64_MAX)), ErrorCode::kCorrupt);
  EXPECT_EQ(restore_code(with(kCountAt + 8, UINT64_MAX)), ErrorCode::kCorrupt);
  // 2^64 / 48 entries, and what is left over: sums that wrap.
  EXPECT_EQ(restore_code(with(kCountAt, UINT64_MAX / 48 + 3)), ErrorCode::kCorrupt);
  EXPECT_EQ(restore_code(with(kCountAt + 16, 0)), ErrorCode::kCorrupt) << "uses in the future";
  EXPECT_EQ(restore_code(with(kCountAt + 24, 0x7fc00000, 4)), ErrorCode::kCorrupt) << "NaN";
  EXPECT_EQ(restore_code(with(48, 0x7f800000, 4)), ErrorCode::kCorrupt) << "infinite weight";
  EXPECT_EQ(restore_code(with(kEntriesAt + 32, 0x7fc00000, 4)), ErrorCode::kCorrupt) << "NaN turn";
  std::string twice = good;
  std::memcpy(&twice[kEntriesAt + 48], &twice[kEntriesAt], 16);
  seal(twice);
  EXPECT_EQ(restore_code(twice), ErrorCode::kCorrupt) << "one id twice";
}

// Of this thread, so that it does not matter who else has the cores.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(PolicySnapshot, OfAMillionEntriesIsQuick) {
  std::unique_ptr<Policy> policy = make_policy();
  policy->set_capacity(4 * kTiB);
  for (uint32_t i = 0; i < 1'000'000; ++i) policy->added(simulation::name_of_window(i));
  const double begin = cpu_seconds();
  const std::string snapshot = snapshot_of(*policy);
  const double middle = cpu_seconds();
  std::unique_ptr<Policy> next = make_policy();
  ASSERT_TRUE(restore_from(*next, snapshot).ok());
  const double end = cpu_seconds();
  EXPECT_EQ(next->entries(), 1'000'000U);
  EXPECT_LE(next->memory_bytes(), 64'000'000 + 8 * kMiB);
  // 0.05 and 0.2 s; sanitizers take ten times as long.
  EXPECT_LT(middle - begin, 3);
  EXPECT_LT(end - middle, 5);
}

}  // namespace
}  // namespace penstock::cache
