#include <fmt/core.h>

#include <algorithm>
#include <functional>

#include "tune/bench_charts.h"
#include "tune/bench_html_assets.h"
#include "tune/bench_html_charts.h"
#include "tune/bench_render.h"

namespace penstock::tune {

namespace {

std::string tile(const std::string& value, const std::string& what) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", html_escape(value),
                     html_escape(what));
}

// The largest (or, for `least`, smallest) value of the cases that are wanted, as a tile.
struct Headline {
  std::string what;
  std::function<bool(const BenchCase&)> wanted;
  std::function<double(const CaseResult&)> value;
  std::function<std::string(double)> text;
  bool least = false;
};

std::string headline_tile(const Headline& headline, const std::vector<CaseResult>& results) {
  const CaseResult* best = nullptr;
  for (const CaseResult& result : results) {
    if (!result.measured() || result.ops == 0 || !headline.wanted(result.bench_case)) continue;
    const bool better =
        best == nullptr || (headline.least ? headline.value(result) < headline.value(*best)
                                           : headline.value(result) > headline.value(*best));
    if (better) best = &result;
  }
  return best == nullptr ? "" : tile(headline.text(headline.value(*best)), headline.what);
}

std::vector<Headline> headlines() {
  const auto rate = [](const CaseResult& r) { return r.bytes_per_second(); };
  const auto ops = [](const CaseResult& r) { return r.ops_per_second(); };
  const auto p50 = [](const CaseResult& r) { return static_cast<double>(r.latency.p50_ns); };
  const auto count = [](double value) { return format_count(value); };
  const auto time = [](double ns) { return time_text(static_cast<int64_t>(ns)); };
  const auto file = [](BenchOp op, BenchPattern pattern) {
    return [=](const BenchCase& c) {
      return c.op == op && c.pattern == pattern && c.mode == BenchMode::kDirect;
    };
  };
  const auto object = [](BenchOp op) { return [op](const BenchCase& c) { return c.op == op; }; };
  const auto alone = [](const BenchCase& c) {
    return c.op == BenchOp::kRead && c.pattern == BenchPattern::kRandom && c.depth == 1 &&
           c.mode == BenchMode::kDirect && c.block_bytes == 4 * kKiB;
  };
  using enum BenchPattern;
  return {{"sequential read, direct", file(BenchOp::kRead, kSequential), rate, format_rate},
          {"sequential write, direct", file(BenchOp::kWrite, kSequential), rate, format_rate},
          {"random reads per second", file(BenchOp::kRead, kRandom), ops, count},
          {"one random 4 KiB read", alone, p50, time, true},
          {"append + fsync", object(BenchOp::kWriteSync), p50, time, true},
          {"small files created per second", object(BenchOp::kCreate), ops, count},
          {"get objects", object(BenchOp::kGet), rate, format_rate},
          {"put objects", object(BenchOp::kPut), rate, format_rate},
          {"gets per second", object(BenchOp::kGet), ops, count},
          {"puts per second", object(BenchOp::kPut), ops, count},
          {"first answer (head)", object(BenchOp::kHead), p50, time, true}};
}

std::string findings_html(const std::vector<Finding>& findings) {
  if (findings.empty()) return {};
  std::string out = "<h2>What this says</h2>\n<ul class=\"findings\">\n";
  for (const Finding& finding : findings) {
    out += fmt::format("<li>{}", html_escape(finding.text));
    if (!finding.advice.empty()) out += fmt::format("<em>{}</em>", html_escape(finding.advice));
    out += "</li>\n";
  }
  return out + "</ul>\n";
}

