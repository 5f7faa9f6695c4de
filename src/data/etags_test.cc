#include "data/etags.h"

#include <gtest/gtest.h>

namespace penstock::data {
namespace {

TEST(Etags, GivesBackWhatItWasGiven) {
  const std::vector<std::string> all = {"d41d8cd98f00b204e9800998ecf8427e",
                                        "",
                                        "d41d8cd98f00b204e9800998ecf8427e-12",
                                        "ABCDEF",
                                        "abc",
                                        "hand",
                                        "00",
                                        "5f-18a2-77"};
  Etags etags;
  for (const std::string& one : all) etags.add(one);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(etags.at(i), all[i]);
  EXPECT_EQ(etags.at(all.size()), "");
}

TEST(Etags, ThoseOfS3AreSmall) {
  Etags etags;
  for (int i = 0; i < 100'000; ++i) etags.add("d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_LE(etags.memory_bytes(), 2 * 25U * 100'000);
}

}  // namespace
}  // namespace penstock::data
