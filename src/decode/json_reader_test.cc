#include <gtest/gtest.h>

#include <string>

#include "base/result_matchers.h"
#include "penstock/decode.h"

namespace penstock::decode {
namespace {

std::span<const std::byte> json_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

constexpr std::string_view kDocument = R"({
  "cls": 7, "text": "a\u00e9\n", "ratio": 0.25, "yes": true, "none": null, "as_text": " 12 ",
  "three": 3.0, "big": 18446744073709551615, "a": {"b": [10, 20, {"c": -5}], "x.y": 1, "p/q": 2, "t~u": 3},
  "twice": 1, "twice": 2})";

TEST(JsonReader, FindsIntegers) {
  JsonReader reader;
  const auto read = [&](std::string_view path) {
    return reader.read_int(json_bytes(kDocument), path);
  };
  EXPECT_EQ(*read("cls"), 7);
  EXPECT_EQ(*read("as_text"), 12);
  EXPECT_EQ(*read("three"), 3);
  EXPECT_EQ(*read("yes"), 1);
  EXPECT_EQ(*read("a.b.1"), 20);
  EXPECT_EQ(*read("a.b.2.c"), -5);
  EXPECT_EQ(*read("/a/b/2/c"), -5);
  EXPECT_EQ(*read("/a/x.y"), 1);
  EXPECT_EQ(*read("/a/p~1q"), 2);
  EXPECT_EQ(*read("/a/t~0u"), 3);
  EXPECT_EQ(*read("twice"), 2);
  for (const char* path :
       {"nothing", "a.nothing", "a.b.3", "a.b.-1", "a.b.x", "cls.0", "a.x.y", ".", "a."}) {
    EXPECT_THAT(read(path), FailsWith(ErrorCode::kNotFound)) << path;
  }
  for (const char* path : {"text", "ratio", "none", "a", "a.b", "big", ""}) {
    EXPECT_THAT(read(path), FailsWith(ErrorCode::kInvalid)) << path;
  }
}

TEST(JsonReader, FindsNumbersAndTexts) {
  JsonReader reader;
  EXPECT_EQ(*reader.read_float(json_bytes(kDocument), "ratio"), 0.25);
  EXPECT_EQ(*reader.read_float(json_bytes(kDocument), "cls"), 7);
  EXPECT_EQ(*reader.read_float(json_bytes(kDocument), "big"), 18446744073709551615.0);
  EXPECT_THAT(reader.read_float(json_bytes(kDocument), "text"), FailsWith(ErrorCode::kInvalid));
  EXPECT_EQ(*reader.read_text(json_bytes(kDocument), "text"), "a\xc3\xa9\n");
  EXPECT_THAT(reader.read_text(json_bytes(kDocument), "cls"), FailsWith(ErrorCode::kInvalid));
  EXPECT_EQ(*reader.read_int(json_bytes("5"), ""), 5);
}

TEST(JsonReader, SaysWhatIsNoJson) {
  JsonReader reader;
  for (const char* bad :
       {"", " ", "{", "{\"a\":}", "{a: 1}", "[1,]", "nul", "{} {}", "\"\xff\"", "01"}) {
    EXPECT_THAT(reader.check(json_bytes(bad)), FailsWith(ErrorCode::kCorrupt)) << bad;
    EXPECT_THAT(reader.read_int(json_bytes(bad), "a"), FailsWith(ErrorCode::kCorrupt)) << bad;
  }
  EXPECT_THAT(reader.check(json_bytes(std::string(100000, '['))), FailsWith(ErrorCode::kCorrupt));
  EXPECT_THAT(reader.check(json_bytes(kDocument)), IsOk());
  EXPECT_THAT(reader.check(json_bytes("[]")), IsOk()) << "after longer ones";
}

}  // namespace
}  // namespace penstock::decode
