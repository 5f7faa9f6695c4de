#include "tune/bench_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace penstock::tune {
namespace {

using testing::HasSubstr;

BenchLimits roomy() {
  return {.total_bytes = 200 * kGiB, .available_bytes = 100 * kGiB, .memory_bytes = 16 * kGiB};
}

BenchLimits existing_file(uint64_t bytes) {
  return {.target = BenchTarget::kFile, .existing_bytes = bytes, .memory_bytes = 16 * kGiB};
}

TEST(BenchPlan, DefaultCoversWhatTheIssueAsksAndStaysShort) {
  const BenchPlan plan = make_bench_plan({}, roomy()).value();
  EXPECT_EQ(plan.size_bytes, kGiB);
  ASSERT_FALSE(plan.cases.empty());
  EXPECT_TRUE(plan.cases[0].lays_file);
  std::set<BenchOp> ops;
  std::set<BenchMode> modes;
  std::set<uint64_t> blocks;
  std::set<uint32_t> depths;
  Nanoseconds time{};
  for (const BenchCase& c : plan.cases) {
    ops.insert(c.op);
    modes.insert(c.mode);
    blocks.insert(c.block_bytes);
    depths.insert(c.depth);
    if (!c.lays_file) time += c.time_limit;
  }
  using enum BenchOp;
  EXPECT_EQ(ops, (std::set<BenchOp>{kRead, kWrite, kWriteSync, kWriteDataSync, kCreate, kStat,
                                    kReadFile}));
  EXPECT_EQ(modes.size(), 4U);
  EXPECT_GE(blocks.size(), 4U);
  EXPECT_GE(depths.size(), 6U);
  EXPECT_LE(time, std::chrono::seconds(30));
}

TEST(BenchPlan, QuickIsShort) {
  const BenchPlan plan = make_bench_plan({.quick = true}, roomy()).value();
  EXPECT_LE(plan.size_bytes, 256 * kMiB);
  EXPECT_LE(static_cast<int64_t>(plan.cases.size()) * plan.case_time, std::chrono::seconds(6));
  EXPECT_LE(plan.cases[0].time_limit, std::chrono::seconds(2));
}

TEST(BenchPlan, LabelsAreUnique) {
  using enum BenchProfile;
  for (const BenchProfile profile : {kGeneral, kCheckpoint, kShards, kImages, kEmbeddings, kLogs}) {
    const BenchPlan plan = make_bench_plan({.profile = profile}, roomy()).value();
    std::set<std::string> labels;
    for (const BenchCase& c : plan.cases) {
      EXPECT_TRUE(labels.insert(bench_case_label(c)).second) << bench_case_label(c);
    }
  }
  const BenchPlan store = make_bench_plan({}, {.target = BenchTarget::kStore}).value();
  std::set<std::string> labels;
  for (const BenchCase& c : store.cases) EXPECT_TRUE(labels.insert(bench_case_label(c)).second);
}

TEST(BenchPlan, RefusesToFillTheDisk) {
  // 200 GiB keep 10 GiB free, so that 100 GiB available leave 90, an eighth of it for extras.
  BenchOptions options{.size_bytes = 78 * kGiB};
  EXPECT_TRUE(make_bench_plan(options, roomy()).ok());
  options.size_bytes = 79 * kGiB;
  const auto refused = make_bench_plan(options, roomy());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoSpace);
  EXPECT_THAT(refused.error().detail, HasSubstr("would fill the disk"));
  EXPECT_THAT(refused.error().detail, HasSubstr("at most --size"));
}

TEST(BenchPlan, ReserveIsATenthButAtMostTenGibibytes) {
  EXPECT_EQ(bench_reserve_bytes(kGiB), kGiB / 10);
  EXPECT_EQ(bench_reserve_bytes(100 * kTiB), 10 * kGiB);
}

TEST(BenchPlan, DefaultSizeShrinksWithRoomAndMemory) {
  BenchLimits limits = roomy();
  limits.memory_bytes = kGiB;
  EXPECT_EQ(make_bench_plan({}, limits)->size_bytes, 256 * kMiB);
  limits = {.total_bytes = kGiB, .available_bytes = 300 * kMiB, .memory_bytes = 16 * kGiB};
  const BenchPlan plan = make_bench_plan({}, limits).value();
  EXPECT_LE(plan.size_bytes, 100 * kMiB);
  EXPECT_GE(plan.size_bytes, 64 * kMiB);
  limits.available_bytes = 110 * kMiB;
  const auto refused = make_bench_plan({}, limits);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoSpace);
}

TEST(BenchPlan, ExtrasFitBesideTheFile) {
  using enum BenchProfile;
  for (const BenchProfile profile : {kGeneral, kImages, kLogs}) {
    const BenchPlan plan = make_bench_plan({.profile = profile}, roomy()).value();
    for (const BenchCase& c : plan.cases) {
      const bool extra = c.op == BenchOp::kCreate || c.pattern == BenchPattern::kAppend;
      if (!extra) continue;
      EXPECT_GT(c.limit_bytes, 0U);
      EXPECT_LE(c.limit_bytes, plan.size_bytes / 8) << bench_case_label(c);
    }
  }
}

