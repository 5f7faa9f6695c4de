// Which plots the report page has, and what is in them.
#include "tune/bench_html_charts.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "tune/bench_charts.h"
#include "tune/bench_render.h"

namespace penstock::tune {

namespace {

using Results = std::vector<CaseResult>;
using Wanted = std::function<bool(const BenchCase&)>;
using NameOf = std::function<std::string(const BenchCase&)>;
using ValueOf = std::function<double(const CaseResult&)>;

double rate_of(const CaseResult& result) {
  return result.bytes_per_second();
}
double ops_of(const CaseResult& result) {
  return result.ops_per_second();
}
std::string count_label(double value) {
  return format_count(value);
}
std::string plain_label(double value) {
  return fmt::format("{:g}", value);
}

// Points over depth, a line for each name; names in the order of first sight.
std::vector<ChartSeries> series_by_depth(const Results& results, const Wanted& wanted,
                                         const NameOf& name_of, const ValueOf& value_of) {
  std::vector<ChartSeries> all;
  for (const CaseResult& result : results) {
    const BenchCase& c = result.bench_case;
    if (!result.measured() || c.lays_file || !wanted(c) || value_of(result) <= 0) continue;
    const std::string name = name_of(c);
    auto found =
        std::find_if(all.begin(), all.end(), [&](const auto& s) { return s.name == name; });
    if (found == all.end()) found = all.insert(all.end(), ChartSeries{name, {}});
    found->points.push_back({static_cast<double>(c.depth), value_of(result), bench_tip(result)});
  }
  std::erase_if(all, [](const ChartSeries& series) { return series.points.size() < 2; });
  for (ChartSeries& series : all) {
    std::sort(series.points.begin(), series.points.end(),
              [](const ChartPoint& a, const ChartPoint& b) { return a.x < b.x; });
  }
  return all;
}

std::vector<double> ticks_of(const std::vector<ChartSeries>& series) {
  std::set<double> ticks;
  for (const ChartSeries& one : series) {
    for (const ChartPoint& point : one.points) ticks.insert(point.x);
  }
  return {ticks.begin(), ticks.end()};
}

std::string name_with_block(const BenchCase& c) {
  const bool random = c.pattern == BenchPattern::kRandom;
  std::string name =
      fmt::format("{} {}", random ? "random" : "sequential", format_size(c.block_bytes));
  if (c.jobs > 1) name += fmt::format(" × {} jobs", c.jobs);
  return name;
}

std::string depth_chart(const Results& results, std::string title, std::string subtitle,
                        const Wanted& wanted, const NameOf& name_of, bool iops,
                        std::string x_title) {
  LineChart chart;
  chart.title = std::move(title);
  chart.subtitle = std::move(subtitle);
  chart.series = series_by_depth(results, wanted, name_of, iops ? ops_of : rate_of);
  chart.x_scale = ChartScale::kLog;
  chart.x_ticks = ticks_of(chart.series);
  chart.x_title = std::move(x_title);
  chart.x_label = plain_label;
  chart.y_scale = iops ? ChartScale::kLog : ChartScale::kLinear;
  chart.y_title = iops ? "operations per second" : "throughput";
  chart.y_label = iops ? std::function<std::string(double)>(count_label)
                       : std::function<std::string(double)>(format_rate);
  return render_line_chart(chart);
}

std::string depth_charts(const Results& results) {
  const auto direct = [](BenchOp op) {
    return [op](const BenchCase& c) { return c.op == op && c.mode == BenchMode::kDirect; };
  };
  const std::string depth = "queue depth (requests in flight)";
  return depth_chart(results, "Read throughput by queue depth", "direct reads",
                     direct(BenchOp::kRead), name_with_block, false, depth) +
         depth_chart(results, "Read operations per second by queue depth",
                     "direct reads, logarithmic scale", direct(BenchOp::kRead), name_with_block,
                     true, depth) +
         depth_chart(results, "Write throughput by queue depth",
                     "direct writes, fdatasync included", direct(BenchOp::kWrite), name_with_block,
                     false, depth);
}

std::string store_charts(const Results& results) {
  const auto gets = [](const BenchCase& c) {
    return c.op == BenchOp::kGet || c.op == BenchOp::kGetRange;
  };
  const auto puts = [](const BenchCase& c) { return c.op == BenchOp::kPut; };
  const auto both = [=](const BenchCase& c) { return gets(c) || puts(c); };
  const auto name = [](const BenchCase& c) {
    const std::string_view verb =
        c.op == BenchOp::kGetRange ? "get ranges of" : bench_op_name(c.op);
    return fmt::format("{} {}", verb, format_size(c.block_bytes));
  };
  const std::string at_once = "requests at once";
  return depth_chart(results, "Get throughput by concurrency", "objects by size", gets, name, false,
                     at_once) +
         depth_chart(results, "Put throughput by concurrency", "objects by size", puts, name, false,
                     at_once) +
         depth_chart(results, "Requests per second by concurrency", "logarithmic scale", both, name,
                     true, at_once);
}

// Of several cases with the same name the fastest is shown.
std::string bars(const Results& results, std::string title, std::string subtitle,
                 const Wanted& wanted, const NameOf& name_of, bool ops) {
  BarChart chart{std::move(title), std::move(subtitle), {}};
  for (const CaseResult& result : results) {
    if (!result.measured() || !wanted(result.bench_case)) continue;
    const double value = ops ? ops_of(result) : rate_of(result);
    const std::string name = name_of(result.bench_case);
    auto found = std::find_if(chart.bars.begin(), chart.bars.end(),
                              [&](const Bar& bar) { return bar.name == name; });
    if (found == chart.bars.end()) found = chart.bars.insert(found, Bar{name, 0, {}, {}});
    if (value <= found->value) continue;
    *found = {name, value, ops ? format_count(value) + "/s" : format_rate(value),
              bench_tip(result)};
  }
  if (chart.bars.size() < 2) return {};
  return render_bar_chart(chart);
}

std::string mode_bars(const Results& results, BenchOp op, const std::string& title) {
  // The largest block is where modes differ by themselves and not by what each request costs.
  uint64_t block_bytes = 0;
  for (const CaseResult& result : results) {
    const BenchCase& c = result.bench_case;
    const bool cached = c.op == op && c.mode != BenchMode::kDirect;
    if (cached && c.pattern == BenchPattern::kSequential) {
      block_bytes = std::max(block_bytes, c.block_bytes);
    }
  }
  const auto wanted = [=](const BenchCase& c) {
    return c.op == op && c.pattern == BenchPattern::kSequential && c.block_bytes == block_bytes &&
           !c.lays_file;
  };
  const std::string subtitle =
      fmt::format("sequential, {} blocks; the best depth of each", format_size(block_bytes));
  return bars(results, title, subtitle, wanted, bench_variant, false);
}

std::string small_file_bars(const Results& results) {
  const auto name = [](const BenchCase& c) {
    return fmt::format("{} {}{}", bench_variant(c), format_size(c.block_bytes),
                       c.jobs > 1 ? fmt::format(" × {}", c.jobs) : "");
  };
  return bars(
      results, "Small files", "files per second",
      [](const BenchCase& c) { return c.on_small_files(); }, name, true);
}

std::vector<ChartPoint> percentiles(const CaseResult& result) {
  const LatencySummary& l = result.latency;
  std::vector<ChartPoint> points;
  double x = 0;
  for (const int64_t ns : {l.p50_ns, l.p90_ns, l.p99_ns, l.p999_ns, l.max_ns}) {
    points.push_back({x++, static_cast<double>(std::max<int64_t>(ns, 1)), bench_tip(result)});
  }
  return points;
}

std::string latency_chart(const Results& results, std::string title, const Wanted& wanted,
                          const NameOf& name_of) {
  static const std::vector<std::string> kNames = {"p50", "p90", "p99", "p99.9", "max"};
  LineChart chart;
  chart.title = std::move(title);
  chart.subtitle = "latency percentiles, logarithmic scale";
  chart.x_title = "percentile";
  chart.y_title = "latency";
  chart.y_scale = ChartScale::kLog;
  chart.x_ticks = {0, 1, 2, 3, 4};
  chart.x_label = [](double value) { return kNames[static_cast<size_t>(value)]; };
  chart.y_label = [](double ns) { return format_duration(Nanoseconds(static_cast<int64_t>(ns))); };
  for (const CaseResult& result : results) {
    if (!result.measured() || result.ops == 0 || !wanted(result.bench_case)) continue;
    chart.series.push_back({name_of(result.bench_case), percentiles(result)});
  }
  if (chart.series.size() > 8) chart.series.resize(8);  // As many as there are colours.
  return render_line_chart(chart);
}

std::string latency_charts(const Results& results) {
  const auto depth_name = [](const BenchCase& c) {
    return fmt::format("depth {}{}", c.depth, c.jobs > 1 ? fmt::format(" × {} jobs", c.jobs) : "");
  };
  const auto small_random = [](BenchOp op) {
    return [op](const BenchCase& c) {
      return c.op == op && c.pattern == BenchPattern::kRandom && c.block_bytes == 4 * kKiB &&
             c.mode == BenchMode::kDirect;
    };
  };
  const auto sync_name = [](const BenchCase& c) {
    return fmt::format("{}, {}{}", bench_variant(c), format_size(c.block_bytes),
                       c.jobs > 1 ? fmt::format(" × {}", c.jobs) : "");
  };
  const auto object_name = [](const BenchCase& c) {
    return fmt::format("{} {}", bench_op_name(c.op), format_size(c.block_bytes));
  };
  return latency_chart(results, "How long a random 4 KiB read takes", small_random(BenchOp::kRead),
                       depth_name) +
         latency_chart(
             results, "What it costs to be durable",
             [](const BenchCase& c) { return c.syncs_each(); }, sync_name) +
         latency_chart(
             results, "How long one request takes",
             [](const BenchCase& c) {
               const bool whole = c.op == BenchOp::kPut || c.op == BenchOp::kGet;
               return c.depth == 1 && (whole || c.op == BenchOp::kHead);
             },
             object_name);
}

// The rate at which the test file was written, so that a cliff shows.
std::string rate_chart(const CaseResult& result) {
  LineChart chart;
  chart.title = "Write rate over time";
  chart.subtitle =
      fmt::format("{} written: {}", format_size(result.bytes), bench_case_label(result.bench_case));
  chart.x_title = "seconds";
  chart.x_label = plain_label;
  chart.y_title = "throughput";
  chart.y_label = format_rate;
  chart.filled = true;
  ChartSeries series{"write", {}};
  uint64_t written = 0;
  for (const RateSample& sample : result.rate) {
    written += sample.bytes;
    const double middle = sample.begin_seconds + sample.seconds / 2;
    series.points.push_back(
        {middle, sample.bytes_per_second(),
         fmt::format("{}\nat {:.2f} s, {} written", format_rate(sample.bytes_per_second()), middle,
                     format_size(written))});
  }
  if (series.points.size() < 3) return {};
  chart.x_ticks = linear_ticks(0, result.seconds);
  chart.series.push_back(std::move(series));
  return render_line_chart(chart);
}

std::string rate_charts(const Results& results) {
  std::string out;
  for (const CaseResult& result : results) {
    if (result.measured() && result.bench_case.lays_file) out += rate_chart(result);
  }
  return out;
}

// Streams at once: profiles with jobs have no sweep over depths worth a line.
std::string jobs_bars(const Results& results) {
  const auto name = [](const BenchCase& c) {
    return fmt::format("{}, {}, depth {} × {}", bench_variant(c), format_size(c.block_bytes),
                       c.depth, c.jobs);
  };
  const auto parallel = [](const BenchCase& c) { return c.op == BenchOp::kRead && c.jobs > 1; };
  return bars(results, "Readers side by side", "all jobs together", parallel, name, false);
}

}  // namespace

std::string bench_tip(const CaseResult& result) {
  const auto time = [](int64_t ns) { return format_duration(Nanoseconds(ns)); };
  std::string tip = bench_case_label(result.bench_case);
  if (result.bytes != 0) tip += fmt::format("\n{}", format_rate(result.bytes_per_second()));
  tip += fmt::format("\n{} operations per second", format_count(result.ops_per_second()));
  tip += fmt::format("\np50 {}, p99 {}, p99.9 {}", time(result.latency.p50_ns),
                     time(result.latency.p99_ns), time(result.latency.p999_ns));
  return tip;
}

std::string bench_charts_html(const BenchReport& report) {
  const Results& results = report.results;
  // Cards of like height follow each other: the page has two columns.
  return depth_charts(results) + rate_charts(results) + store_charts(results) +
         mode_bars(results, BenchOp::kRead, "Buffered against direct: read") +
         mode_bars(results, BenchOp::kWrite, "Buffered against direct: write") +
         latency_charts(results) + jobs_bars(results) + small_file_bars(results);
}

}  // namespace penstock::tune
