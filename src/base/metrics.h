// Counters, gauges and latency histograms, and their dump as Prometheus text.
// Reading and writing a metric is a relaxed atomic operation: cheap enough for every I/O.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/units.h"

namespace penstock {

// Only goes up.
class Counter {
 public:
  void add(uint64_t amount = 1) { value_.fetch_add(amount, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

class Gauge {
 public:
  void set(int64_t value) { value_.store(value, std::memory_order_relaxed); }
  void add(int64_t amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

// Durations from 1 ns to hours, each kept within 6.25 % of its value (16 steps per power of two),
// in 8 KiB. A percentile read while others record is that of some moment in between.
class Histogram {
 public:
  void record(Nanoseconds time);
  void merge(const Histogram& other);

  uint64_t count() const;
  Nanoseconds sum() const {
    return Nanoseconds(static_cast<int64_t>(sum_ns_.load(std::memory_order_relaxed)));
  }
  Nanoseconds mean() const;
  Nanoseconds max() const {
    return Nanoseconds(static_cast<int64_t>(max_ns_.load(std::memory_order_relaxed)));
  }
  // The upper edge of the step in which the `fraction` quantile (0 to 1) lies; 0 when nothing was
  // recorded.
  Nanoseconds percentile(double fraction) const;
  // How many were recorded at or below `limit`, within the width of one step.
  uint64_t count_at_most(Nanoseconds limit) const;

 private:
  static constexpr int kStepBits = 4;
  static constexpr size_t kSteps = size_t{1} << kStepBits;
  static constexpr size_t kBuckets = (64 - kStepBits) * kSteps;
  static size_t bucket_of(uint64_t ns);
  static uint64_t upper_edge(size_t bucket);

  std::array<std::atomic<uint64_t>, kBuckets> buckets_{};
  std::atomic<uint64_t> sum_ns_{0};
  std::atomic<uint64_t> max_ns_{0};
};

// Records how long it lived.
class RecordedTime {
 public:
  explicit RecordedTime(Histogram& into) : into_(into) {}
  ~RecordedTime() { into_.record(std::chrono::steady_clock::now() - begun_); }
  RecordedTime(const RecordedTime&) = delete;
  RecordedTime& operator=(const RecordedTime&) = delete;

 private:
  Histogram& into_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

using Labels = std::vector<std::pair<std::string, std::string>>;

// Owns metrics by name and labels. Asking twice for the same one gives the same one.
// Threads: all calls from any thread.
// Lifetime: metrics live as long as their registry. A name has one kind and one help text: asking
// for it as another kind is a bug (asserted).
class Metrics {
 public:
  Counter& counter(std::string_view name, std::string_view help, const Labels& labels = {});
  Gauge& gauge(std::string_view name, std::string_view help, const Labels& labels = {});
  Histogram& histogram(std::string_view name, std::string_view help, const Labels& labels = {});

  // The Prometheus text exposition format, version 0.0.4. Histograms are in seconds, with buckets
  // at powers of four from 1 us to 68 s. `common` is put before the labels of every sample: where
  // several processes are collected together, it tells them apart. No metric may have such a label.
  std::string prometheus(const Labels& common = {}) const;

  // The one that the process exports.
  static Metrics& global();

 private:
  struct Family {
    enum class Kind { kCounter, kGauge, kHistogram } kind;
    std::string help;
    std::map<std::string, std::unique_ptr<Counter>> counters;  // By rendered labels.
    std::map<std::string, std::unique_ptr<Gauge>> gauges;
    std::map<std::string, std::unique_ptr<Histogram>> histograms;
  };
  Family& family(std::string_view name, std::string_view help, Family::Kind kind);
  static void render(std::string& out, const std::string& name, const Family& family,
                     const std::string& common);

  mutable std::mutex mutex_;
  std::map<std::string, Family, std::less<>> families_;
};

}  // namespace penstock
