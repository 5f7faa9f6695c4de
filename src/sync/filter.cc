#include "sync/filter.h"

#include <fmt/core.h>

#include <algorithm>

namespace penstock::sync {

namespace {

struct Token {
  enum class Kind : uint8_t {
    kByte,       // That byte.
    kAny,        // '?'
    kStar,       // '*'
    kStars,      // "**"
    kFolders,    // "**/": none, or what kInFolders goes on with.
    kInFolders,  // Inside of some folders; ends after a '/'.
  };
  Kind kind = Kind::kByte;
  char byte = 0;
};

std::vector<Token> parse_glob(std::string_view glob) {
  using Kind = Token::Kind;
  std::vector<Token> tokens;
  for (size_t i = 0; i < glob.size(); ++i) {
    if (glob[i] == '?') {
      tokens.push_back({Kind::kAny});
    } else if (!glob.substr(i).starts_with("**")) {
      tokens.push_back({glob[i] == '*' ? Kind::kStar : Kind::kByte, glob[i]});
    } else if (glob.substr(i).starts_with("**/") && (i == 0 || glob[i - 1] == '/')) {
      tokens.push_back({Kind::kFolders});
      tokens.push_back({Kind::kInFolders});
      i += 2;
    } else {
      tokens.push_back({Kind::kStars});
      i += 1;
    }
  }
  return tokens;
}

// All the places in a glob at which a matcher may be at once.
class Places {
 public:
  explicit Places(const std::vector<Token>& tokens) : tokens_(tokens), at_(tokens.size() + 1) {
    enter(0);
  }

  void step(char byte) {
    using Kind = Token::Kind;
    std::vector<bool> before(at_.size());
    before.swap(at_);
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (!before[i]) continue;
      const Kind kind = tokens_[i].kind;
      const bool slash = byte == '/';
      if (kind == Kind::kByte && tokens_[i].byte == byte) enter(i + 1);
      if (kind == Kind::kAny && !slash) enter(i + 1);
      if (kind == Kind::kStar && !slash) enter(i);
      if (kind == Kind::kStars || kind == Kind::kInFolders) enter(i);
      if (kind == Kind::kInFolders && slash) enter(i + 1);
      if (kind == Kind::kFolders) enter(i + 1);
      if (kind == Kind::kFolders && slash) enter(i + 2);
    }
  }
  bool at_end() const { return at_.back(); }

 private:
  // What may match nothing is also left at once.
  void enter(size_t place) {
    using Kind = Token::Kind;
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

std::string_view last_part(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0.
}

// The first part of `path`, which loses it.
std::string_view take_part(std::string_view& path) {
  const size_t slash = std::min(path.find('/'), path.size());
  const std::string_view part = path.substr(0, slash);
  path.remove_prefix(std::min(slash + 1, path.size()));
  return part;
}

}  // namespace

bool glob_matches(std::string_view glob, std::string_view text) {
  const std::vector<Token> tokens = parse_glob(glob);
  Places places(tokens);
  for (const char byte : text) places.step(byte);
  return places.at_end();
}

bool FilterList::Pattern::matches_name(std::string_view path) const {
  return glob_matches(glob, from_top ? path : last_part(path));
}

bool FilterList::Pattern::matches(std::string_view key) const {
  for (size_t slash = key.find('/'); slash != std::string_view::npos;
       slash = key.find('/', slash + 1)) {
    if (matches_name(key.substr(0, slash))) return true;
  }
  return !folders_only && !key.ends_with('/') && matches_name(key);
}

bool FilterList::Pattern::may_match_below(std::string_view folder) const {
  if (!from_top) return true;
  std::string_view pattern = glob;
  folder.remove_suffix(1);
  while (!pattern.empty() && !folder.empty()) {
    const std::string_view part = take_part(pattern);
    if (part.find("**") != std::string_view::npos) return true;
    if (!glob_matches(part, take_part(folder))) return false;
  }
  return true;
}

FilterList::FilterList(const std::vector<Filter>& filters) {
  for (const Filter& filter : filters) {
    Pattern pattern;
    pattern.include = filter.include;
    std::string_view glob = filter.pattern;
    pattern.folders_only = glob.ends_with('/');
    if (pattern.folders_only) glob.remove_suffix(1);
    pattern.from_top = glob.find('/') != std::string_view::npos;
    if (glob.starts_with('/')) glob.remove_prefix(1);
    pattern.glob = glob;
    patterns_.push_back(std::move(pattern));
  }
}

bool FilterList::selects(std::string_view key) const {
  for (const Pattern& pattern : patterns_) {
    if (pattern.matches(key)) return pattern.include;
  }
  return otherwise();
}

bool FilterList::may_select_below(std::string_view folder) const {
  for (const Pattern& pattern : patterns_) {
    if (pattern.matches(folder)) return pattern.include;
    if (pattern.include && pattern.may_match_below(folder)) return true;
  }
  return otherwise();
}

Result<void> check_filter(const Filter& filter) {
  const auto refuse = [&](std::string_view why) {
    return make_error(ErrorCode::kInvalid, fmt::format("the filter '{}' {}", filter.pattern, why));
  };
  std::string_view glob = filter.pattern;
  if (glob.starts_with('/')) glob.remove_prefix(1);
  if (glob.ends_with('/')) glob.remove_suffix(1);
  if (glob.empty()) return refuse("names nothing: expected a pattern such as *.tar or train/**");
  if (glob.find('\0') != std::string_view::npos) return refuse("has a NUL byte, which no name has");
  while (!glob.empty()) {
    const std::string_view part = take_part(glob);
    if (part.empty()) return refuse("has an empty part, which no name has");
    if (part == "." || part == "..") return refuse("has a part '.' or '..', which no name has");
  }
  return {};
}

bool selected(const std::vector<Filter>& filters, const std::string& key) {
  return FilterList(filters).selects(key);
}

}  // namespace penstock::sync