TEST(BenchPlan, RefusesAppendsThatNeedMoreRoomThanIsSetAside) {
  const BenchCase large = parse_bench_case("fsync:append:buffered:16MiB:1x2").value();
  const auto refused = make_bench_plan({.size_bytes = 36 * kMiB, .cases = {large}}, roomy());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(refused.error().detail, HasSubstr("appends need 32 MiB"));
  EXPECT_THAT(refused.error().detail, HasSubstr("--size 256MiB"));
  EXPECT_TRUE(make_bench_plan({.size_bytes = 256 * kMiB, .cases = {large}}, roomy()).ok());
}

TEST(BenchPlan, SmallFilesOfAllJobsFitIntoWhatIsSetAside) {
  for (const uint64_t size_bytes : {kMiB, 2 * kMiB, 8 * kMiB}) {
    const BenchOptions options{.size_bytes = size_bytes, .profile = BenchProfile::kImages};
    const BenchPlan plan = make_bench_plan(options, roomy()).value();
    for (const BenchCase& c : plan.cases) {
      if (c.on_small_files()) {
        EXPECT_LE(c.block_bytes * c.jobs, size_bytes / 8) << bench_case_label(c);
      }
    }
  }
}

TEST(BenchPlan, RefusesTheSameCaseTwice) {
  const BenchCase read = parse_bench_case("read:random:direct:4KiB:1").value();
  const auto refused = make_bench_plan({.cases = {read, read}}, roomy());
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().detail, HasSubstr("given twice"));
}

TEST(BenchPlan, FewInodesMeanFewSmallFiles) {
  BenchLimits limits = roomy();
  limits.total_inodes = 1000;
  limits.free_inodes = 500;
  const BenchPlan plan = make_bench_plan({}, limits).value();
  for (const BenchCase& c : plan.cases) {
    if (c.op != BenchOp::kCreate) continue;
    EXPECT_LE(c.limit_bytes / c.block_bytes, 50U);
  }
}

TEST(BenchPlan, ExistingFilesAreOnlyRead) {
  for (const BenchTarget target : {BenchTarget::kFile, BenchTarget::kBlockDevice}) {
    BenchLimits limits = existing_file(kGiB);
    limits.target = target;
    const BenchPlan plan = make_bench_plan({}, limits).value();
    EXPECT_GT(plan.cases.size(), 10U);
    for (const BenchCase& c : plan.cases) EXPECT_EQ(c.op, BenchOp::kRead) << bench_case_label(c);
  }
  const BenchCase write = parse_bench_case("write:random:direct:4KiB:1").value();
  const auto refused = make_bench_plan({.cases = {write}}, existing_file(kGiB));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().detail, HasSubstr("only read"));
  EXPECT_FALSE(make_bench_plan({.profile = BenchProfile::kLogs}, existing_file(kGiB)).ok());
}

TEST(BenchPlan, BlocksFitIntoTheFile) {
  const BenchPlan plan = make_bench_plan({}, existing_file(100 * kKiB)).value();
  for (const BenchCase& c : plan.cases) EXPECT_LE(c.block_bytes, 100 * kKiB);
  EXPECT_FALSE(make_bench_plan({}, existing_file(100)).ok());
}

TEST(BenchPlan, CachedCasesFitInMemory) {
  BenchLimits limits = roomy();
  limits.memory_bytes = 4 * kGiB;
  const BenchPlan plan = make_bench_plan({.size_bytes = 50 * kGiB}, limits).value();
  for (const BenchCase& c : plan.cases) {
    if (c.mode == BenchMode::kDirect) continue;
    EXPECT_LE(c.span_bytes, kGiB) << bench_case_label(c);
  }
}

TEST(BenchPlan, AGivenSizeIsLaidDownWhole) {
  EXPECT_GT(make_bench_plan({}, roomy())->cases[0].time_limit.count(), 0);
  EXPECT_EQ(make_bench_plan({.size_bytes = 2 * kGiB}, roomy())->cases[0].time_limit.count(), 0);
}

TEST(BenchPlan, ProfilesAreWhatTheirNamesSay) {
  const auto has = [](BenchProfile profile, auto wanted) {
    const BenchPlan plan = make_bench_plan({.profile = profile}, roomy()).value();
    return std::any_of(plan.cases.begin(), plan.cases.end(), wanted);
  };
  EXPECT_TRUE(has(BenchProfile::kCheckpoint, [](const BenchCase& c) {
    return c.lays_file && c.block_bytes == 4 * kMiB && c.mode == BenchMode::kDirect;
  }));
  for (const uint64_t block_bytes : {64 * kKiB, kMiB}) {
    EXPECT_TRUE(has(BenchProfile::kShards, [=](const BenchCase& c) {
      return c.jobs == 16 && c.block_bytes == block_bytes && c.pattern == BenchPattern::kSequential;
    }));
  }
  for (const uint64_t block_bytes : {4 * kKiB, 128 * kKiB}) {
    EXPECT_TRUE(has(BenchProfile::kImages, [=](const BenchCase& c) {
      return c.op == BenchOp::kRead && c.block_bytes == block_bytes &&
             c.pattern == BenchPattern::kRandom;
    }));
  }
  EXPECT_TRUE(has(BenchProfile::kEmbeddings, [](const BenchCase& c) {
    return c.jobs == 8 && c.depth == 64 && c.block_bytes == 4 * kKiB;
  }));
  for (const BenchOp op : {BenchOp::kWriteSync, BenchOp::kWriteDataSync}) {
    EXPECT_TRUE(has(BenchProfile::kLogs, [=](const BenchCase& c) {
      return c.op == op && c.pattern == BenchPattern::kAppend && c.block_bytes == 4 * kKiB;
    }));
  }
}

