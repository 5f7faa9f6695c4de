#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tune/bench_result.h"

namespace penstock::tune {

// What the results say, in sentences, the most useful first. Pure: the same results always give the
// same sentences, and what was not measured is not spoken of.
std::vector<Finding> find_findings(std::span<const CaseResult> results,
                                   const BenchFacts& facts = {});

// The smallest depth whose rate is within 5 % of the best.
struct Saturation {
  const CaseResult* at = nullptr;       // The case at that depth,
  const CaseResult* best = nullptr;     // the fastest
  const CaseResult* deepest = nullptr;  // and the deepest one.
  // The rate still rose when the sweep ended.
  bool still_rising() const { return at == deepest; }
};
// Of cases that differ only in depth; nothing when there are fewer than two.
std::optional<Saturation> find_saturation(std::span<const CaseResult* const> sweep);

// A write rate that fell and stayed low, as when the fast part of a flash drive is full.
struct WriteCliff {
  uint64_t bytes_before = 0;
  double rate_before = 0;  // Medians, bytes per second.
  double rate_after = 0;
};
std::optional<WriteCliff> find_write_cliff(std::span<const RateSample> samples);

}  // namespace penstock::tune
