#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/result_matchers.h"
#include "penstock/decode.h"

namespace penstock::decode {
namespace {

std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
std::string message(uint64_t field, const std::string& payload) {
  return varint(field << 3 | 2) + varint(payload.size()) + payload;
}
std::string entry(const std::string& name, const std::string& feature) {
  return message(1, message(1, name) + message(2, feature));
}
std::string example(const std::string& entries) {
  return message(1, entries);
}
std::string float_bytes(float value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}
std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string sample() {
  return example(
      entry("image", message(1, message(1, "abc") + message(1, ""))) +
      entry("label", message(3, message(1, varint(5) + varint(~uint64_t{0})))) +
      entry("plain", message(3, varint(1 << 3) + varint(9) + varint(1 << 3) + varint(300))) +
      entry("weights", message(2, message(1, float_bytes(1.5f) + float_bytes(-2)))) +
      entry("weight", message(2, varint(1 << 3 | 5) + float_bytes(0.25f))) + entry("empty", "") +
      entry("twice", message(3, message(1, varint(1)))) +
      entry("twice", message(3, message(1, varint(2)))));
}

TEST(Example, ReadsEveryKindOfFeature) {
  const std::string bytes = sample();
  const auto read = [&](std::string_view name) {
    auto feature = read_example_feature(bytes_of(bytes), name);
    EXPECT_THAT(feature, IsOk()) << name;
    return feature ? *feature : ExampleFeature{};
  };
  const ExampleFeature image = read("image");
  EXPECT_EQ(image.kind, ExampleFeature::Kind::kBytes);
  ASSERT_EQ(image.bytes.size(), 2u);
  EXPECT_EQ(std::memcmp(image.bytes[0].data(), "abc", 3), 0);
  EXPECT_EQ(image.bytes[1].size(), 0u);
  EXPECT_EQ(read("label").kind, ExampleFeature::Kind::kInt64);
  EXPECT_EQ(read("label").ints, (std::vector<int64_t>{5, -1}));
  EXPECT_EQ(read("plain").ints, (std::vector<int64_t>{9, 300}));
  EXPECT_EQ(read("weights").kind, ExampleFeature::Kind::kFloat);
  EXPECT_EQ(read("weights").floats, (std::vector<float>{1.5f, -2}));
  EXPECT_EQ(read("weight").floats, std::vector<float>{0.25f});
  EXPECT_TRUE(read("empty").bytes.empty());
  EXPECT_EQ(read("twice").ints, std::vector<int64_t>{2});
  EXPECT_THAT(read_example_feature(bytes_of(bytes), "other"), FailsWith(ErrorCode::kNotFound));
  EXPECT_EQ(
      *example_feature_names(bytes_of(bytes)),
      (std::vector<std::string>{"empty", "image", "label", "plain", "twice", "weight", "weights"}));
}

TEST(Example, UnknownFieldsAreSkipped) {
  const std::string odd = varint(9 << 3) + varint(77) + varint(10 << 3 | 1) + "12345678" +
                          varint(11 << 3 | 5) + "1234" + message(12, "x");
  const std::string bytes =
      odd + example(odd + entry("label", odd + message(3, odd + message(1, varint(5)))));
  EXPECT_EQ(read_example_feature(bytes_of(bytes), "label")->ints, std::vector<int64_t>{5});
}

TEST(Example, WhatEndsEarlyIsCorrupt) {
  const std::string bytes = sample();
  for (size_t size = 1; size < bytes.size(); ++size) {
    EXPECT_FALSE(example_feature_names(bytes_of(bytes).first(size)).ok()) << size;
  }
  const std::string group = varint(1 << 3 | 3);
  EXPECT_THAT(example_feature_names(bytes_of(group)), FailsWith(ErrorCode::kCorrupt));
  const std::string endless(11, '\xff');
  EXPECT_THAT(example_feature_names(bytes_of(endless)), FailsWith(ErrorCode::kCorrupt));
  const std::string odd_floats = example(entry("f", message(2, message(1, "12345"))));
  EXPECT_THAT(read_example_feature(bytes_of(odd_floats), "f"), FailsWith(ErrorCode::kCorrupt));
  EXPECT_THAT(read_example_feature({}, "f"), FailsWith(ErrorCode::kNotFound));
}

}  // namespace
}  // namespace penstock::decode
