// What `penstock bench` measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "tune/bench_plan.h"

namespace penstock::tune {

struct LatencySummary {
  int64_t mean_ns = 0;
  int64_t p50_ns = 0;
  int64_t p90_ns = 0;
  int64_t p99_ns = 0;
  int64_t p999_ns = 0;
  int64_t max_ns = 0;
};
LatencySummary summarize(const Histogram& latency);

// What was moved in one stretch of the run; stretches follow each other without gaps.
struct RateSample {
  double begin_seconds = 0;
  double seconds = 0;
  uint64_t bytes = 0;
  uint64_t ops = 0;
  double bytes_per_second() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
};

struct CaseResult {
  BenchCase bench_case;
  std::string skipped;  // Why it could not be measured here; empty when it was.
  uint64_t bytes = 0;
  uint64_t ops = 0;
  double seconds = 0;
  double cpu_seconds = 0;  // Of this process, all threads, kernel time included.
  LatencySummary latency;
  std::vector<RateSample> rate;

  bool measured() const { return skipped.empty(); }
  double bytes_per_second() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
  double ops_per_second() const { return seconds > 0 ? static_cast<double>(ops) / seconds : 0; }
};

// Something worth saying, in words.
struct Finding {
  std::string id;      // Stable, for machines: "random_read_saturation".
  std::string text;    // What was seen.
  std::string advice;  // What to do about it; may be empty.
};

// What was measured on. Empty strings and zeros: not known here.
struct BenchFacts {
  std::string version;  // Of Penstock.
  std::string date;     // UTC, ISO 8601.
  std::string kernel;
  std::string cpu;
  uint32_t cores = 0;
  uint64_t memory_bytes = 0;
  double load_average = 0;  // Of the minute before the run: tasks that run or wait for the disk.
  std::string engine;       // How requests reach the kernel, or the address of the store.

  std::string target;  // As given.
  BenchTarget kind = BenchTarget::kDirectory;
  std::string file_system;
  std::string mount_point;
  std::string mount_options;
  std::string device;
  std::string device_model;
  std::string scheduler;
  bool rotational = false;
  uint64_t total_bytes = 0;
  uint64_t available_bytes = 0;
  bool has_holes = false;  // An existing file, of which not all was ever written.
};

struct BenchReport {
  BenchFacts facts;
  BenchProfile profile = BenchProfile::kGeneral;
  uint64_t size_bytes = 0;
  double case_seconds = 0;
  std::vector<CaseResult> results;
  std::vector<Finding> findings;
  bool interrupted = false;  // By Ctrl-C: the results are those until then.
  std::string error;         // What ended the run early; empty when nothing did.
};

// Keeps the rate over time in bounded memory: neighbours are joined when there are too many.
class RateRecorder {
 public:
  static constexpr size_t kSamplesMost = 400;

  // What was done since the beginning, and when, in seconds; neither ever goes back. Call every
  // step_seconds() or so; what comes much sooner is added to the sample before.
  void note(double at_seconds, uint64_t bytes, uint64_t ops);
  double step_seconds() const { return step_seconds_; }
  std::vector<RateSample> take() { return std::move(samples_); }

 private:
  void join_neighbours();

  std::vector<RateSample> samples_;
  double step_seconds_ = 0.05;  // Doubles when neighbours are joined.
  uint64_t bytes_ = 0;
  uint64_t ops_ = 0;
};

}  // namespace penstock::tune
