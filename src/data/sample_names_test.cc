#include "data/sample_names.h"

#include <gtest/gtest.h>
#include <regex.h>

#include <array>
#include <random>
#include <string>
#include <vector>

namespace penstock::data {
namespace {

// The C library's: another reading of the same rules.
class Regex {
 public:
  explicit Regex(const char* pattern) { EXPECT_EQ(regcomp(&rule_, pattern, REG_EXTENDED), 0); }
  ~Regex() { regfree(&rule_); }

  // The match and its groups; nothing when there is none.
  std::vector<std::string> match(const std::string& text) const {
    std::array<regmatch_t, 4> groups{};
    if (regexec(&rule_, text.c_str(), groups.size(), groups.data(), 0) != 0) return {};
    std::vector<std::string> found;
    for (const regmatch_t& group : groups) {
      const bool there = group.rm_so >= 0;
      found.push_back(there ? text.substr(static_cast<size_t>(group.rm_so),
                                          static_cast<size_t>(group.rm_eo - group.rm_so))
                            : std::string());
    }
    return found;
  }

 private:
  regex_t rule_{};
};

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
  const Regex rule("^((.*/)?[^.]+)[.]([^/]*)$");
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string name;
    for (uint64_t left = random() % 9; left > 0; --left) name += "ab./_"[random() % 5];
    const std::vector<std::string> match = rule.match(name);
    const bool matches = !match.empty();
    const auto split = split_name(name);
    ASSERT_EQ(split.has_value(), matches) << "'" << name << "'";
    if (!matches) continue;
    ASSERT_EQ(split->key, match[1]) << "'" << name << "'";
    ASSERT_EQ(split->extension, match[3]) << "'" << name << "'";
  }
}

TEST(SampleNames, MetadataIsToldByTheFirstPart) {
  const Regex rule("^__[^/]*__($|/)");
  std::mt19937_64 random(2);
  for (int i = 0; i < 20'000; ++i) {
    std::string name;
    for (uint64_t left = random() % 9; left > 0; --left) name += "a_/_"[random() % 4];
    const bool matches = !rule.match(name).empty();
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
