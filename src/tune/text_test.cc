#include "tune/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>

namespace penstock::tune::doctor {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// What a shell makes of `word` after quoting.
std::string through_bash(const std::string& word) {
  const std::string script = "printf '%s.' " + shell_quote(word);
  const std::string command = "bash -c " + shell_quote(script);
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string output;
  std::array<char, 256> block;
  while (const size_t n = std::fread(block.data(), 1, block.size(), pipe))
    output.append(block.data(), n);
  ::pclose(pipe);
  return output;
}

TEST(Text, SplitsAndTrims) {
  EXPECT_EQ(trim(" \n a b\t\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
  EXPECT_EQ(trim(std::string_view("model\0\0", 7)), "model");
  EXPECT_THAT(split_words("  a  bc\td\n"), ElementsAre("a", "bc", "d"));
  EXPECT_THAT(split_words(" \n"), IsEmpty());
  EXPECT_THAT(split("a,,b", ','), ElementsAre("a", "", "b"));
  EXPECT_THAT(split("", ','), ElementsAre(""));
}

TEST(Text, NumbersAreWholeOrNothing) {
  EXPECT_EQ(parse_u64("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(parse_i64("-1"), -1);
  for (const char* text : {"", " 1", "1 ", "1x", "-1", "+1", "18446744073709551616", "max", "0x1"})
    EXPECT_EQ(parse_u64(text), std::nullopt) << text;
}

TEST(Text, AShellReadsBackTheSameBytes) {
  EXPECT_EQ(shell_quote("/data/x-1.tar"), "/data/x-1.tar");
  for (const std::string word :
       {"", "a b", "it's", "$(touch /tmp/x)", "`id`", "a\nb", "tab\t'quote'\\", "\x1b[31m", "*",
        "!x", "~root", "a;b", "d\xc3\xa9j\xc3\xa0", "\\n", "#x"})
    EXPECT_EQ(through_bash(word), word + ".") << shell_quote(word);
}

TEST(Text, QuotedWordsAndPrintableTextStayOnOneLine) {
  for (const std::string word : {"a\nrm -rf /", "\r\n", "x\x7f"}) {
    EXPECT_EQ(shell_quote(word).find_first_of("\n\r\x7f"), std::string::npos);
    EXPECT_EQ(printable(word).find_first_of("\n\r\x7f"), std::string::npos);
  }
  EXPECT_EQ(printable("a\nb"), "a\\x0ab");
}

TEST(Text, OctalEscapesOfMountTables) {
  EXPECT_EQ(octal_unescape("/my\\040data\\011\\134x"), "/my data\t\\x");
  EXPECT_EQ(octal_unescape("\\04"), "\\04");
  EXPECT_EQ(octal_unescape("\\999\\400\\"), "\\999\\400\\");
  EXPECT_EQ(octal_escape("/my data\n#"), "/my\\040data\\012\\043");
  for (const std::string text : {"plain", "a b\\c\td\n", "\\040"})
    EXPECT_EQ(octal_unescape(octal_escape(text)), text);
}

TEST(Text, TemplatesFillKnownNamesOnly) {
  EXPECT_EQ(fill_template("{a} ATTR{queue/x} {b}{", {{"a", "1"}, {"b", "{a}"}}),
            "1 ATTR{queue/x} {a}{");
}

}  // namespace
}  // namespace penstock::tune::doctor
