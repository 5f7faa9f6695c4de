// Every failing call, every moment at which the power can go: what was committed last is there, or
// what was being committed, and nothing contradicts itself.
#include <fmt/core.h>

#include "base/sanitized.h"
#include "io/faulty_file_system.h"
#include "meta/conformance.h"

namespace penstock::meta {
namespace {

using io::FaultyFileSystem;

constexpr const char* kFaultyPath = "/data/volume.db";

std::string file_name(uint64_t step) {
  return fmt::format("f{}", step);
}
uint64_t file_bytes(uint64_t step) {
  return 100 * step;
}

// Makes what expect_state(step) expects of what the step before left.
Result<void> take_step(Database& database, Namespace& names, uint64_t step) {
  const Time now = static_cast<Time>(step) * kSecond;
  if (step == 1) PENSTOCK_TRY(names.create(kRoot, "d", {.mode = S_IFDIR | 0755}, now));
  const Inode directory = PENSTOCK_TRY(names.lookup(kRoot, "d"));
  const ObjectId id{database.session(), static_cast<uint32_t>(step)};
  PENSTOCK_TRY(database.add_object({.id = id, .state = ObjectState::kStored, .bytes = kMiB}));
  const Inode file =
      PENSTOCK_TRY(names.create(directory.ino, file_name(step), {.mode = S_IFREG | 0644}, now));
  const uint64_t bytes = file_bytes(step);
  const std::vector<Place> chunks = {{.object = id, .stored = bytes, .raw = bytes}};
  PENSTOCK_TRY(names.write(file.ino, 0, chunks, now));
  PENSTOCK_TRY(names.set_xattr(kRoot, "user.step", std::to_string(step), XattrMode::kSet, now));
  if (step > 2) {
    const Removed removed = PENSTOCK_TRY(names.unlink(directory.ino, file_name(step - 2), now));
    PENSTOCK_TRY(names.forget(removed.inode.ino));
    PENSTOCK_TRY(database.purge(now, 1000));
  }
  PENSTOCK_TRY(database.commit({.now = now, .journal = {step}}));
  return {};
}

Result<std::unique_ptr<Database>> open_database(io::FileSystem& fs, bool create) {
  SqliteOptions options;
  if (create) options.create = test_settings();
  return open_sqlite(fs, kFaultyPath, options);
}

struct Progress {
  bool made = false;   // The database.
  uint64_t steps = 0;  // That were reported durable.
};

constexpr uint64_t kStepsOfALife = 2;

// Of one owner, up to the first failure.
Result<void> live(io::FileSystem& fs, Progress& progress) {
  const auto database = PENSTOCK_TRY(open_database(fs, !progress.made));
  progress.made = true;
  const auto names = PENSTOCK_TRY(database->open("train"));
  for (uint64_t i = 0; i < kStepsOfALife; ++i) {
    PENSTOCK_TRY(take_step(*database, *names, progress.steps + 1));
    ++progress.steps;
  }
  return {};
}

void expect_state(Namespace& names, uint64_t step) {
  if (step == 0) {
    EXPECT_TRUE(names.list(kRoot, 0, 10)->empty());
    return;
  }
  EXPECT_EQ(*names.xattr(kRoot, "user.step"), std::to_string(step));
  const Result<Inode> directory = names.lookup(kRoot, "d");
  ASSERT_THAT(directory, IsOk());
  const auto entries = names.list(directory->ino, 0, 10);
  ASSERT_THAT(entries, IsOk());
  ASSERT_EQ(entries->size(), std::min<uint64_t>(step, 2));
  for (const Entry& entry : *entries) {
    const uint64_t made = entry.name == file_name(step) ? step : step - 1;
    EXPECT_EQ(entry.name, file_name(made));
    EXPECT_EQ(names.inode(entry.ino)->size, file_bytes(made));
    EXPECT_EQ(names.extents(entry.ino, 0, 1)->size(), 1u);
  }
}

// Whoever opens it next finds a step that may be there, whole, and takes one more.
void expect_recovers(io::FileSystem& fs, Progress& progress, const std::string& where,
                     bool thoroughly = true) {
  SCOPED_TRACE(where);
  auto database = open_database(fs, false);
  if (!database.ok()) {
    ASSERT_FALSE(progress.made) << database.error().to_string();
    ASSERT_EQ(database.error().code, ErrorCode::kNotFound) << database.error().to_string();
    database = open_database(fs, true);
    ASSERT_THAT(database, IsOk());
  }
  const uint64_t step = (*database)->journal().sequence;
  ASSERT_GE(step, progress.steps);
  ASSERT_LE(step, progress.steps + 1);
  const auto names = (*database)->open("train");
  ASSERT_THAT(names, IsOk());
  expect_state(**names, step);
  progress = {true, step};
  if (!thoroughly) return;
  const auto found = (*database)->check();
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(*found, ::testing::IsEmpty());
  ASSERT_THAT(take_step(**database, **names, step + 1), IsOk());
  expect_state(**names, step + 1);
  progress = {true, step + 1};
}

std::unique_ptr<io::MemoryFileSystem> empty_disk() {
  auto disk = std::make_unique<io::MemoryFileSystem>();
  EXPECT_THAT(disk->make_directory("/data"), IsOk());
  EXPECT_THAT(disk->sync_directory("/"), IsOk());
  return disk;
}

// What the owner before left.
enum class Left : uint8_t { kNothing, kDatabase, kLogToo };

class MetaFaults : public ::testing::TestWithParam<Left> {
 protected:
  void SetUp() override {
    disk_ = empty_disk();
    if (GetParam() == Left::kNothing) return;
    found_ = {true, kStepsOfALife};
    std::unique_ptr<io::MemoryFileSystem> killed;
    {
      const auto database = open_database(*disk_, true);
      ASSERT_THAT(database, IsOk());
      const auto names = std::move(*(*database)->open("train"));
      for (uint64_t step = 1; step <= kStepsOfALife; ++step)
        ASSERT_THAT(take_step(**database, *names, step), IsOk());
      killed = disk_->clone();
    }
    if (GetParam() == Left::kLogToo) disk_ = std::move(killed);
  }

