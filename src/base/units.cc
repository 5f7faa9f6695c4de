#include "penstock/units.h"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace penstock {

namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array<Unit, 10> kSizeUnits = {{
    {"B", 1},
    {"KiB", 1024.0},
    {"MiB", 1024.0 * 1024},
    {"GiB", 1024.0 * 1024 * 1024},
    {"TiB", 1024.0 * 1024 * 1024 * 1024},
    {"kB", 1e3},
    {"KB", 1e3},
    {"MB", 1e6},
    {"GB", 1e9},
    {"TB", 1e12},
}};

constexpr std::array<Unit, 8> kDurationUnits = {{
    {"ns", 1},
    {"us", 1e3},
    {"ms", 1e6},
    {"s", 1e9},
    {"m", 60e9},
    {"h", 3600e9},
    {"d", 86400e9},
    {"w", 7 * 86400e9},
}};

// The number at the front of `text`, digits with at most one point; `text` is moved past it.
bool take_number(std::string_view& text, double& value) {
  size_t length = 0;
  while (length < text.size() &&
         (std::isdigit(static_cast<unsigned char>(text[length])) || text[length] == '.')) {
    ++length;
  }
  if (length == 0 || text[0] == '.') return false;
  const char* end = text.data() + length;
  const auto parsed = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (parsed.ec != std::errc{} || parsed.ptr != end) return false;
  text.remove_prefix(length);
  return true;
}

// The letters at the front of `text`; `text` is moved past them.
std::string_view take_word(std::string_view& text) {
  size_t length = 0;
  while (length < text.size() && std::isalpha(static_cast<unsigned char>(text[length]))) ++length;
  const std::string_view word = text.substr(0, length);
  text.remove_prefix(length);
  return word;
}

template <size_t N>
const Unit* find_unit(const std::array<Unit, N>& units, std::string_view name) {
  for (const Unit& unit : units) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

Error refuse(std::string_view text, std::string_view what) {
  return make_error(ErrorCode::kInvalid, fmt::format("'{}' is not {}", text, what));
}

constexpr std::string_view kSizeExpected =
    "a size: expected a number with a unit, such as 512KiB, 4MiB, 1.5GiB or 200GB";
constexpr std::string_view kDurationExpected =
    "a duration: expected a number with a unit, such as 100ms, 30s, 1h30m or 30d";

std::string three_digits(double value) {
  if (value >= 99.95 || value == std::floor(value)) return fmt::format("{:.0f}", value);
  if (value >= 9.995) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

}  // namespace

Deadline deadline_in(Nanoseconds time) {
  const auto now = std::chrono::steady_clock::now();
  return time >= kNoDeadline - now ? kNoDeadline : now + time;
}

Result<uint64_t> parse_size(std::string_view text) {
  std::string_view rest = text;
  double value = 0;
  if (!take_number(rest, value)) return refuse(text, kSizeExpected);
  const std::string_view name = rest;
  if (name.size() == 1 && std::string_view("kKmMgGtT").find(name) != std::string_view::npos) {
    const std::string letter(1,
                             static_cast<char>(std::toupper(static_cast<unsigned char>(name[0]))));
    const std::string number(text.substr(0, text.size() - 1));
    return refuse(text,
                  fmt::format("a size: say {0}{1}iB (powers of 1024) or {0}{1}B (powers of 1000)",
                              number, letter));
  }
  const Unit* unit = find_unit(kSizeUnits, name.empty() ? std::string_view("B") : name);
  if (unit == nullptr) return refuse(text, kSizeExpected);
  const double bytes = value * unit->factor;
  if (bytes >= static_cast<double>(std::numeric_limits<int64_t>::max()))
    return refuse(text, "a size below 8 EiB");
  const double whole = std::round(bytes);
  if (std::abs(whole - bytes) > 1e-6 && unit->factor == 1)
    return refuse(text, "a whole number of bytes");
  return static_cast<uint64_t>(whole);
}

Result<double> parse_percent(std::string_view text) {
  std::string_view rest = text;
  double value = 0;
  if (!take_number(rest, value) || rest != "%" || value > 100) {
    return refuse(text, "a percentage: expected 0% to 100%, such as 80%");
  }
  return value / 100;
}

Result<Nanoseconds> parse_duration(std::string_view text) {
  std::string_view rest = text;
  double total_ns = 0;
  double last_factor = std::numeric_limits<double>::infinity();
  do {
    double value = 0;
    if (!take_number(rest, value)) return refuse(text, kDurationExpected);
    const Unit* unit = find_unit(kDurationUnits, take_word(rest));
    if (unit == nullptr || unit->factor >= last_factor) return refuse(text, kDurationExpected);
    last_factor = unit->factor;
    total_ns += value * unit->factor;
  } while (!rest.empty());
  if (total_ns >= static_cast<double>(std::numeric_limits<int64_t>::max()))
    return refuse(text, "a duration below 292 years");
  return Nanoseconds(static_cast<int64_t>(std::llround(total_ns)));
}

uint64_t SizeOrPercent::of(uint64_t whole_bytes) const {
  return is_percent() ? static_cast<uint64_t>(fraction * static_cast<double>(whole_bytes)) : bytes;
}

Result<SizeOrPercent> parse_size_or_percent(std::string_view text) {
  SizeOrPercent quota;
  if (!text.empty() && text.back() == '%') {
    quota.fraction = PENSTOCK_TRY(parse_percent(text));
    return quota;
  }
  Result<uint64_t> size = parse_size(text);
  if (!size) return refuse(text, "a size or a percentage: expected such as 200GiB or 80%");
  quota.bytes = *size;
  return quota;
}

std::string format_size(uint64_t bytes) {
  if (bytes < kKiB) return fmt::format("{} B", bytes);
  constexpr std::array<std::string_view, 6> kNames = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", three_digits(value), kNames[unit]);
}

std::string format_rate(double bytes_per_second) {
  constexpr std::array<std::string_view, 5> kNames = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  double value = bytes_per_second;
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kNames.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{} {}", three_digits(value), kNames[unit]);
}

std::string format_duration(Nanoseconds time) {
  const double ns = static_cast<double>(time.count());
  if (ns < 999.5) return fmt::format("{:.0f} ns", ns);
  if (ns < 999.5e3) return three_digits(ns / 1e3) + " us";
  if (ns < 999.5e6) return three_digits(ns / 1e6) + " ms";
  if (ns < 120e9) return three_digits(ns / 1e9) + " s";
  const int64_t seconds = std::llround(ns / 1e9);
  if (seconds < 7200) return fmt::format("{} m {} s", seconds / 60, seconds % 60);
  if (seconds < 2 * 86400) return fmt::format("{} h {} m", seconds / 3600, seconds % 3600 / 60);
  return fmt::format("{} d {} h", seconds / 86400, seconds % 86400 / 3600);
}

std::string format_count(double count) {
  constexpr std::array<std::string_view, 4> kNames = {"", " k", " M", " G"};
  double value = count;
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kNames.size()) {
    value /= 1000;
    ++unit;
  }
  return three_digits(value) + std::string(kNames[unit]);
}

}  // namespace penstock
