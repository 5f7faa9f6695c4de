#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace penstock {
namespace {

using testing::EndsWith;
using testing::SizeIs;

class LogTest : public testing::Test {
 protected:
  LogTest() {
    set_log_sink([this](std::string_view line) { lines_.emplace_back(line); });
  }
  ~LogTest() override {
    set_log_sink({});
    set_log_level(LogLevel::kWarn);
  }
  std::vector<std::string> lines_;
};

TEST_F(LogTest, FieldsFollowTheSentence) {
  log_warn("disk is slow", {{"path", "/data"}, {"ms", 12}, {"note", "two words"}});
  ASSERT_THAT(lines_, SizeIs(1));
  EXPECT_THAT(lines_[0], EndsWith("Z warn disk is slow path=/data ms=12 note=\"two words\""));
}

TEST_F(LogTest, BelowTheLevelIsSilent) {
  log_info("not shown");
  EXPECT_THAT(lines_, SizeIs(0));
  set_log_level(LogLevel::kDebug);
  log_info("shown");
  EXPECT_THAT(lines_, SizeIs(1));
}

TEST_F(LogTest, OnceIsOnce) {
  for (int i = 0; i < 3; ++i) log_once(LogLevel::kWarn, "log_test.once", "said");
  EXPECT_THAT(lines_, SizeIs(1));
}

TEST_F(LogTest, ANewlineInAValueStaysOnTheLine) {
  log_error("bad name", {{"name", "a\nb"}});
  EXPECT_THAT(lines_[0], EndsWith("name=\"a\\nb\""));
}

TEST(JsonEscape, IsAlwaysValidUtf8) {
  EXPECT_EQ(json_escape("a\"b\\c\n\x01"), "a\\\"b\\\\c\\n\\u0001");
  EXPECT_EQ(json_escape("grün"), "grün");
  EXPECT_EQ(json_escape("\xFF"
                        "a"),
            "\xEF\xBF\xBD"
            "a");
  EXPECT_EQ(json_escape("\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Json, EscapesTheSameWhereverACharacterStands) {
  for (int c = 0; c < 256; ++c) {
    const std::string one(1, static_cast<char>(c));
    const std::string escaped = json_escape(one);
    for (size_t at = 0; at < 20; ++at) {
      const std::string before(at, 'a');
      const std::string after(19 - at, '~');
      EXPECT_EQ(json_escape(before + one + after), before + escaped + after) << c << " at " << at;
      EXPECT_EQ(is_utf8(before + one + after), c < 0x80) << c << " at " << at;
    }
  }
}

}  // namespace
}  // namespace penstock
