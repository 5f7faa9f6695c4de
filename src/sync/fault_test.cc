// Every call of source and target failing in turn, and every moment at which the power can go: never
// wrong bytes, never half a file under a final name, and the next run makes it good.
#include <fmt/core.h>

#include "io/faulty_file_system.h"
#include "store/faulty_store.h"
#include "sync/test_support.h"

namespace penstock::sync {

namespace {

using io::FaultOptions;
using io::FaultyFileSystem;
using io::MemoryFileSystem;

// New, changed and removed objects, some of them large.
Tree new_objects() {
  return {{"a", "new a"},
          {"b", "new"},
          {"d/c", std::string(20'000, 'n')},
          {"d/e/f", "new f"},
          {"g", std::string(9'000, 'g')}};
}
Tree old_objects() {
  return {{"a", "old a"}, {"d/c", std::string(20'000, 'o')}, {"x/y", "extra"}};
}

Options fault_options() {
  Options options = small_options();
  options.delete_extra = true;
  options.jobs = 3;
  return options;
}

std::unique_ptr<Place> source_store() {
  auto place = store_place(store::make_memory_store());
  for (const auto& [key, text] : new_objects()) {
    EXPECT_THAT(place->store->put(key, bytes_of(text)), IsOk());
  }
  return place;
}

std::unique_ptr<MemoryFileSystem> target_disk() {
  auto fs = std::make_unique<MemoryFileSystem>();
  for (const auto& [key, text] : old_objects()) write_file(*fs, "/to/" + key, text, kTime);
  EXPECT_THAT(fs->sync_file_system("/"), IsOk());
  return fs;
}

bool is_unfinished(const std::string& path) {
  return path.find(".penstock-tmp-") != std::string::npos;
}

// Each name has its old or its new bytes.
void expect_old_or_new(const Tree& tree) {
  const Tree before = old_objects();
  const Tree after = new_objects();
  for (const auto& [key, text] : tree) {
    if (text == "/" || is_unfinished(key)) continue;
    const auto old_one = before.find(key);
    const auto new_one = after.find(key);
    const bool fine = (old_one != before.end() && old_one->second == text) ||
                      (new_one != after.end() && new_one->second == text);
    EXPECT_TRUE(fine) << key << " has " << text.size() << " wrong bytes";
  }
}

Tree without_folders(Tree tree) {
  std::erase_if(tree, [](const auto& entry) { return entry.second == "/"; });
  return tree;
}

// A run with nothing in its way finds out what is missing, by sizes and times alone.
void expect_next_run_repairs(MemoryFileSystem& fs, Place& from) {
  const auto to = tree_place(fs, "/to", true);
  run_ok(from, *to, fault_options());
  Tree tree = without_folders(tree_of(fs, "/to"));
  std::erase_if(tree, [](const auto& entry) { return is_unfinished(entry.first); });
  EXPECT_EQ(tree, new_objects());
}

size_t unfinished_in(MemoryFileSystem& fs) {
  size_t count = 0;
  for (const auto& [path, text] : tree_of(fs, "/to")) count += is_unfinished(path) ? 1 : 0;
  return count;
}

// What one run on such a file system came to.
Result<Report> run_on(io::FileSystem& fs, Place& from) {
  Result<std::unique_ptr<Place>> to =
      open_place("/to", {.create = true, .store = {.file_system = &fs}});
  if (!to.ok()) return to.error();
  return run(from, **to, fault_options());
}

void try_failing_calls(int error) {
  const auto from = source_store();
  uint64_t n = 1;
  for (;; ++n) {
    SCOPED_TRACE(fmt::format("failure {} at call {}", error, n));
    FaultyFileSystem fs({.fail_at = n, .error = error}, target_disk());
    const Result<Report> report = run_on(fs, *from);
    const Tree tree = tree_of(fs.disk(), "/to");
    expect_old_or_new(tree);
    // One that could not be removed may stay.
    EXPECT_LE(unfinished_in(fs.disk()), fs.fault_hit() ? 1u : 0u);
    const bool clean = report.ok() && report->totals.failed == 0;
    EXPECT_TRUE(!clean || without_folders(tree).size() - unfinished_in(fs.disk()) == 5u);
    expect_next_run_repairs(fs.disk(), *from);
    if (!fs.fault_hit() || ::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(n, 60u) << "a run makes fewer calls than it should";
}

TEST(Faults, AnyCallOfTheTargetTreeFails) {
  try_failing_calls(EIO);
}

TEST(Faults, TheTargetTreeIsFullAtAnyCall) {
  try_failing_calls(ENOSPC);
}

TEST(Faults, ThePowerGoesAtAnyCall) {
  const auto from = source_store();
  uint64_t n = 1;
  for (;; ++n) {
    FaultyFileSystem fs({.cut_at = n}, target_disk());
    (void)run_on(fs, *from);
    for (uint64_t seed = 0; seed < 4; ++seed) {
      SCOPED_TRACE(fmt::format("power cut at call {}, seed {}", n, seed));
      const std::unique_ptr<MemoryFileSystem> after = fs.power_cut(seed);
      expect_old_or_new(tree_of(*after, "/to"));
      expect_next_run_repairs(*after, *from);
    }
    if (!fs.fault_hit() || ::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(n, 60u) << "a run makes fewer calls than it should";
}

TEST(Faults, WhatARunReportedSurvivesAPowerCut) {
  const auto from = source_store();
  FaultyFileSystem fs({}, target_disk());
  ASSERT_THAT(run_on(fs, *from), IsOk());
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(without_folders(tree_of(*fs.power_cut(seed), "/to")), new_objects());
  }
}

// The same with the bytes never synced: the test above can fail.
TEST(Faults, ATargetThatIsNotSyncedIsFoundOut) {
  const auto from = source_store();
  FaultyFileSystem fs({.fail_at = 1, .only = io::CallKind::kSyncFileSystem, .for_good = true},
                      target_disk());
  const Result<Report> report = run_on(fs, *from);
  EXPECT_TRUE(!report.ok() || report->totals.failed > 0);
}

TEST(Faults, AnyCallOfTheSourceTreeFails) {
  const auto make_source = [] {
    auto fs = std::make_unique<MemoryFileSystem>();
    for (const auto& [key, text] : new_objects()) write_file(*fs, "/from/" + key, text, kTime + 1);
    return fs;
  };
  uint64_t n = 1;
  for (;; ++n) {
    SCOPED_TRACE(fmt::format("failure at call {}", n));
    FaultyFileSystem source({.fail_at = n}, make_source());
    const std::unique_ptr<MemoryFileSystem> target = target_disk();
    const Result<std::unique_ptr<Place>> from =
        open_place("/from", {.store = {.file_system = &source}});
    const auto to = tree_place(*target, "/to");
    if (from.ok()) {
      const Result<Report> report = run(**from, *to, fault_options());
      const Tree tree = without_folders(tree_of(*target, "/to"));
      expect_old_or_new(tree);
      EXPECT_EQ(unfinished_in(*target), 0u);
      // Nothing is deleted, unless all else went well.
      const bool clean = report.ok() && report->totals.failed == 0;
      EXPECT_TRUE(clean ? tree == new_objects() : tree.contains("x/y"));
    }
    if (!source.fault_hit() || HasFailure()) break;
  }
  EXPECT_GT(n, 40u) << "a run makes fewer calls than it should";
}

void try_failing_stores(bool source_fails, bool after_effect) {
  uint64_t n = 1;
  for (;; ++n) {
    SCOPED_TRACE(fmt::format("failure at call {}", n));
    store::FaultyStoreOptions faults;
    faults.fail_at = n;
    faults.fail_after_effect = after_effect;
    auto from = source_store();
    auto to = store_place(store::make_memory_store());
    for (const auto& [key, text] : old_objects()) {
      ASSERT_THAT(to->store->put(key, bytes_of(text)), IsOk());
    }
    for (const auto& [key, text] : new_objects()) {
      ASSERT_THAT(from->store->put(key, bytes_of(text)), IsOk());  // Newer than the target's.
    }
    Place& faulty_place = source_fails ? *from : *to;
    auto faulty = std::make_unique<store::FaultyStore>(std::move(faulty_place.store), faults);
    store::FaultyStore& counts = *faulty;
    faulty_place.store = std::move(faulty);
    const Result<Report> report = run(*from, *to, fault_options());
    const bool hit = counts.fault_hit();
    EXPECT_EQ(hit, !report.ok() || report->totals.failed > 0);
    store::ObjectStore& target = source_fails ? *to->store : counts.inner();
    expect_old_or_new(objects_of(target));
    if (!hit) break;
    run_ok(*from, *to, fault_options());
    EXPECT_EQ(objects_of(target), new_objects());
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(n, 10u) << "a run makes fewer calls than it should";
}

TEST(Faults, AnyCallOfTheSourceStoreFails) {
  try_failing_stores(true, false);
}

TEST(Faults, AnyCallOfTheTargetStoreFails) {
  try_failing_stores(false, false);
}

TEST(Faults, AnyAnswerOfTheTargetStoreGetsLost) {
  try_failing_stores(false, true);
}

// A store that sends fewer bytes, or none: found by their number.
TEST(Faults, TruncatedAnswersNeverArrive) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    auto from = source_store();
    store::FaultyStoreOptions faults;
    faults.seed = seed;
    faults.truncate_rate = 0.2;
    from->store = std::make_unique<store::FaultyStore>(std::move(from->store), faults);
    MemoryFileSystem fs;
    const auto to = tree_place(fs, "/to", true);
    const Result<Report> report = run(*from, *to, fault_options());
    ASSERT_THAT(report, IsOk());
    const Tree tree = without_folders(tree_of(fs, "/to"));
    expect_old_or_new(tree);
    EXPECT_EQ(tree.size(), report->totals.copied);
    EXPECT_EQ(tree.size() + report->totals.failed, 5u);
  }
}

}  // namespace

}  // namespace penstock::sync
