// The power goes at every call, and every call fails: what was synced is there, byte for byte, what
// is there was written, and the volume goes on.
#include "base/sanitized.h"
#include "io/faulty_file_system.h"
#include "volume/host_test_support.h"

namespace penstock::volume {
namespace {

using io::FaultOptions;
using io::FaultyFileSystem;
using io::MemoryFileSystem;

// Each call; with sanitizers, which take ten times as long, some.
constexpr uint64_t kStep = kSanitized ? 7 : 1;

const Bytes kFirst = random_bytes(3'000, 1);
const Bytes kSecond = random_bytes(2'000, 2);

// How far a life came before the first failure.
struct Promises {
  bool made = false;    // The volume.
  bool first = false;   // "a" holds kFirst, synced.
  bool second = false;  // Then also "b" kSecond, and "a" is called "c".
};

void live(io::FileSystem& fs, Promises& promises) {
  const auto host = create_host(kHostPath, {.name = "v"}, quiet_options(fs));
  if (!host.ok()) return;
  promises.made = true;
  const auto volume = (*host)->open("v");
  if (!volume.ok()) return;
  const auto a = (*volume)->create(meta::kRoot, "a", {.mode = S_IFREG | 0644});
  if (!a.ok() || !(*volume)->write(a->ino, 0, kFirst).ok() || !(*volume)->sync().ok()) return;
  promises.first = true;
  if (!(*host)->drain(kNoDeadline).ok()) return;
  const auto b = (*volume)->create(meta::kRoot, "b", {.mode = S_IFREG | 0644});
  if (!b.ok() || !(*volume)->write(b->ino, 0, kSecond).ok()) return;
  if (!(*volume)->rename(meta::kRoot, "a", meta::kRoot, "c", meta::Rename::kReplace).ok()) return;
  if (!(*volume)->sync().ok()) return;
  promises.second = true;
  if (!(*host)->commit().ok()) return;
  (void)(*host)->gc({});
}

// Whatever there is under the name is one of the states that it went through.
void expect_one_of(VolumeView& view, const std::string& name, const Bytes& whole, bool must_be) {
  const auto inode = view.names().lookup(meta::kRoot, name);
  if (must_be) {
    ASSERT_THAT(inode, IsOk());
  }
  if (!inode.ok()) return;
  const Bytes found = content_of(view, inode->ino);
  EXPECT_TRUE(same_bytes(found, whole) || (!must_be && found.empty())) << name;
}

void expect_kept(io::FileSystem& fs, const Promises& promises) {
  const auto host = open_host(kHostPath, quiet_options(fs));
  if (!promises.made) return;
  ASSERT_THAT(host, IsOk());
  const auto volume = (*host)->open("v");
  ASSERT_THAT(volume, IsOk());
  const bool renamed = (*volume)->names().lookup(meta::kRoot, "c").ok();
  EXPECT_TRUE(renamed || !promises.second);
  expect_one_of(**volume, renamed ? "c" : "a", kFirst, promises.first);
  expect_one_of(**volume, "b", kSecond, promises.second);
  const auto report = (*host)->fsck({});
  ASSERT_THAT(report, IsOk());
  for (const Finding& finding : report->findings) ADD_FAILURE() << finding.path << finding.what;
  // And it goes on.
  const meta::Ino file = make_file(**volume, "new");
  ASSERT_THAT((*volume)->write(file, 0, kFirst), IsOk());
  ASSERT_THAT((*host)->drain(kNoDeadline), IsOk());
  EXPECT_EQ(content_of(**volume, file), kFirst);
}

TEST(HostFaults, ThePowerMayGoAtAnyCall) {
  uint64_t calls = 0;
  for (uint64_t n = 1; !HasFailure(); n += kStep) {
    FaultyFileSystem fs({.cut_at = n});
    Promises promises;
    live(fs, promises);
    for (const uint64_t seed : {uint64_t{0}, 1 + n}) {
      SCOPED_TRACE(fmt::format("call {}, seed {}", n, seed));
      expect_kept(*fs.power_cut(seed), promises);
    }
    if (!fs.fault_hit()) break;
    calls = n;
  }
  EXPECT_GT(calls, 100u);
}

TEST(HostFaults, AnyCallMayFail) {
  uint64_t calls = 0;
  for (uint64_t n = 1; !HasFailure(); n += kStep) {
    FaultyFileSystem fs({.fail_at = n});
    Promises promises;
    live(fs, promises);
    SCOPED_TRACE(fmt::format("call {}", n));
    expect_kept(*fs.disk().clone(), promises);
    expect_kept(*fs.disk().power_cut(0), promises);
    if (!fs.fault_hit()) break;
    calls = n;
  }
  EXPECT_GT(calls, 100u);
}

// Small pieces side by side, synced; then merged, and more written on top.
constexpr size_t kPieces = 20;
const Bytes kLog = random_bytes(kPieces * 100, 3);

void live_with_merging(io::FileSystem& fs, uint64_t& synced) {
  const auto host = open_host(kHostPath, quiet_options(fs));
  if (!host.ok()) return;
  const auto volume = *(*host)->open("v");
  const auto log = volume->names().lookup(meta::kRoot, "log");
  if (!log.ok()) return;
  for (size_t i = 0; i < kPieces; ++i) {
    if (!volume->write(log->ino, i * 100, std::span(kLog).subspan(i * 100, 100)).ok()) return;
  }
  if (!volume->sync().ok()) return;
  synced = kLog.size();
  if (!(*host)->drain(kNoDeadline).ok()) return;
  (void)(*host)->gc({});
}

void expect_log(io::FileSystem& fs, uint64_t synced) {
  const auto host = open_host(kHostPath, quiet_options(fs));
  ASSERT_THAT(host, IsOk());
  const auto volume = *(*host)->open("v");
  const Bytes found = content_of(*volume, "log");
  EXPECT_GE(found.size(), synced);
  ASSERT_LE(found.size(), kLog.size());
  EXPECT_TRUE(std::ranges::equal(found, std::span(kLog).first(found.size())));
  const auto report = (*host)->fsck({});
  ASSERT_THAT(report, IsOk());
  for (const Finding& finding : report->findings) ADD_FAILURE() << finding.path << finding.what;
}

TEST(HostFaults, ThePowerMayGoWhilePiecesAreMerged) {
  MemoryFileSystem begin;
  {
    const auto host = new_host(begin);
    make_file(**host->open("v"), "log");
    ASSERT_THAT(host->commit(), IsOk());
  }
  uint64_t calls = 0;
  for (uint64_t n = 1; !HasFailure(); n += kStep) {
    FaultyFileSystem fs({.cut_at = n}, begin.clone());
    uint64_t synced = 0;
    live_with_merging(fs, synced);
    for (const uint64_t seed : {uint64_t{0}, 1 + n}) {
      SCOPED_TRACE(fmt::format("call {}, seed {}", n, seed));
      expect_log(*fs.power_cut(seed), synced);
    }
    if (!fs.fault_hit()) break;
    calls = n;
  }
  EXPECT_GT(calls, 50u);
}

}  // namespace
}  // namespace penstock::volume
