#include "base/append_number.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace penstock {
namespace {

TEST(AppendNumber, WritesWhatThereIs) {
  std::string text = "x";
  append_number(text, 0);
  append_number(text, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(text, "x018446744073709551615");
}

TEST(AppendNumber, SeparatesSeveral) {
  std::string text;
  append_numbers(text, {});
  EXPECT_EQ(text, "");
  append_numbers(text, std::vector<uint64_t>{7});
  append_numbers(text, std::vector<uint64_t>{1, 20, 300});
  EXPECT_EQ(text, "71,20,300");
}

TEST(AppendNumber, WritesAllDigitsInHex) {
  std::string text;
  append_hex(text, 0xabc);
  append_hex(text, 0xfedcba9876543210U);
  EXPECT_EQ(text, "0000000000000abcfedcba9876543210");
}

}  // namespace
}  // namespace penstock
