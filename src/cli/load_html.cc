#include "cli/load_html.h"

#include <fmt/core.h>

#include "tune/bench_charts.h"
#include "tune/bench_html_assets.h"

namespace penstock::cli {

namespace {

using tune::ChartSeries;
using tune::html_escape;
using tune::LineChart;

using Value = double LoadMoment::*;
using Label = std::function<std::string(double)>;

std::string percent_label(double share) {
  return fmt::format("{:.0f} %", share * 100);
}

ChartSeries series_of(const LoadPage& page, std::string name, Value value, const Label& label) {
  ChartSeries series{std::move(name), {}};
  for (const LoadMoment& moment : page.moments) {
    const std::string tip =
        fmt::format("{:.1f} s\n{} {}", moment.end, series.name, label(moment.*value));
    series.points.push_back({moment.end, moment.*value, tip});
  }
  return series;
}

LineChart over_time(std::string title, std::string subtitle, Label label) {
  LineChart chart;
  chart.title = std::move(title);
  chart.subtitle = std::move(subtitle);
  chart.x_title = "seconds";
  chart.x_label = [](double x) { return fmt::format("{:g}", x); };
  chart.y_label = std::move(label);
  return chart;
}

std::string charts_html(const LoadPage& page) {
  if (page.moments.size() < 2) return "";
  const Label count = [](double value) { return format_count(value); };
  const Label rate = [](double value) { return format_rate(value); };
  LineChart samples = over_time("Samples per second", "delivered to the consumer", count);
  samples.filled = true;
  samples.series = {series_of(page, "samples/s", &LoadMoment::samples_per_second, count)};
  LineChart busy =
      over_time("Who is busy", "share of the time of threads, storage and consumer", percent_label);
  busy.series = {series_of(page, "threads decode", &LoadMoment::decode, percent_label),
                 series_of(page, "threads read", &LoadMoment::read, percent_label),
                 series_of(page, "storage busy", &LoadMoment::storage, percent_label),
                 series_of(page, "consumer waits", &LoadMoment::waiting, percent_label)};
  LineChart bytes = over_time("Read", "bytes per second, from storage or the page cache", rate);
  bytes.filled = true;
  bytes.series = {series_of(page, "read", &LoadMoment::bytes_per_second, rate)};
  LineChart ready = over_time("Batches ready", "when the consumer asked for one", count);
  ready.filled = true;
  ready.series = {series_of(page, "ready", &LoadMoment::ready,
                            [](double value) { return fmt::format("{:.1f}", value); })};
  std::string out = "<h2>Timeline</h2>\n<div class=\"charts\">\n";
  for (const LineChart& chart : {samples, busy, bytes, ready}) out += render_line_chart(chart);
  return out + "</div>\n";
}

std::string tile(const std::string& value, std::string_view what) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", html_escape(value),
                     what);
}

std::string tiles_html(const LoadPage& page) {
  const loader::Report& report = page.report;
  const double wall = std::max(1e-9, std::chrono::duration<double>(report.elapsed).count());
  return "<div class=\"tiles\">\n" +
         tile(format_count(page.explanation.samples_per_second), "samples per second") +
         tile(format_rate(static_cast<double>(report.bytes_read) / wall), "read") +
         tile(percent_label(page.explanation.idle_share), "of its time the consumer waited") +
         tile(format_duration(report.next_p50), "next(), median") +
         tile(format_duration(report.next_p99), "next(), 99th percentile") +
         tile(format_duration(report.first_batch), "to the first batch") + "</div>\n";
}

std::string verdict_html(const loader::Explanation& explanation) {
  std::string out =
      fmt::format("<h2>Why would a GPU wait?</h2>\n<ul class=\"findings\"><li>{}</li>",
                  html_escape(explanation.verdict));
  for (const std::string& one : explanation.advice)
    out += fmt::format("<li>{}</li>", html_escape(one));
  return out + "</ul>\n";
}

}  // namespace

std::string render_load_html(const LoadPage& page) {
  const std::string source = html_escape(page.source);
  return fmt::format(
             "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
             "<title>penstock load {0}</title>\n<style>{1}</style>\n</head>\n<body>\n<main>\n"
             "<header><h1><small>Penstock load</small>{0}</h1><p>{2}</p></header>\n",
             source, tune::kBenchStyle, html_escape(page.options)) +
         tiles_html(page) + verdict_html(page.explanation) + charts_html(page) +
         fmt::format(
             "<h2>Report</h2>\n<div class=\"scroll\"><pre style=\"padding: 0 "
             "18px\">{}</pre></div>\n",
             html_escape(loader::to_text(page.report, page.explanation))) +
         fmt::format("</main>\n<div id=\"tip\"></div>\n<script>{}</script>\n</body>\n</html>\n",
                     tune::kBenchScript);
}

}  // namespace penstock::cli
