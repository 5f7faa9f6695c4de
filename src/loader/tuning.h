// How many threads a loader should have: found by trying.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "penstock/loader.h"

namespace penstock::loader {

struct Trial {
  uint32_t threads = 0;
  double samples_per_second = 0;
};

struct Tuning {
  uint32_t threads = 0;  // The fewest that are about as fast as any number tried.
  std::vector<Trial> trials;
};

// What is tried where there are so many cores: fewer, as many, and more, which helps where threads
// wait for reads.
std::vector<uint32_t> thread_counts_to_try(uint32_t cores);

// The choice among trials; within a few per cent the numbers say nothing.
uint32_t best_threads(const std::vector<Trial>& trials);

// Runs loaders of these options, whose `threads` do not matter, for about a second each, over
// different stretches of the epoch, so that none finds in memory what another has read. kCancelled
// on stop.
Result<Tuning> tune_threads(const LoaderOptions& options, std::stop_token stop);

// "2 threads (1: 640 samples/s, 2: 1.21 k, 3: 1.2 k)"
std::string to_text(const Tuning& tuning);

}  // namespace penstock::loader