  // The calls of a life to which nothing happens.
  std::vector<std::string> calls() {
    FaultyFileSystem fs({}, disk_->clone());
    Progress progress = found_;
    EXPECT_THAT(live(fs, progress), IsOk());
    return fs.trace();
  }

  void expect_survives_failure(uint64_t n, int error);
  void expect_survives_cut(uint64_t n, uint64_t seeds);

  std::unique_ptr<io::MemoryFileSystem> disk_;
  Progress found_;
};

void MetaFaults::expect_survives_failure(uint64_t n, int error) {
  FaultyFileSystem fs({.fail_at = n, .error = error}, disk_->clone());
  Progress progress = found_;
  const Result<void> lived = live(fs, progress);
  ASSERT_TRUE(fs.fault_hit());
  const std::string call = fs.trace()[n - 1];
  if (!lived.ok()) {
    EXPECT_EQ(lived.error().os_errno, error) << call << ": " << lived.error().to_string();
  }
  expect_recovers(fs.disk(), progress, "failed: " + call);
  // And then it holds, also where what a failed sync was about is lost for good.
  if (call.find(" sync ") != call.npos)
    expect_recovers(*fs.power_cut(0), progress, "the power went after the failure of " + call);
}

void MetaFaults::expect_survives_cut(uint64_t n, uint64_t seeds) {
  FaultyFileSystem fs({.cut_at = n}, disk_->clone());
  Progress progress = found_;
  (void)live(fs, progress);
  ASSERT_TRUE(fs.fault_hit());
  const std::string call = fs.trace()[n - 1];
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const auto after = fs.power_cut(seed);
    Progress seen = progress;
    // All that is unsynced lost, and one mixture: the others differ little.
    expect_recovers(*after, seen, fmt::format("cut at {}, seed {}", call, seed),
                    seed == 0 || seed == 2);
  }
}

// Sanitized builds look at every third call only: each takes ten times as long.
constexpr size_t kStride = kSanitized ? 3 : 1;

TEST_P(MetaFaults, AnyCallMayFail) {
  const uint64_t count = calls().size();
  for (uint64_t n = 1; n <= count && !HasFailure(); n += kStride) expect_survives_failure(n, EIO);
}

TEST_P(MetaFaults, TheDiskMayBeFullAtAnyCall) {
  // It matters less which: the paths are those of other errors.
  const uint64_t count = calls().size();
  for (uint64_t n = 1; n <= count && !HasFailure(); n += 3 * kStride)
    expect_survives_failure(n, ENOSPC);
}

TEST_P(MetaFaults, ThePowerMayGoAtAnyCall) {
  const std::vector<std::string> all = calls();
  size_t cuts = 0;
  for (uint64_t n = 1; n <= all.size() && !HasFailure(); ++n) {
    // Where nothing is changed the disk is as it was at the call before.
    const std::string& call = all[n - 1];
    if (call.find(" read ") != call.npos || call.find(" stat ") != call.npos) continue;
    if (cuts++ % kStride == 0) expect_survives_cut(n, kSanitized ? 3 : 5);
  }
  EXPECT_GT(cuts, 50u);
}

INSTANTIATE_TEST_SUITE_P(Sqlite, MetaFaults,
                         ::testing::Values(Left::kNothing, Left::kDatabase, Left::kLogToo),
                         [](const ::testing::TestParamInfo<Left>& left) {
                           if (left.param == Left::kNothing) return "FromNothing";
                           return left.param == Left::kDatabase ? "FoundClosed" : "FoundKilled";
                         });

TEST(MetaFaultsOnce, AfterAFailureNothingIsAccepted) {
  FaultyFileSystem fs({.fail_at = 1, .only = io::CallKind::kSync, .error = EIO}, empty_disk());
  { ASSERT_THAT(open_database(fs.disk(), true), IsOk()); }
  auto database = open_database(fs, false);
  // The session's number is synced when it is opened.
  EXPECT_THAT(database, FailsWith(ErrorCode::kIo));
  FaultyFileSystem later({.fail_at = 5, .only = io::CallKind::kSync, .error = EIO},
                         fs.disk().clone());
  database = open_database(later, false);
  ASSERT_THAT(database, IsOk());
  const auto names = std::move(*(*database)->open("train"));
  Result<void> taken = take_step(**database, *names, 1);
  for (uint64_t step = 2; taken.ok() && step < 5; ++step)
    taken = take_step(**database, *names, step);
  EXPECT_THAT(taken, FailsWith(ErrorCode::kIo));
  EXPECT_TRUE(later.fault_hit());
  EXPECT_THAT(names->inode(kRoot), FailsWith(ErrorCode::kIo));
  EXPECT_THAT(names->create(kRoot, "x", {.mode = S_IFREG}, 1), FailsWith(ErrorCode::kIo));
  EXPECT_THAT((*database)->commit({}), FailsErrno(EIO));
  EXPECT_THAT((*database)->check(), FailsWith(ErrorCode::kIo));
  const uint64_t calls = later.calls();
  database = make_error(ErrorCode::kClosed, "closed");
  EXPECT_EQ(later.calls(), calls);  // Closing it does not touch what nobody knows the state of.
}

// So large that the log is brought into the database in between, and pages go to the log before
// their commit.
TEST(MetaFaultsOnce, ThePowerMayGoInALongLife) {
  constexpr uint64_t kFiles = 40;
  const std::string value(kXattrValueBytesMax, 'v');
  const auto fill = [&](io::FileSystem& fs) -> Result<uint64_t> {
    SqliteOptions options;
    options.create = test_settings();
    options.cache_bytes = 256 * kKiB;
    const auto database = PENSTOCK_TRY(open_sqlite(fs, kFaultyPath, options));
    const auto names = PENSTOCK_TRY(database->open("train"));
    uint64_t durable = 0;
    for (uint64_t version = 1; version <= 16; ++version) {
      Result<void> done;
      for (uint64_t i = 0; i < kFiles && done.ok(); ++i) {
        const auto made =
            names->create(kRoot, fmt::format("{}-{}", version, i), {.mode = S_IFREG}, 1);
        if (!made.ok()) return durable;
        done = names->set_xattr(made->ino, "user.large", value, XattrMode::kSet, 1);
      }
      if (!done.ok() || !database->commit({.journal = {version}}).ok()) return durable;
      durable = version;
    }
    return durable;
  };
  FaultyFileSystem whole({}, empty_disk());
  ASSERT_EQ(*fill(whole), 16u);
  const uint64_t calls = whole.calls();
  const int cuts = kSanitized ? 3 : 8;
  for (int i = 1; i <= cuts; ++i) {
    FaultyFileSystem fs({.cut_at = calls * static_cast<uint64_t>(i) / cuts}, empty_disk());
    const Result<uint64_t> durable = fill(fs);
    ASSERT_THAT(durable, IsOk());
    const auto after = fs.power_cut(static_cast<uint64_t>(i));
    SCOPED_TRACE(fmt::format("cut {}", i));
    auto database = open_database(*after, false);
    ASSERT_THAT(database, IsOk());
    const uint64_t found = (*database)->journal().sequence;
    EXPECT_GE(found, *durable);
    EXPECT_LE(found, *durable + 1);
    const auto names = std::move(*(*database)->open("train"));
    EXPECT_EQ(names->inode(kRoot)->size, found * kFiles);
    EXPECT_THAT(*(*database)->check(), ::testing::IsEmpty());
  }
}

}  // namespace
}  // namespace penstock::meta
