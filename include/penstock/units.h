// Sizes, percentages and durations as people write them: 4MiB, 80%, 30d. One grammar for the
// command line, Python and configuration. What is not one of them is refused, with what was
// expected.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "penstock/result.h"

namespace penstock {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;
inline constexpr uint64_t kTiB = uint64_t{1} << 40;

using Nanoseconds = std::chrono::nanoseconds;

// A point on the monotonic clock by which a wait must end.
using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNoDeadline = Deadline::max();
Deadline deadline_in(Nanoseconds time);

// "512", "512B", "4KiB" … "2TiB" (powers of 1024), "4kB" … "2TB" (powers of 1000), fractions
// ("1.5GiB"). A bare letter ("4M") is refused: tools disagree about what it means.
Result<uint64_t> parse_size(std::string_view text);

// "80%", "12.5%": the fraction, 0.8. From 0% to 100%.
Result<double> parse_percent(std::string_view text);

// "250ns", "10us", "100ms", "1.5s", "5m", "12h", "30d", "2w", and sums from large to small:
// "1h30m". A bare number is refused: which unit?
Result<Nanoseconds> parse_duration(std::string_view text);

// A quota: a size, or a percentage of something known only later.
struct SizeOrPercent {
  uint64_t bytes = 0;    // Used when fraction < 0.
  double fraction = -1;  // 0 to 1, or negative when a size was given.
  bool is_percent() const { return fraction >= 0; }
  uint64_t of(uint64_t whole_bytes) const;
};
Result<SizeOrPercent> parse_size_or_percent(std::string_view text);

// For people: "4 MiB", "1.5 GiB", "937 B". Three significant digits.
std::string format_size(uint64_t bytes);
// "1.33 GB/s": rates are decimal, as vendors and fio quote them.
std::string format_rate(double bytes_per_second);
// "139 us", "1.5 ms", "30 s", "2 h 5 m".
std::string format_duration(Nanoseconds time);
// "135 k", "1.2 M", "812".
std::string format_count(double count);

}  // namespace penstock
