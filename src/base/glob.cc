#include "base/glob.h"

namespace penstock {

namespace {

std::bitset<256> all_but_slash() {
  std::bitset<256> bytes;
  bytes.set();
  bytes.reset('/');
  return bytes;
}

size_t index(char byte) {
  return static_cast<unsigned char>(byte);
}

}  // namespace

Glob::Glob(std::string_view pattern) {
  bool literal = true;
  size_t at = 0;
  while (at < pattern.size()) {
    const char byte = pattern[at];
    size_t length = 0;  // Of what has a meaning here.
    if (byte == '*') length = parse_stars(pattern, at);
    if (byte == '?') {
      tokens_.push_back({.bytes = all_but_slash()});
      length = 1;
    }
    if (byte == '[') length = parse_set(pattern, at);
    literal = literal && length == 0;
    if (length == 0) {
      if (byte == '\\' && at + 1 < pattern.size()) ++at;
      add_byte(pattern[at]);
      if (literal) literal_ += pattern[at];
      length = 1;
    }
    at += length;
  }
}

void Glob::add_byte(char byte) {
  Token token;
  token.bytes.set(index(byte));
  tokens_.push_back(token);
}

// The length of what was taken; 0: it was no such thing.
size_t Glob::parse_stars(std::string_view pattern, size_t at) {
  const std::string_view rest = pattern.substr(at);
  if (!rest.starts_with("**")) {
    tokens_.push_back({.kind = Kind::kStar});
    return 1;
  }
  if (rest.starts_with("**/") && (at == 0 || pattern[at - 1] == '/')) {
    tokens_.push_back({.kind = Kind::kFolders});
    tokens_.push_back({.kind = Kind::kInFolders});
    return 3;
  }
  tokens_.push_back({.kind = Kind::kStars});
  return 2;
}

size_t Glob::parse_set(std::string_view pattern, size_t at) {
  size_t next = at + 1;
  const bool inverted = next < pattern.size() && (pattern[next] == '!' || pattern[next] == '^');
  if (inverted) ++next;
  std::bitset<256> bytes;
  // A ']' that comes first is one of the characters.
  for (const size_t first = next; next < pattern.size(); ++next) {
    if (pattern[next] == ']' && next > first) {
      if (inverted) bytes.flip();
      bytes.reset('/');
      tokens_.push_back({.bytes = bytes});
      return next + 1 - at;
    }
    if (pattern[next] == '\\' && next + 1 < pattern.size()) ++next;
    const char from = pattern[next];
    const bool range =
        next + 2 < pattern.size() && pattern[next + 1] == '-' && pattern[next + 2] != ']';
    const char to = range ? pattern[next + 2] : from;
    if (range) next += 2;
    for (size_t byte = index(from); byte <= index(to); ++byte) bytes.set(byte);
  }
  return 0;
}

// All the places in a glob at which a matcher may be at once.
class Glob::Places {
 public:
  explicit Places(const std::vector<Token>& tokens) : tokens_(tokens), at_(tokens.size() + 1) {
    enter(0);
  }

  void step(char byte) {
    std::vector<bool> before(at_.size());
    before.swap(at_);
    const bool slash = byte == '/';
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (!before[i]) continue;
      switch (tokens_[i].kind) {
        case Kind::kByte:
          if (tokens_[i].bytes.test(index(byte))) enter(i + 1);
          break;
        case Kind::kStar:
          if (!slash) enter(i);
          break;
        case Kind::kStars:
          enter(i);
          break;
        case Kind::kFolders:
          enter(i + 1);
          if (slash) enter(i + 2);
          break;
        case Kind::kInFolders:
          enter(i);
          if (slash) enter(i + 1);
          break;
      }
    }
  }
  bool at_end() const { return at_.back(); }

 private:
  // What may match nothing is also left at once.
  void enter(size_t place) {
    while (true) {
      at_[place] = true;
      if (place == tokens_.size()) return;
      const Kind kind = tokens_[place].kind;
      if (kind == Kind::kFolders) {
        place += 2;
      } else if (kind == Kind::kStar || kind == Kind::kStars) {
        place += 1;
      } else {
        return;
      }
    }
  }

  const std::vector<Token>& tokens_;
  std::vector<bool> at_;
};

bool Glob::matches(std::string_view text) const {
  if (!text.starts_with(literal_)) return false;
  if (is_literal()) return text.size() == literal_.size();
  Places places(tokens_);
  for (const char byte : text) places.step(byte);
  return places.at_end();
}

std::string glob_escape(std::string_view text) {
  std::string escaped;
  for (const char byte : text) {
    if (std::string_view("*?[]{},\\").find(byte) != std::string_view::npos) escaped += '\\';
    escaped += byte;
  }
  return escaped;
}

}  // namespace penstock
