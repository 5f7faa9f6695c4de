// Patterns for names, as shells have them: '*' and '?' match no '/', "**" anything, and "**/" at the
// beginning or after a '/' any number of folders, or none; "[a-z]" and "[!0-9]" one character;
// "{a,b}" and "{000..999}" stand for several patterns. A backslash takes the meaning from what
// follows it, and a '[' or '{' that is not closed has none.
// Threads: all functions are pure; a Glob may be used from any thread.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/result.h"

namespace penstock {

class Glob {
 public:
  // Braces are characters like any other here: see expand_braces.
  explicit Glob(std::string_view pattern);

  // All of `text`, in time at most the product of the sizes.
  bool matches(std::string_view text) const;
  // Only one text matches: literal().
  bool is_literal() const { return literal_.size() == tokens_.size(); }
  // What every match begins with.
  const std::string& literal() const { return literal_; }

 private:
  enum class Kind : uint8_t {
    kByte,       // One of `bytes`.
    kStar,       // "*"
    kStars,      // "**"
    kFolders,    // "**/": nothing, or what kInFolders goes on with.
    kInFolders,  // Inside of some folders; ends after a '/'.
  };
  struct Token {
    Kind kind = Kind::kByte;
    std::bitset<256> bytes = {};
  };
  class Places;

  size_t parse_stars(std::string_view pattern, size_t at);
  size_t parse_set(std::string_view pattern, size_t at);
  void add_byte(char byte);

  std::vector<Token> tokens_;
  std::string literal_;
};

// The patterns that the braces of `pattern` stand for, in order: "{a,b}", which may be nested, and
// "{9..11}", all with as many digits when one end begins with a 0. Escapes stay as they are. Braces
// without a comma or a range, "{x}", stand for themselves. kInvalid when it would be more than
// `limit` patterns.
Result<std::vector<std::string>> expand_braces(std::string_view pattern, size_t limit);

// `text` as a pattern that matches it alone.
std::string glob_escape(std::string_view text);

}  // namespace penstock
