#include <fmt/core.h>

#include <charconv>
#include <optional>

#include "base/glob.h"

namespace penstock {

namespace {

using Words = std::vector<std::string>;

// A pair of braces that stands for several texts: where it begins, and behind its end.
struct Braces {
  size_t begin = 0;
  size_t end = 0;
  std::vector<std::string_view> choices = {};  // Between its commas. One: a range.
};

struct Number {
  uint64_t value = 0;
  size_t digits = 0;
  bool padded = false;
};

std::optional<Number> parse_number(std::string_view text) {
  Number number{.digits = text.size(), .padded = text.size() > 1 && text[0] == '0'};
  const char* end = text.data() + text.size();
  const auto [stopped, failure] = std::from_chars(text.data(), end, number.value);
  if (text.empty() || failure != std::errc() || stopped != end) return std::nullopt;
  return number;
}

// Of "000..999".
std::optional<std::pair<Number, Number>> parse_range(std::string_view text) {
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const std::optional<Number> first = parse_number(text.substr(0, dots));
  const std::optional<Number> last = parse_number(text.substr(dots + 2));
  if (!first || !last) return std::nullopt;
  return std::pair(*first, *last);
}

// The braces that open at `begin`; nothing when they are not closed or stand for themselves.
std::optional<Braces> parse_braces(std::string_view pattern, size_t begin) {
  Braces braces{.begin = begin};
  size_t depth = 0;
  size_t choice = begin + 1;
  for (size_t at = begin; at < pattern.size(); ++at) {
    const char byte = pattern[at];
    if (byte == '\\') ++at;
    if (byte == '{') ++depth;
    const bool closes = byte == '}' && --depth == 0;
    if (closes || (byte == ',' && depth == 1)) {
      braces.choices.push_back(pattern.substr(choice, at - choice));
      choice = at + 1;
    }
    if (!closes) continue;
    braces.end = at + 1;
    if (braces.choices.size() > 1 || parse_range(braces.choices[0])) return braces;
    return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Braces> find_braces(std::string_view pattern) {
  for (size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] == '\\') {
      ++at;
    } else if (pattern[at] == '{') {
      if (std::optional<Braces> braces = parse_braces(pattern, at)) return braces;
    }
  }
  return std::nullopt;
}

class Expansion {
 public:
  Expansion(std::string_view pattern, size_t limit) : pattern_(pattern), limit_(limit) {}

  // What `pattern` stands for, each behind `front`.
  Result<void> expand(std::string front, std::string_view pattern) {
    const std::optional<Braces> braces = find_braces(pattern);
    if (!braces) {
      if (words_.size() == limit_) return refuse();
      words_.push_back(front.append(pattern));
      return {};
    }
    front.append(pattern.substr(0, braces->begin));
    const std::string_view rest = pattern.substr(braces->end);
    if (braces->choices.size() == 1) return count(front, *parse_range(braces->choices[0]), rest);
    for (const std::string_view choice : braces->choices) {
      PENSTOCK_TRY(expand(front, std::string(choice).append(rest)));
    }
    return {};
  }
  Words take() { return std::move(words_); }

 private:
  Error refuse() const {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("'{}' stands for more than {} names", pattern_, limit_));
  }

  Result<void> count(const std::string& front, const std::pair<Number, Number>& range,
                     std::string_view rest) {
    const auto& [first, last] = range;
    const size_t digits =
        first.padded || last.padded ? std::max(first.digits, last.digits) : size_t{1};
    const bool down = last.value < first.value;
    const uint64_t steps = down ? first.value - last.value : last.value - first.value;
    if (steps >= limit_) return refuse();
    for (uint64_t step = 0; step <= steps; ++step) {
      const uint64_t value = down ? first.value - step : first.value + step;
      PENSTOCK_TRY(expand(fmt::format("{}{:0{}}", front, value, digits), rest));
    }
    return {};
  }

  const std::string_view pattern_;
  const size_t limit_;
  Words words_;
};

}  // namespace

Result<std::vector<std::string>> expand_braces(std::string_view pattern, size_t limit) {
  constexpr size_t kBytesMax = 4096;  // Recursion goes as deep as there are braces.
  if (pattern.size() > kBytesMax) {
    return make_error(ErrorCode::kInvalid, "a pattern of more than 4 KiB");
  }
  Expansion expansion(pattern, limit);
  PENSTOCK_TRY(expansion.expand("", pattern));
  return expansion.take();
}

}  // namespace penstock
