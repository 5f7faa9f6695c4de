#pragma once

#include <string>

#include "tune/bench_result.h"

namespace penstock::tune {

// All plots that the results have data for, each as a card.
std::string bench_charts_html(const BenchReport& report);

// The time of a result's percentiles, its rate and its count, for a tooltip.
std::string bench_tip(const CaseResult& result);

}  // namespace penstock::tune
