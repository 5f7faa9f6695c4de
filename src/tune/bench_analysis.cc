// The numbers behind the findings.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tune/bench_findings.h"

namespace penstock::tune {

namespace {

std::ptrdiff_t offset(size_t index) {
  return static_cast<std::ptrdiff_t>(index);
}

double median(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + offset(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

// How far the values lie from their median, all together.
double deviation(std::span<const double> values) {
  const double center = median(values);
  double sum = 0;
  for (const double value : values) sum += std::abs(value - center);
  return sum;
}

}  // namespace

std::optional<Saturation> find_saturation(std::span<const CaseResult* const> sweep) {
  if (sweep.size() < 2) return std::nullopt;
  Saturation found;
  for (const CaseResult* result : sweep) {
    const bool better =
        found.best == nullptr || result->ops_per_second() > found.best->ops_per_second();
    if (better) found.best = result;
    if (found.deepest == nullptr || result->bench_case.depth > found.deepest->bench_case.depth) {
      found.deepest = result;
    }
  }
  for (const CaseResult* result : sweep) {
    if (result->ops_per_second() < 0.95 * found.best->ops_per_second()) continue;
    if (found.at == nullptr || result->bench_case.depth < found.at->bench_case.depth) {
      found.at = result;
    }
  }
  return found;
}

// Writes are noisy, so a cliff is only what stays: at the split that fits the samples best, the
// medians of both sides differ by much, and nearly all samples are on their own side.
std::optional<WriteCliff> find_write_cliff(std::span<const RateSample> samples) {
  constexpr size_t kSideLeast = 6;
  if (samples.size() < 2 * kSideLeast) return std::nullopt;
  std::vector<double> rates;
  for (const RateSample& sample : samples) rates.push_back(sample.bytes_per_second());
  const std::span<const double> all(rates);

  size_t split = 0;
  double least_error = std::numeric_limits<double>::infinity();
  for (size_t i = kSideLeast; i + kSideLeast <= all.size(); ++i) {
    const double error = deviation(all.first(i)) + deviation(all.subspan(i));
    if (error >= least_error) continue;
    least_error = error;
    split = i;
  }
  const double high = median(all.first(split));
  const double low = median(all.subspan(split));
  const double middle = (high + low) / 2;
  const auto above = [middle](double rate) { return rate > middle; };
  const auto fast_before = std::count_if(rates.begin(), rates.begin() + offset(split), above);
  const auto fast_after = std::count_if(rates.begin() + offset(split), rates.end(), above);
  const bool clear =
      static_cast<double>(fast_before) >= 0.9 * static_cast<double>(split) &&
      static_cast<double>(fast_after) <= 0.1 * static_cast<double>(all.size() - split);
  if (!clear || low >= 0.6 * high) return std::nullopt;
  WriteCliff cliff{.rate_before = high, .rate_after = low};
  for (const RateSample& sample : samples.first(split)) cliff.bytes_before += sample.bytes;
  return cliff;
}

}  // namespace penstock::tune
