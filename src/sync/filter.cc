#include "sync/filter.h"

#include <fmt/core.h>

#include <algorithm>

namespace penstock::sync {

namespace {

// Brackets and backslashes are parts of names here, which people type as they are.
Glob glob_of(std::string_view pattern) {
  std::string escaped;
  for (const char byte : pattern) {
    if (byte == '[' || byte == '\\') escaped += '\\';
    escaped += byte;
  }
  return Glob(escaped);
}

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

bool FilterList::Pattern::matches_name(std::string_view path) const {
  return glob.matches(from_top ? path : last_part(path));
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
  folder.remove_suffix(1);
  for (const Glob& part : front) {
    if (folder.empty()) return true;
    if (!part.matches(take_part(folder))) return false;
  }
  return true;
}

FilterList::FilterList(const std::vector<Filter>& filters) {
  for (const Filter& filter : filters) {
    std::string_view text = filter.pattern;
    const bool folders_only = text.ends_with('/');
    if (folders_only) text.remove_suffix(1);
    const bool from_top = text.find('/') != std::string_view::npos;
    if (text.starts_with('/')) text.remove_prefix(1);
    Pattern pattern{filter.include, folders_only, from_top, glob_of(text), {}};
    while (!text.empty()) {
      const std::string_view part = take_part(text);
      if (part.find("**") != std::string_view::npos) break;
      pattern.front.push_back(glob_of(part));
    }
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