TEST(BenchPlan, StorePlanSweepsSizesAndConcurrency) {
  const BenchPlan plan = make_bench_plan({}, {.target = BenchTarget::kStore}).value();
  std::set<std::pair<uint64_t, uint32_t>> gets;
  for (const BenchCase& c : plan.cases) {
    EXPECT_TRUE(c.on_objects());
    if (c.op == BenchOp::kGet) gets.insert({c.block_bytes, c.depth});
  }
  EXPECT_EQ(gets.size(), 9U);
  EXPECT_EQ(plan.cases.back().op, BenchOp::kRemove);
  EXPECT_FALSE(
      make_bench_plan({.profile = BenchProfile::kLogs}, {.target = BenchTarget::kStore}).ok());
}

TEST(BenchPlan, RefusesSenselessOptions) {
  EXPECT_FALSE(make_bench_plan({.size_bytes = 1000}, roomy()).ok());
  EXPECT_FALSE(make_bench_plan({.case_time = Nanoseconds(0)}, roomy()).ok());
  const BenchCase read = parse_bench_case("read:random:direct:4KiB:1").value();
  EXPECT_FALSE(make_bench_plan({.profile = BenchProfile::kLogs, .cases = {read}}, roomy()).ok());
}

TEST(BenchCaseText, Parses) {
  const BenchCase c = parse_bench_case("read:random:buffered-cold:64KiB:16x4").value();
  EXPECT_EQ(c.op, BenchOp::kRead);
  EXPECT_EQ(c.pattern, BenchPattern::kRandom);
  EXPECT_EQ(c.mode, BenchMode::kBuffered);
  EXPECT_EQ(c.cache, BenchCache::kCold);
  EXPECT_EQ(c.block_bytes, 64 * kKiB);
  EXPECT_EQ(c.depth, 16U);
  EXPECT_EQ(c.jobs, 4U);
  EXPECT_EQ(bench_case_label(c), "random read, buffered cold, 64 KiB, depth 16, 4 jobs");
  EXPECT_EQ(bench_case_label(parse_bench_case("fsync:append:buffered:4KiB:1").value()),
            "append + fsync, buffered, 4 KiB");
}

TEST(BenchCaseText, RefusesWhatIsNotOne) {
  for (const char* text : {"",
                           "read",
                           "read:random:direct:4KiB",
                           "read:random:direct:4KiB:32:1",
                           "reed:random:direct:4KiB:1",
                           "create:random:direct:4KiB:1",
                           "read:zigzag:direct:4KiB:1",
                           "read:random:warm:4KiB:1",
                           "read:random:direct-cold-warm:4KiB:1",
                           "read:random:direct:4K:1",
                           "read:random:direct:4KiB:0",
                           "read:random:direct:4KiB:x4",
                           "read:random:direct:4KiB:1x",
                           "read:random:direct:4KiB:4096x2",
                           "write:random:mmap:4KiB:1",
                           "read:random:mmap:4KiB:2",
                           "fsync:append:buffered:4KiB:2",
                           "read:append:buffered:4KiB:1",
                           "read:random:direct:100B:1",
                           "read:random:direct:513B:1",
                           "fsync:append:direct:1000B:1",
                           "read:random:direct:1GiB:1",
                           "read:random:direct:64MiB:17"}) {
    const auto parsed = parse_bench_case(text);
    EXPECT_FALSE(parsed.ok()) << text;
  }
  EXPECT_THAT(parse_bench_profile("chekpoint").error().detail, HasSubstr("checkpoint"));
  EXPECT_THAT(parse_bench_case("reed:random:direct:4KiB:1").error().detail,
              HasSubstr("is not an operation"));
  EXPECT_THAT(parse_bench_case("read:random:direct:513B:1").error().detail,
              HasSubstr("direct I/O moves whole blocks"));
  EXPECT_TRUE(parse_bench_case("read:random:buffered:513B:1").ok());
}

TEST(BenchCaseText, ErrorsShowNoControlCharacters) {
  for (const char* text : {"\033]0;x\n", "read:\033[2J:direct:4KiB:1", "read:random:direct:\033:1",
                           "read:random:direct:4KiB:\n"}) {
    const std::string detail = parse_bench_case(text).error().detail;
    EXPECT_EQ(detail.find_first_of("\033\n"), std::string::npos) << detail;
  }
}

}  // namespace
}  // namespace penstock::tune
