#include "data/sample_names.h"

#include <gtest/gtest.h>

#include <random>
#include <regex>

namespace penstock::data {
namespace {

TEST(SampleNames, SplitsAtTheFirstDotOfTheLastPart) {
  struct Case {
    const char* name;
    const char* key;  // Null: belongs to no sample.
    const char* extension;
  };
  for (const Case& c :
       {Case{"a.jpg", "a", "jpg"}, Case{"a.v1/b.seg.png", "a.v1/b", "seg.png"},
        Case{"./x.JPG", "./x", "JPG"}, Case{"a.", "a", ""}, Case{"noext", nullptr, ""},
        Case{".h.jpg", nullptr, ""}, Case{"d.1/noext", nullptr, ""}, Case{"dir/.x", "dir/", "x"},
        Case{"d.1/.x", nullptr, ""}, Case{"a/b/.x.y", "a/b/", "x.y"}, Case{"", nullptr, ""},
        Case{"/.x", "/", "x"}, Case{"..", nullptr, ""}}) {
    const auto split = split_name(c.name);
    ASSERT_EQ(split.has_value(), c.key != nullptr) << c.name;
    if (!split) continue;
    EXPECT_EQ(split->key, c.key) << c.name;
    EXPECT_EQ(split->extension, c.extension) << c.name;
  }
}

TEST(SampleNames, AgreesWithTheRegularExpressionOfWebDataset) {
  const std::regex rule("^((?:.*/|)[^.]+)[.]([^/]*)$");
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string name;
    for (uint64_t left = random() % 9; left > 0; --left) name += "ab./_"[random() % 5];
    std::smatch match;
    const bool matches = std::regex_match(name, match, rule);
    const auto split = split_name(name);
    ASSERT_EQ(split.has_value(), matches) << "'" << name << "'";
    if (!matches) continue;
    ASSERT_EQ(split->key, match[1].str()) << "'" << name << "'";
    ASSERT_EQ(split->extension, match[2].str()) << "'" << name << "'";
  }
}

TEST(SampleNames, MetadataIsToldByTheFirstPart) {
  const std::regex rule("__[^/]*__($|/)");
  std::mt19937_64 random(2);
  for (int i = 0; i < 20'000; ++i) {
    std::string name;
    for (uint64_t left = random() % 9; left > 0; --left) name += "a_/_"[random() % 4];
    const bool matches = std::regex_search(name, rule, std::regex_constants::match_continuous);
    ASSERT_EQ(is_metadata_name(name), matches) << "'" << name << "'";
  }
}

TEST(SampleNames, ImagesAreThoseOfImageFolder) {
  for (const char* name : {"a.jpg", "a.JPEG", "x/y.Png", ".webp", "a.b.tif"})
    EXPECT_TRUE(is_image_name(name)) << name;
  for (const char* name : {"a.gif", "jpg", "a.jpg.txt", ""}) EXPECT_FALSE(is_image_name(name));
}

}  // namespace
}  // namespace penstock::data
