#include "store/list_page.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace penstock::store {
namespace {

using testing::ElementsAre;
using testing::Ge;
using testing::IsEmpty;

// With another size of window than usual, for as long as it lives.
class WindowSize {
 public:
  explicit WindowSize(size_t names) { name_window_max = names; }
  ~WindowSize() { name_window_max = kNameWindowMax; }
};

std::vector<std::string> take_all(NameWindow& window) {
  std::vector<std::string> names;
  while (std::optional<std::string> name = window.take()) names.push_back(*name);
  return names;
}

TEST(NameWindow, GivesNamesInOrderAndEachOnce) {
  NameWindow window;
  for (const char* name : {"b", "a", "c", "a", "B", "b", "\xff", ""}) window.add(name);
  EXPECT_FALSE(window.empty());
  EXPECT_THAT(take_all(window), ElementsAre("", "B", "a", "b", "c", "\xff"));
  EXPECT_TRUE(window.empty());
  EXPECT_EQ(window.complete_up_to(), std::nullopt);
  EXPECT_EQ(window.take(), std::nullopt);
}

TEST(NameWindow, TakesNamesThatComeLate) {
  NameWindow window;
  for (const char* name : {"b", "d", "f"}) window.add(name);
  EXPECT_EQ(window.take(), "b");
  for (const char* name : {"e", "c", "d", "e", "g"}) window.add(name);
  EXPECT_THAT(take_all(window), ElementsAre("c", "d", "e", "f", "g"));
  window.add("h");
  EXPECT_FALSE(window.empty());
  EXPECT_EQ(window.take(), "h");
}

// All names by going through them again and again, as a listing does.
TEST(NameWindow, DropsTheLargestAndTellsFromWhereOn) {
  WindowSize small(10);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    std::set<std::string> expected;
    std::vector<std::string> given;
    while (expected.size() < 95) {
      given.push_back(fmt::format("{}", random() % 1000));
      expected.insert(given.back());
    }
    std::vector<std::string> seen;
    std::optional<std::string> after = "";
    for (int rounds = 0; after; ++rounds) {
      ASSERT_LT(rounds, 12) << "seed " << seed;
      NameWindow window;
      for (const std::string& name : given) {
        if (name > *after) window.add(name);
      }
      const std::vector<std::string> some = take_all(window);
      after = window.complete_up_to();
      if (after) {
        EXPECT_EQ(some.size(), 10u);
        EXPECT_EQ(some.back(), *after);
      }
      seen.insert(seen.end(), some.begin(), some.end());
    }
    EXPECT_EQ(seen, std::vector<std::string>(expected.begin(), expected.end())) << "seed " << seed;
  }
}

TEST(NameWindow, DropsAlsoWhenNamesComeLate) {
  WindowSize small(10);
  NameWindow window;
  for (int i = 0; i < 10; ++i) window.add(fmt::format("{:03}", 10 * i));
  EXPECT_EQ(window.take(), "000");
  for (int i = 1; i < 100; ++i) window.add(fmt::format("{:03}", i));
  const std::vector<std::string> names = take_all(window);
  ASSERT_THAT(names.size(), Ge(10u));
  ASSERT_TRUE(window.complete_up_to().has_value());
  EXPECT_EQ(names.back(), *window.complete_up_to());
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(names[i], fmt::format("{:03}", i + 1));
}

TEST(NameWindow, ManyOfOneNameCrowdNobodyOut) {
  WindowSize small(10);
  NameWindow window;
  for (int i = 0; i < 1000; ++i) {
    for (const char* name : {"a/", "b/", "c/"}) window.add(name);
  }
  EXPECT_THAT(take_all(window), ElementsAre("a/", "b/", "c/"));
  EXPECT_EQ(window.complete_up_to(), std::nullopt);
}

TEST(NameWindow, MemoryIsBoundedForLongNamesToo) {
  NameWindow window;
  for (int i = 0; i < 100'000; ++i) window.add(fmt::format("{:06}", i) + std::string(1000, 'x'));
  EXPECT_LT(window.memory_bytes(), 48 * kMiB);
  EXPECT_TRUE(window.take()->starts_with("000000"));
  EXPECT_LT(window.memory_bytes(), 24 * kMiB);
  EXPECT_THAT(take_all(window).size(), Ge(1000u));
  EXPECT_TRUE(window.complete_up_to().has_value());
}

}  // namespace
}  // namespace penstock::store