std::string html_row(const CaseResult& result) {
  const BenchCase& c = result.bench_case;
  std::string out =
      fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td>", html_escape(bench_variant(c)),
                  c.op == BenchOp::kList ? "" : format_size(c.block_bytes), c.depth, c.jobs);
  if (!result.measured()) {
    return out + fmt::format("<td class=\"skipped\" colspan=\"8\">not measured: {}</td></tr>\n",
                             html_escape(result.skipped));
  }
  const LatencySummary& l = result.latency;
  const double cores = result.seconds > 0 ? result.cpu_seconds / result.seconds : 0;
  out += fmt::format("<td>{}</td><td>{}</td>",
                     result.bytes == 0 ? "" : format_rate(result.bytes_per_second()),
                     format_count(result.ops_per_second()));
  for (const int64_t ns : {l.p50_ns, l.p90_ns, l.p99_ns, l.p999_ns, l.max_ns}) {
    out += fmt::format("<td>{}</td>", time_text(ns));
  }
  return out + fmt::format("<td>{:.0f} %</td></tr>\n", 100 * cores);
}

std::string table_html(const std::vector<CaseResult>& results) {
  std::string out =
      "<h2>All results</h2>\n<div class=\"scroll\"><table><thead><tr><th>case</th><th>block</th>"
      "<th>depth</th><th>jobs</th><th>throughput</th><th>per second</th><th>p50</th><th>p90</th>"
      "<th>p99</th><th>p99.9</th><th>max</th><th>CPU</th></tr></thead><tbody>\n";
  std::string_view section;
  for (const CaseResult& result : results) {
    if (bench_section(result.bench_case) != section) {
      section = bench_section(result.bench_case);
      out += fmt::format("<tr class=\"section\"><td colspan=\"12\">{}</td></tr>\n", section);
    }
    out += html_row(result);
  }
  return out + "</tbody></table></div>\n";
}

std::string facts_html(const BenchReport& report) {
  const BenchFacts& facts = report.facts;
  std::string out = "<h2>Measured on</h2>\n<dl class=\"facts\">\n";
  const auto fact = [&out](std::string_view name, const std::string& value) {
    if (value.empty()) return;
    out += fmt::format("<dt>{}</dt><dd>{}</dd>\n", name, html_escape(value));
  };
  fact("Target", facts.target);
  fact("Storage", describe_target(facts));
  fact("Mount", facts.mount_point.empty()
                    ? ""
                    : fmt::format("{} ({})", facts.mount_point, facts.mount_options));
  fact("I/O scheduler", facts.scheduler);
  fact("Engine", facts.engine);
  fact("Kernel", facts.kernel);
  fact("CPU", facts.cpu.empty() ? "" : fmt::format("{}, {} cores", facts.cpu, facts.cores));
  fact("Memory", format_size(facts.memory_bytes));
  fact("Plan", fmt::format("{} profile, {}, {:.3g} s per case", bench_profile_name(report.profile),
                           format_size(report.size_bytes), report.case_seconds));
  fact("Date", facts.date);
  fact("Penstock", facts.version);
  return out + "</dl>\n";
}

std::string notices_html(const BenchReport& report) {
  std::string out;
  for (const std::string& notice : bench_notices(report)) {
    out += fmt::format("<p class=\"notice\">{}</p>\n", html_escape(notice));
  }
  return out;
}

}  // namespace

std::string render_bench_html(const BenchReport& report) {
  const std::string target = html_escape(report.facts.target);
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<title>penstock bench {}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n",
      target, kBenchStyle);
  out += fmt::format("<header><h1><small>Penstock bench</small>{}</h1><p>{}<br/>{}</p></header>\n",
                     target, html_escape(describe_target(report.facts)),
                     html_escape(report.facts.date));
  out += notices_html(report) + "<div class=\"tiles\">\n";
  for (const Headline& headline : headlines()) out += headline_tile(headline, report.results);
  out += "</div>\n" + findings_html(report.findings);
  const std::string charts = bench_charts_html(report);
  if (!charts.empty()) out += "<h2>Plots</h2>\n<div class=\"charts\">\n" + charts + "</div>\n";
  out += table_html(report.results) + facts_html(report);
  out += fmt::format(
      "<footer>Throughput in powers of 1000 (GB/s), sizes in powers of 1024 (MiB). CPU is that of "
      "the benchmark, kernel time included; 100 % is one core.</footer>\n</main>\n"
      "<div id=\"tip\"></div>\n<script>{}</script>\n</body>\n</html>\n",
      kBenchScript);
  return out;
}

}  // namespace penstock::tune
