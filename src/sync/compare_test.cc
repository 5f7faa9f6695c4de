#include "sync/compare.h"

#include <gtest/gtest.h>

#include "sync/test_support.h"

namespace penstock::sync {

namespace {

constexpr int64_t kSecond = 1'000'000'000;
const std::string kMd5(32, 'a');

constexpr CompareRules kTrees{.from_tree = true, .to_tree = true};
constexpr CompareRules kUp{.from_tree = true};
constexpr CompareRules kDown{.to_tree = true};
constexpr CompareRules kStores{};

Verdict verdict(const Side& source, const Side& target, const CompareRules& rules) {
  return compare(source, target, rules).verdict;
}

TEST(Compare, AnotherSizeAlwaysDiffers) {
  for (CompareRules rules : {kTrees, kUp, kDown, kStores}) {
    for (const bool checksum : {false, true}) {
      rules.checksum = checksum;
      const Decision decision = compare({1, kTime, kMd5}, {2, kTime, kMd5}, rules);
      EXPECT_EQ(decision.verdict, Verdict::kDiffers);
      EXPECT_EQ(decision.why, "size");
    }
  }
}

TEST(Compare, TimesOfTreesMustBeEqual) {
  EXPECT_EQ(verdict({1, kTime}, {1, kTime}, kTrees), Verdict::kSame);
  EXPECT_EQ(verdict({1, kTime}, {1, kTime + 1}, kTrees), Verdict::kDiffers);
  EXPECT_EQ(verdict({1, kTime}, {1, kTime - 1}, kTrees), Verdict::kDiffers);
}

TEST(Compare, TimesAreAsExactAsTheTargetKeepsThem) {
  CompareRules coarse = kTrees;
  coarse.time_step_ns = 1000;
  EXPECT_EQ(verdict({1, kTime}, {1, kTime - 789}, coarse), Verdict::kSame);
  EXPECT_EQ(verdict({1, kTime}, {1, kTime - 790}, coarse), Verdict::kDiffers);
  coarse.time_step_ns = 2 * kSecond;
  EXPECT_EQ(verdict({1, -1}, {1, -2 * kSecond}, coarse), Verdict::kSame);
  EXPECT_EQ(verdict({1, -1}, {1, 0}, coarse), Verdict::kDiffers);
}

TEST(Compare, AFileChangedLongBeforeTheObjectIsTheSame) {
  EXPECT_EQ(verdict({1, kTime}, {1, kTime + 61 * kSecond, kMd5}, kUp), Verdict::kSame);
  EXPECT_EQ(verdict({1, kTime}, {1, kTime + 59 * kSecond, kMd5}, kUp), Verdict::kAskKeptTime);
  EXPECT_EQ(verdict({1, kTime}, {1, kTime - 1, kMd5}, kUp), Verdict::kAskKeptTime);
}

TEST(Compare, AFileHasTheTimeThatWasKept) {
  const Side recent{1, kTime + kSecond};
  const auto decide = [](const Side& target, std::optional<int64_t> kept) {
    return decide_by_kept_time({1, kTime}, target, kUp, kept).verdict;
  };
  EXPECT_EQ(decide(recent, kTime), Verdict::kSame);
  EXPECT_EQ(decide(recent, kTime - 1), Verdict::kDiffers);
  EXPECT_EQ(decide(recent, std::nullopt), Verdict::kSame);
  const Side older{1, kTime - 1};
  EXPECT_EQ(decide(older, kTime), Verdict::kSame);  // The clocks differ.
  EXPECT_EQ(decide(older, std::nullopt), Verdict::kDiffers);
}

TEST(Compare, AnObjectHasTheFilesTimeOrOneKept) {
  EXPECT_EQ(verdict({1, kTime, kMd5}, {1, kTime}, kDown), Verdict::kSame);
  EXPECT_EQ(verdict({1, kTime, kMd5}, {1, kTime - 123'456'789}, kDown), Verdict::kSame);
  EXPECT_EQ(verdict({1, kTime, kMd5}, {1, kTime - 1}, kDown), Verdict::kAskKeptTime);
  EXPECT_EQ(verdict({1, kTime, kMd5}, {1, kTime + kSecond}, kDown), Verdict::kAskKeptTime);
  const auto decide = [](std::optional<int64_t> kept) {
    return decide_by_kept_time({1, kTime}, {1, 5}, kDown, kept).verdict;
  };
  EXPECT_EQ(decide(5), Verdict::kSame);
  EXPECT_EQ(decide(6), Verdict::kDiffers);
  EXPECT_EQ(decide(std::nullopt), Verdict::kDiffers);
}

TEST(Compare, StoresByEtagOrTime) {
  const std::string other(32, 'b');
  EXPECT_EQ(verdict({1, kTime + 1, kMd5}, {1, kTime, kMd5}, kStores), Verdict::kSame);
  EXPECT_EQ(verdict({1, kTime + 1, kMd5}, {1, kTime, other}, kStores), Verdict::kDiffers);
  EXPECT_EQ(verdict({1, kTime, kMd5}, {1, kTime, other}, kStores), Verdict::kSame);
  // Short ones are numbers of their store, and nothing follows from them.
  EXPECT_EQ(verdict({1, kTime + 1, "0001"}, {1, kTime, "0001"}, kStores), Verdict::kDiffers);
}

TEST(Compare, ChecksumsReadWhateverTheTimes) {
  for (CompareRules rules : {kTrees, kUp, kDown, kStores}) {
    rules.checksum = true;
    EXPECT_EQ(verdict({1, kTime}, {1, kTime}, rules), Verdict::kReadBytes);
    EXPECT_EQ(verdict({1, kTime}, {1, 0}, rules), Verdict::kReadBytes);
  }
  CompareRules stores = kStores;
  stores.checksum = true;
  EXPECT_EQ(verdict({1, kTime, kMd5}, {1, 0, kMd5}, stores), Verdict::kSame);
}

TEST(Compare, Md5sInEtags) {
  EXPECT_EQ(md5_in_etag(kMd5), kMd5);
  EXPECT_EQ(md5_in_etag(kMd5 + "-2"), "");
  EXPECT_EQ(md5_in_etag(std::string(32, 'A')), "");
  EXPECT_EQ(md5_in_etag("0123"), "");
}

}  // namespace

}  // namespace penstock::sync
