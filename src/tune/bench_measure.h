// Runs the streams of one case, watching the rate, the clock and the user's wish to stop.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "tune/bench_result.h"
#include "tune/bench_stream.h"

namespace penstock::tune {

struct BenchProgress {
  size_t case_number = 0;  // From 1
  size_t case_count = 0;   // to this.
  std::string label;
  double bytes_per_second = 0;  // So far, in this case.
  double ops_per_second = 0;
};

// What a run needs from whoever started it.
struct BenchContext {
  std::stop_token stop;
  std::function<void(const BenchProgress&)> progress;  // On the calling thread; may be empty.
  size_t case_number = 0;
  size_t case_count = 0;
};

// Starts all streams and waits for them; then calls `finish` (may be empty), whose time counts too.
// kCancelled on stop, when all requests have ended; otherwise the first error of a stream.
Result<CaseResult> measure_case(const BenchCase& bench_case,
                                std::span<const std::unique_ptr<BenchStream>> streams,
                                const std::function<Result<void>()>& finish,
                                const BenchContext& context);

// The error of a run that was asked to stop, or nothing.
Result<void> check_stop(const BenchContext& context);

}  // namespace penstock::tune
