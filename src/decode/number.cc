#include <fmt/format.h>

#include <charconv>
#include <system_error>

#include "penstock/decode.h"

namespace penstock::decode {
namespace {

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// Python writes and reads "+3" too; from_chars reads no plus.
std::string_view drop_plus(std::string_view text) {
  const bool plus = text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+';
  return plus ? text.substr(1) : text;
}

Error not_a(std::string_view kind, std::string_view text, bool too_large) {
  constexpr size_t kShown = 40;
  const bool longer = text.size() > kShown;
  return make_error(ErrorCode::kCorrupt,
                    fmt::format("\"{}{}\" is {} {}", text.substr(0, kShown), longer ? "..." : "",
                                too_large ? "too large or small for" : "not", kind));
}

template <typename Number>
Result<Number> parse(std::string_view text, std::string_view kind) {
  const std::string_view digits = drop_plus(trim(text));
  const char* end = digits.data() + digits.size();
  Number number{};
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  if (error == std::errc::result_out_of_range) return not_a(kind, text, true);
  if (error != std::errc{} || stop != end) return not_a(kind, text, false);
  return number;
}

}  // namespace

Result<int64_t> parse_int(std::string_view text) {
  return parse<int64_t>(text, "an integer");
}

Result<double> parse_float(std::string_view text) {
  return parse<double>(text, "a number");
}

}  // namespace penstock::decode
