#include "sync/filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace penstock::sync {

namespace {

bool takes(const std::vector<Filter>& filters, const std::string& key) {
  for (const Filter& filter : filters) EXPECT_TRUE(check_filter(filter).ok()) << filter.pattern;
  return selected(filters, key);
}

TEST(Filter, OnlyStarsAndQuestionMarksAreSpecial) {
  const std::vector<Filter> filters = {{true, "a[b]\\{c,d}*?"}};
  EXPECT_TRUE(takes(filters, "a[b]\\{c,d}xy"));
  EXPECT_TRUE(takes(filters, "deep/a[b]\\{c,d}x"));
  EXPECT_FALSE(takes(filters, "ab\\{c,d}xy"));
  EXPECT_FALSE(takes(filters, "a[b]cx"));
  EXPECT_TRUE(takes({{true, "[x]/y/**"}}, "[x]/y/z"));
  EXPECT_FALSE(takes({{true, "[x]/y/**"}}, "x/y/z"));
}

TEST(Filter, NoneTakesAll) {
  EXPECT_TRUE(takes({}, "a/b"));
}

TEST(Filter, TheFirstThatMatchesDecides) {
  const std::vector<Filter> filters = {{true, "*.tar"}, {false, "*"}};
  EXPECT_TRUE(takes(filters, "a.tar"));
  EXPECT_TRUE(takes(filters, "deep/er/a.tar"));
  EXPECT_FALSE(takes(filters, "deep/er/a.txt"));
  const std::vector<Filter> other_order = {{false, "*"}, {true, "*.tar"}};
  EXPECT_FALSE(takes(other_order, "a.tar"));
}

TEST(Filter, WhatNoneMatchesDependsOnTheFirst) {
  EXPECT_FALSE(takes({{true, "*.tar"}}, "a.txt"));
  EXPECT_TRUE(takes({{false, "*.tar"}}, "a.txt"));
  EXPECT_FALSE(takes({{true, "*.tar"}, {false, "x"}}, "a.txt"));
}

TEST(Filter, NamesAtEveryLevelAndPathsFromTheTop) {
  EXPECT_FALSE(takes({{false, "cache"}}, "a/cache/b"));
  EXPECT_FALSE(takes({{false, "cache"}}, "cache"));
  EXPECT_TRUE(takes({{false, "/cache"}}, "a/cache"));
  EXPECT_FALSE(takes({{false, "/cache"}}, "cache/b"));
  EXPECT_FALSE(takes({{false, "a/cache"}}, "a/cache/b"));
  EXPECT_TRUE(takes({{false, "a/cache"}}, "x/a/cache/b"));
}

TEST(Filter, ASlashAtTheEndMeansFolders) {
  EXPECT_TRUE(takes({{false, "cache/"}}, "cache"));
  EXPECT_FALSE(takes({{false, "cache/"}}, "cache/b"));
  EXPECT_FALSE(takes({{false, "cache/"}}, "a/cache/b"));
  EXPECT_FALSE(takes({{false, "cache/"}}, "cache/"));  // The folder itself.
  EXPECT_TRUE(takes({{false, "a/cache/"}}, "x/a/cache/b"));
}

TEST(Filter, WrongOnesAreRefused) {
  for (const std::string pattern : {"", "/", "//", "a//b", "a/../b", "./a", ".."}) {
    EXPECT_FALSE(check_filter({true, pattern}).ok()) << pattern;
  }
  EXPECT_FALSE(check_filter({true, std::string("a\0b", 3)}).ok());
  for (const std::string pattern : {"a", "/a", "a/", "/a/", "**", "a.b/..c"}) {
    EXPECT_TRUE(check_filter({true, pattern}).ok()) << pattern;
  }
}

// A folder that is not listed has nothing that would have been taken.
TEST(Filter, PruningLosesNothing) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const std::vector<std::string> parts = {"a", "b", "*", "**", "?", "ab", "a*"};
  const std::vector<std::string> names = {"a", "b", "ab"};
  const auto pick = [&](const auto& from) { return from[random() % from.size()]; };
  size_t pruned = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<Filter> filters;
    for (size_t i = 0; i < 1 + random() % 3; ++i) {
      std::string pattern = random() % 3 == 0 ? "/" : "";
      for (size_t part = 0; part < 1 + random() % 3; ++part) {
        if (part > 0) pattern += '/';
        pattern += pick(parts);
      }
      if (random() % 3 == 0) pattern += '/';
      filters.push_back({random() % 2 == 0, pattern});
      ASSERT_TRUE(check_filter(filters.back()).ok());
    }
    const FilterList list(filters);
    for (int i = 0; i < 10; ++i) {
      std::string key = pick(names);
      for (size_t part = 0; part < random() % 4; ++part) key += "/" + pick(names);
      if (!list.selects(key)) continue;
      for (size_t slash = key.find('/'); slash != std::string::npos;
           slash = key.find('/', slash + 1)) {
        EXPECT_TRUE(list.may_select_below(key.substr(0, slash + 1)))
            << key << " " << slash << " " << filters.front().pattern;
      }
    }
    for (const std::string& name : names) pruned += list.may_select_below(name + "/") ? 0 : 1;
  }
  EXPECT_GT(pruned, 100u);
}

TEST(Filter, PruningSavesListings) {
  EXPECT_FALSE(FilterList({{true, "/train/**"}}).may_select_below("other/"));
  EXPECT_TRUE(FilterList({{true, "/train/**"}}).may_select_below("train/"));
  EXPECT_TRUE(FilterList({{true, "/train/x/*"}}).may_select_below("train/"));
  EXPECT_FALSE(FilterList({{true, "/train/x/*"}}).may_select_below("train/y/"));
  EXPECT_FALSE(FilterList({{false, ".git"}}).may_select_below("a/.git/"));
  EXPECT_TRUE(FilterList({{true, "*.tar"}, {false, "*"}}).may_select_below("a/"));
}

}  // namespace

}  // namespace penstock::sync
