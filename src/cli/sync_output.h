// What `penstock sync` tells: its progress, its actions, its end.
#pragma once

#include <chrono>
#include <string>

#include "penstock/sync.h"

namespace penstock::cli {

// To standard error: one line that is written over and over on a terminal, a line every ten seconds
// elsewhere.
// Threads: one at a time.
class SyncProgress {
 public:
  explicit SyncProgress(bool quiet);

  void show(const sync::Progress& progress);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  void measure(const sync::Progress& progress);

  const bool quiet_;
  const bool terminal_;
  Clock::time_point shown_at_;
  Clock::time_point measured_at_;
  uint64_t measured_bytes_ = 0;
  double bytes_per_second_ = 0;  // Of late.
};

// "1234 of 5678 objects, 1.2 of 3.4 GiB, 230 MB/s, 2 m left"
std::string progress_text(const sync::Progress& progress, double bytes_per_second);

// A line for people, or for programs: {"action":"copy","key":"a/b","bytes":12,"why":"new"}
std::string action_text(sync::Action action, const std::string& key, uint64_t bytes,
                        std::string_view why);
std::string action_json(sync::Action action, const std::string& key, uint64_t bytes,
                        std::string_view why);

std::string summary_text(const sync::Report& report, const sync::Options& options);
std::string summary_json(const sync::Report& report, const sync::Options& options);

// Each on a line, with what became of it.
void tell_failures(const sync::Report& report);

}  // namespace penstock::cli
