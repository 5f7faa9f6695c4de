#include "base/metrics.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

namespace penstock {

namespace {

std::string escape_label(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string render_labels(const Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels) {
    if (!text.empty()) text += ',';
    text += fmt::format("{}=\"{}\"", name, escape_label(value));
  }
  return text;
}

std::string braces(const std::string& labels) {
  return labels.empty() ? std::string() : "{" + labels + "}";
}

std::string joined(const std::string& common, const std::string& own) {
  return common.empty() || own.empty() ? common + own : common + "," + own;
}

void render_histogram(std::string& out, const std::string& name, const std::string& labels,
                      const Histogram& values) {
  const std::string comma = labels.empty() ? "" : ",";
  for (uint64_t limit_ns = 1024; limit_ns <= (uint64_t{1} << 36); limit_ns *= 4) {
    out += fmt::format("{}_bucket{{{}{}le=\"{:.9g}\"}} {}\n", name, labels, comma,
                       static_cast<double>(limit_ns) / 1e9,
                       values.count_at_most(Nanoseconds(limit_ns)));
  }
  // Once: whoever records meanwhile must not make the last bucket differ from the count.
  const uint64_t count = values.count();
  out += fmt::format("{}_bucket{{{}{}le=\"+Inf\"}} {}\n", name, labels, comma, count);
  out += fmt::format("{}_sum{} {:.9g}\n", name, braces(labels),
                     static_cast<double>(values.sum().count()) / 1e9);
  out += fmt::format("{}_count{} {}\n", name, braces(labels), count);
}

}  // namespace

size_t Histogram::bucket_of(uint64_t ns) {
  if (ns < kSteps) return ns;
  const int shift = static_cast<int>(std::bit_width(ns)) - 1 - kStepBits;
  return static_cast<size_t>(shift) * kSteps + static_cast<size_t>(ns >> shift);
}

uint64_t Histogram::upper_edge(size_t bucket) {
  if (bucket < 2 * kSteps) return bucket;
  const size_t shift = bucket / kSteps - 1;
  return ((bucket % kSteps + kSteps + 1) << shift) - 1;
}

void Histogram::record(Nanoseconds time) {
  const uint64_t ns = static_cast<uint64_t>(std::max<int64_t>(0, time.count()));
  buckets_[bucket_of(ns)].fetch_add(1, std::memory_order_relaxed);
  sum_ns_.fetch_add(ns, std::memory_order_relaxed);
  uint64_t seen = max_ns_.load(std::memory_order_relaxed);
  while (seen < ns && !max_ns_.compare_exchange_weak(seen, ns, std::memory_order_relaxed)) {
  }
}

void Histogram::merge(const Histogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) {
    const uint64_t count = other.buckets_[i].load(std::memory_order_relaxed);
    if (count != 0) buckets_[i].fetch_add(count, std::memory_order_relaxed);
  }
  sum_ns_.fetch_add(other.sum_ns_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  const uint64_t their_max = other.max_ns_.load(std::memory_order_relaxed);
  uint64_t seen = max_ns_.load(std::memory_order_relaxed);
  while (seen < their_max &&
         !max_ns_.compare_exchange_weak(seen, their_max, std::memory_order_relaxed)) {
  }
}

uint64_t Histogram::count() const {
  uint64_t total = 0;
  for (const auto& bucket : buckets_) total += bucket.load(std::memory_order_relaxed);
  return total;
}

Nanoseconds Histogram::mean() const {
  const uint64_t total = count();
  return total == 0 ? Nanoseconds(0) : sum() / static_cast<int64_t>(total);
}

Nanoseconds Histogram::percentile(double fraction) const {
  const uint64_t total = count();
  if (total == 0) return Nanoseconds(0);
  const auto rank = static_cast<uint64_t>(std::ceil(fraction * static_cast<double>(total)));
  const uint64_t wanted = std::clamp<uint64_t>(rank, 1, total);
  uint64_t seen = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i].load(std::memory_order_relaxed);
    if (seen >= wanted) return std::min(Nanoseconds(static_cast<int64_t>(upper_edge(i))), max());
  }
  return max();
}

uint64_t Histogram::count_at_most(Nanoseconds limit) const {
  if (limit.count() < 0) return 0;
  const size_t last = bucket_of(static_cast<uint64_t>(limit.count()));
  uint64_t total = 0;
  for (size_t i = 0; i <= last; ++i) total += buckets_[i].load(std::memory_order_relaxed);
  return total;
}

Metrics::Family& Metrics::family(std::string_view name, std::string_view help, Family::Kind kind) {
  auto found = families_.find(name);
  if (found == families_.end()) {
    found = families_.emplace(std::string(name), Family{kind, std::string(help), {}, {}, {}}).first;
  }
  assert(found->second.kind == kind);
  return found->second;
}

Counter& Metrics::counter(std::string_view name, std::string_view help, const Labels& labels) {
  std::lock_guard lock(mutex_);
  auto& slot = family(name, help, Family::Kind::kCounter).counters[render_labels(labels)];
  if (!slot) slot = std::make_unique<Counter>();
  return *slot;
}

Gauge& Metrics::gauge(std::string_view name, std::string_view help, const Labels& labels) {
  std::lock_guard lock(mutex_);
  auto& slot = family(name, help, Family::Kind::kGauge).gauges[render_labels(labels)];
  if (!slot) slot = std::make_unique<Gauge>();
  return *slot;
}

Histogram& Metrics::histogram(std::string_view name, std::string_view help, const Labels& labels) {
  std::lock_guard lock(mutex_);
  auto& slot = family(name, help, Family::Kind::kHistogram).histograms[render_labels(labels)];
  if (!slot) slot = std::make_unique<Histogram>();
  return *slot;
}

void Metrics::render(std::string& out, const std::string& name, const Family& family,
                     const std::string& common) {
  constexpr std::string_view kKinds[] = {"counter", "gauge", "histogram"};
  out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, family.help, name,
                     kKinds[static_cast<int>(family.kind)]);
  for (const auto& [labels, metric] : family.counters) {
    out += fmt::format("{}{} {}\n", name, braces(joined(common, labels)), metric->value());
  }
  for (const auto& [labels, metric] : family.gauges) {
    out += fmt::format("{}{} {}\n", name, braces(joined(common, labels)), metric->value());
  }
  for (const auto& [labels, metric] : family.histograms)
    render_histogram(out, name, joined(common, labels), *metric);
}

std::string Metrics::prometheus(const Labels& common) const {
  const std::string rendered = render_labels(common);
  std::lock_guard lock(mutex_);
  std::string out;
  for (const auto& [name, metrics] : families_) render(out, name, metrics, rendered);
  return out;
}

Metrics& Metrics::global() {
  static auto* metrics =
      new Metrics;  // Never destroyed: threads may still count while the process exits.
  return *metrics;
}

}  // namespace penstock
