#include "data/sample_names.h"

#include <algorithm>
#include <array>

namespace penstock::data {

namespace {

constexpr size_t kNone = std::string_view::npos;

constexpr std::array<std::string_view, 9> kImageExtensions = {
    ".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"};

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool ends_with_ignoring_case(std::string_view text, std::string_view end) {
  return text.size() >= end.size() &&
         std::equal(end.begin(), end.end(), text.end() - static_cast<ptrdiff_t>(end.size()),
                    [](char a, char b) { return a == lower(b); });
}

}  // namespace

// The rule is the regular expression ^((?:.*/|)[^.]+)[.]([^/]*)$. Its [^.]+ may reach over a '/': so
// "dir/.x" has the key "dir/", but not so "d.1/.x".
std::optional<SampleName> split_name(std::string_view name) {
  const size_t slash = name.rfind('/');
  const size_t base = slash == kNone ? 0 : slash + 1;
  const size_t dot = name.find('.', base);
  if (dot == kNone) return std::nullopt;
  if (dot == base) {
    if (base == 0) return std::nullopt;
    const size_t before = slash == 0 ? kNone : name.rfind('/', slash - 1);
    const std::string_view folder = name.substr(before == kNone ? 0 : before + 1);
    if (folder.find('.') < base - (before == kNone ? 0 : before + 1)) return std::nullopt;
  }
  return SampleName{name.substr(0, dot), name.substr(dot + 1)};
}

bool is_metadata_name(std::string_view name) {
  const std::string_view first = name.substr(0, name.find('/'));
  return first.size() >= 4 && first.starts_with("__") && first.ends_with("__");
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), lower);
  return out;
}

std::string_view base_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == kNone ? path : path.substr(slash + 1);
}

bool is_image_name(std::string_view name) {
  return std::ranges::any_of(kImageExtensions, [name](std::string_view extension) {
    return ends_with_ignoring_case(name, extension);
  });
}

}  // namespace penstock::data
