#include "base/glob.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

bool matches(std::string_view pattern, std::string_view text) {
  return Glob(pattern).matches(text);
}

TEST(Glob, StarAndQuestionMarkStayInOneFolder) {
  EXPECT_TRUE(matches("train-*.tar", "train-000.tar"));
  EXPECT_TRUE(matches("train-*.tar", "train-.tar"));
  EXPECT_FALSE(matches("train-*.tar", "train-0/0.tar"));
  EXPECT_FALSE(matches("train-*.tar", "train-0.tar.gz"));
  EXPECT_FALSE(matches("train-*.tar", "a-train-0.tar"));
  EXPECT_TRUE(matches("a?c", "abc"));
  EXPECT_FALSE(matches("a?c", "a/c"));
  EXPECT_FALSE(matches("a?c", "ac"));
  EXPECT_TRUE(matches("*", "x"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_FALSE(matches("", "x"));
}

TEST(Glob, TwoStarsCrossFolders) {
  EXPECT_TRUE(matches("a/**", "a/b/c"));
  EXPECT_FALSE(matches("a/**", "a"));
  EXPECT_TRUE(matches("**/x", "x"));
  EXPECT_TRUE(matches("**/x", "a/b/x"));
  EXPECT_FALSE(matches("**/x", "ax"));
  EXPECT_TRUE(matches("a/**/x", "a/x"));
  EXPECT_TRUE(matches("a/**/x", "a/b/c/x"));
  EXPECT_FALSE(matches("a/**/x", "ax"));
  EXPECT_TRUE(matches("a**z", "a/b/z"));
}

TEST(Glob, Sets) {
  EXPECT_TRUE(matches("s[0-3].tar", "s2.tar"));
  EXPECT_FALSE(matches("s[0-3].tar", "s4.tar"));
  EXPECT_TRUE(matches("s[!0-3]", "s4"));
  EXPECT_TRUE(matches("s[^0-3]", "s4"));
  EXPECT_FALSE(matches("s[!0-3]", "s/"));
  EXPECT_FALSE(matches("s[!0-3]", "s0"));
  EXPECT_TRUE(matches("[]x]", "]"));
  EXPECT_TRUE(matches("[a-]", "-"));
  EXPECT_TRUE(matches("[\\]]", "]"));
  EXPECT_TRUE(matches("a[b", "a[b"));  // Not closed: a character like any other.
  EXPECT_FALSE(matches("[z-a]", "m"));
}

TEST(Glob, EscapesAndLiterals) {
  EXPECT_TRUE(matches("a\\*b", "a*b"));
  EXPECT_FALSE(matches("a\\*b", "axb"));
  EXPECT_TRUE(matches("a\\", "a\\"));
  EXPECT_TRUE(Glob("a\\*b[").is_literal());
  EXPECT_EQ(Glob("a\\*b[").literal(), "a*b[");
  EXPECT_FALSE(Glob("dir/part-?").is_literal());
  EXPECT_EQ(Glob("dir/part-?x").literal(), "dir/part-");
  for (const std::string_view text : {"a*b", "[x]", "{a,b}", "\\", "plain", "{0..9}"}) {
    EXPECT_TRUE(Glob(glob_escape(text)).is_literal()) << text;
    EXPECT_TRUE(matches(glob_escape(text), text)) << text;
    EXPECT_THAT(*expand_braces(glob_escape(text), 10), ElementsAre(glob_escape(text)));
  }
}

TEST(Glob, ManyStarsTakeNoLongerThanTheProductOfTheSizes) {
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += "*a";
  EXPECT_FALSE(matches(pattern + "b", std::string(2000, 'a')));
}

// Against the plainest matcher there is.
bool matches_slowly(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') {
    if (matches_slowly(pattern.substr(1), text)) return true;
    return !text.empty() && text[0] != '/' && matches_slowly(pattern, text.substr(1));
  }
  if (text.empty() || (pattern[0] == '?' ? text[0] == '/' : text[0] != pattern[0])) return false;
  return matches_slowly(pattern.substr(1), text.substr(1));
}

TEST(Glob, AgreesWithAPlainMatcher) {
  std::mt19937 random(20240611);
  const auto draw = [&](std::string_view letters, size_t length) {
    std::string text;
    for (size_t i = random() % length; i > 0; --i) text += letters[random() % letters.size()];
    return text;
  };
  int matched = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string pattern = draw("ab/*?", 6);
    if (pattern.find("**") != std::string::npos) continue;
    const std::string text = draw("ab/", 6);
    ASSERT_EQ(matches(pattern, text), matches_slowly(pattern, text)) << pattern << " " << text;
    matched += matches(pattern, text) ? 1 : 0;
  }
  EXPECT_GT(matched, 500);
}

std::vector<std::string> expanded(std::string_view pattern) {
  const Result<std::vector<std::string>> words = expand_braces(pattern, 1000);
  EXPECT_TRUE(words.ok()) << pattern;
  return words.ok() ? *words : std::vector<std::string>();
}

TEST(Braces, ListsAndRanges) {
  EXPECT_THAT(expanded("a{b,c}d"), ElementsAre("abd", "acd"));
  EXPECT_THAT(expanded("{a,b}{1,2}"), ElementsAre("a1", "a2", "b1", "b2"));
  EXPECT_THAT(expanded("{a,}x"), ElementsAre("ax", "x"));
  EXPECT_THAT(expanded("{a,b{c,d}}"), ElementsAre("a", "bc", "bd"));
  EXPECT_THAT(expanded("s-{008..011}.tar"),
              ElementsAre("s-008.tar", "s-009.tar", "s-010.tar", "s-011.tar"));
  EXPECT_THAT(expanded("{9..11}"), ElementsAre("9", "10", "11"));
  EXPECT_THAT(expanded("{2..0}"), ElementsAre("2", "1", "0"));
  EXPECT_THAT(expanded("{x,{1..2}}"), ElementsAre("x", "1", "2"));
  EXPECT_THAT(expanded("{000..999}"), SizeIs(1000));
  EXPECT_THAT(expanded("{7..7}"), ElementsAre("7"));
}

TEST(Braces, WhatIsNoListStaysAsItIs) {
  for (const char* text :
       {"plain", "{x}", "{", "a}", "{a,b", "\\{a,b\\}", "{a..z}", "{1..}", "{-1..2}", "", "{}"}) {
    EXPECT_THAT(expanded(text), ElementsAre(text));
  }
  EXPECT_THAT(expanded("{x}{a,b}"), ElementsAre("{x}a", "{x}b"));
  EXPECT_THAT(expanded("{{a,b}"), ElementsAre("{a", "{b"));
  EXPECT_THAT(expanded("{a\\,b,c}"), ElementsAre("a\\,b", "c"));
}

TEST(Braces, TooManyAreRefused) {
  for (const char* text :
       {"{0..1000}", "{0..99999999999999999}", "{0..99}{0..99}", "{0..18446744073709551615}"}) {
    EXPECT_EQ(expand_braces(text, 1000).error().code, ErrorCode::kInvalid) << text;
  }
  std::string deep;
  for (int i = 0; i < 800; ++i) deep += "{a,b}";
  EXPECT_EQ(expand_braces(deep, 1000).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(expand_braces(std::string(5000, 'x'), 1000).error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace penstock
