// What a loader did from moment to moment, for the plots of penstock load --html.
#pragma once

#include <vector>

#include "penstock/loader.h"

namespace penstock::cli {

// One stretch of time, at most some tenths of a second. Shares are of that time, from 0 to 1.
struct LoadMoment {
  double begin = 0;  // Seconds from the start.
  double end = 0;
  double samples_per_second = 0;
  double bytes_per_second = 0;
  double decode = 0;   // Of all threads.
  double read = 0;     // Of all threads.
  double storage = 0;  // At least one read under way.
  double waiting = 0;  // The consumer, for a batch.
  double ready = 0;    // Batches, on average.
};

// Threads: one at a time.
class LoadTimeline {
 public:
  // Looks at the loader when it is time to; cheap when not.
  void look(const loader::Loader& loader);
  // Ends the last stretch.
  void finish(const loader::Loader& loader);
  const std::vector<LoadMoment>& moments() const { return moments_; }

 private:
  void add(const loader::Report& now);

  std::vector<LoadMoment> moments_;
  loader::Report last_;
  std::chrono::steady_clock::time_point due_{};
  Nanoseconds every_ = std::chrono::milliseconds(100);
};

// The stretch between two reports of one loader.
LoadMoment moment_between(const loader::Report& before, const loader::Report& after);
// Both as one.
LoadMoment merge(const LoadMoment& first, const LoadMoment& second);

}  // namespace penstock::cli
