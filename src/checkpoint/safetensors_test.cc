#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/result_matchers.h"

namespace penstock::checkpoint {
namespace {

TEST(Safetensors, SizesOfTensors) {
  EXPECT_EQ(*tensor_bytes("F32", std::vector<uint64_t>{3, 5}), 60u);
  EXPECT_EQ(*tensor_bytes("BF16", std::vector<uint64_t>{}), 2u);
  EXPECT_EQ(*tensor_bytes("F64", std::vector<uint64_t>{1u << 20, 0, ~uint64_t{0}}), 0u);
  EXPECT_EQ(*tensor_bytes("F4", std::vector<uint64_t>{4}), 2u);
  EXPECT_FALSE(tensor_bytes("F4", std::vector<uint64_t>{3}).ok());
  EXPECT_FALSE(tensor_bytes("F31", std::vector<uint64_t>{3}).ok());
  EXPECT_FALSE(tensor_bytes("U8", std::vector<uint64_t>{~uint64_t{0}, 2}).ok());
}

TEST(Safetensors, HeadersAreReadAsTheyWereMade) {
  const std::vector<HeaderTensor> tensors = {
      {"a", "F32", {2, 3}, 0, 24}, {"empty", "I8", {0}, 24, 24}, {"b\"\n\u00e4", "U8", {}, 24, 25}};
  const std::string header = make_header(tensors, {{"format", "pt"}});
  EXPECT_EQ(header.size() % kDataAlignment, 0u);
  uint64_t length;
  std::memcpy(&length, header.data(), sizeof length);
  ASSERT_EQ(length + sizeof length, header.size());
  const Result<Header> read = parse_header(std::string_view(header).substr(8), header.size() + 25);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->data_start, header.size());
  EXPECT_EQ(read->metadata.at("format"), "pt");
  ASSERT_EQ(read->tensors.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read->tensors[i].name, tensors[i].name);
    EXPECT_EQ(read->tensors[i].shape, tensors[i].shape);
    EXPECT_EQ(read->tensors[i].begin, tensors[i].begin);
  }
}

TEST(Safetensors, WhatTheFormatForbidsIsRefused) {
  const auto refused = [](std::string json, uint64_t data_bytes) {
    const Result<Header> read = parse_header(json, 8 + json.size() + data_bytes);
    return !read.ok() && read.error().code == ErrorCode::kCorrupt;
  };
  const std::string whole = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  EXPECT_FALSE(refused(whole, 2));
  EXPECT_TRUE(refused(whole, 1));
  EXPECT_TRUE(refused(whole, 3));
  EXPECT_TRUE(refused(" " + whole, 2));
  EXPECT_TRUE(refused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", 3));
  EXPECT_TRUE(refused(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,2]}})", 2));
  EXPECT_TRUE(refused(R"({"a":{"dtype":"U9","shape":[2],"data_offsets":[0,2]}})", 2));
  EXPECT_TRUE(refused(R"({"a":{"dtype":"U8","shape":[-2],"data_offsets":[0,2]}})", 2));
  EXPECT_TRUE(refused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2,3]}})", 2));
  EXPECT_TRUE(refused(R"({"a":{"dtype":"U8","shape":[2]}})", 2));
  EXPECT_TRUE(refused(R"({"__metadata__":{"x":1}})", 0));
  EXPECT_TRUE(refused("[]", 0));
  EXPECT_TRUE(refused("", 0));
}

}  // namespace
}  // namespace penstock::checkpoint
