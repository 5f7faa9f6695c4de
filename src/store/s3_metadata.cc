#include "store/s3_metadata.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <limits>

namespace penstock::store {

namespace {

constexpr const char* kTimeHeader = "x-amz-meta-mtime";
constexpr const char* kModeHeader = "x-amz-meta-mode";
constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint32_t kRegularFile = 0100000;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// The first nine decimals as nanoseconds; what is finer is cut off.
uint64_t parse_decimals(std::string_view digits) {
  uint64_t value = 0;
  for (size_t i = 0; i < 9; ++i) {
    value = value * 10 + (i < digits.size() ? static_cast<uint64_t>(digits[i] - '0') : 0);
  }
  return value;
}

}  // namespace

std::string format_kept_time(int64_t mtime_ns) {
  const bool negative = mtime_ns < 0;
  const auto magnitude = static_cast<uint64_t>(mtime_ns);
  const uint64_t ns = negative ? 0 - magnitude : magnitude;
  std::string text = fmt::format("{}{}", negative ? "-" : "", ns / kSecond);
  if (ns % kSecond == 0) return text;
  text += fmt::format(".{:09}", ns % kSecond);
  text.erase(text.find_last_not_of('0') + 1);
  return text;
}

std::optional<int64_t> parse_kept_time(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const size_t point = std::min(text.find('.'), text.size());
  const std::string_view whole = text.substr(0, point);
  const std::string_view decimals = text.substr(std::min(point + 1, text.size()));
  uint64_t seconds = 0;
  const auto parsed = std::from_chars(whole.data(), whole.data() + whole.size(), seconds);
  if (parsed.ec != std::errc{} || parsed.ptr != whole.data() + whole.size()) return std::nullopt;
  if (!std::all_of(decimals.begin(), decimals.end(), is_digit)) return std::nullopt;
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  if (seconds > kMax / kSecond) return std::nullopt;
  const uint64_t ns = seconds * kSecond + parse_decimals(decimals);
  if (ns > kMax + (negative ? 1 : 0)) return std::nullopt;
  return static_cast<int64_t>(negative ? 0 - ns : ns);
}

std::optional<uint32_t> parse_kept_mode(std::string_view text) {
  uint32_t mode = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size()) return std::nullopt;
  // Of another kind of file, or written by a client that writes decimals (s3fs: "33152").
  const uint32_t kind = mode & ~uint32_t{07777};
  if (kind != 0 && kind != kRegularFile) return std::nullopt;
  return mode & kKeptModeBits;
}

std::vector<NameValue> kept_headers(const PutOptions& options) {
  std::vector<NameValue> headers;
  if (options.mtime_ns) headers.emplace_back(kTimeHeader, format_kept_time(*options.mtime_ns));
  if (options.mode) {
    headers.emplace_back(kModeHeader, fmt::format("{:o}", *options.mode & kKeptModeBits));
  }
  return headers;
}

void read_kept(const HttpResponse& response, ObjectInfo& info) {
  info.kept_mtime_ns = parse_kept_time(response.header(kTimeHeader));
  info.kept_mode = parse_kept_mode(response.header(kModeHeader));
}

}  // namespace penstock::store
