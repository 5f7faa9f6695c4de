#include <fmt/core.h>

#include <algorithm>

#include "tune/bench_render.h"
#include "tune/text.h"

namespace penstock::tune {

namespace {

using doctor::printable;

// Of the first column: the longest name fits.
size_t name_width(const BenchReport& report) {
  size_t width = 30;
  for (const CaseResult& result : report.results) {
    width = std::max(width, bench_variant(result.bench_case).size() + 2);
  }
  return width;
}

std::string table_row(const CaseResult& result, size_t width) {
  const BenchCase& c = result.bench_case;
  const std::string name = "  " + bench_variant(c);
  const std::string block = c.op == BenchOp::kList ? "" : format_size(c.block_bytes);
  const std::string jobs = c.on_objects() ? "" : fmt::format("{}", c.jobs);
  std::string row = fmt::format("{:<{}} {:>8} {:>7} {:>5}", name, width, block, c.depth, jobs);
  if (!result.measured()) {
    return fmt::format("{}   not measured: {}\n", row, printable(result.skipped));
  }
  const std::string rate = result.bytes == 0 ? "-" : format_rate(result.bytes_per_second());
  const double cores = result.seconds > 0 ? result.cpu_seconds / result.seconds : 0;
  return row + fmt::format(" {:>11} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6.0f}%\n", rate,
                           format_count(result.ops_per_second()), time_text(result.latency.p50_ns),
                           time_text(result.latency.p99_ns), time_text(result.latency.p999_ns),
                           time_text(result.latency.max_ns), 100 * cores);
}

std::string section_head(const BenchCase& c, size_t width) {
  const bool objects = c.on_objects();
  return fmt::format("\n{:<{}} {:>8} {:>7} {:>5} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7}\n",
                     bench_section(c), width, objects ? "size" : "block",
                     objects ? "at once" : "depth", objects ? "" : "jobs", "throughput", "per s",
                     "p50", "p99", "p99.9", "max", "CPU");
}

std::string wrapped(std::string_view text, std::string_view first, std::string_view rest) {
  constexpr size_t kWidth = 100;
  std::string out(first);
  size_t column = first.size();
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (column + word.size() > kWidth) {
      out.back() = '\n';  // In the place of the space.
      out += rest;
      column = rest.size();
    }
    out += word;
    out += ' ';
    column += word.size() + 1;
  }
  out.back() = '\n';
  return out;
}

std::string header(const BenchReport& report) {
  const BenchFacts& facts = report.facts;
  std::string out = fmt::format("penstock bench {}\n", printable(facts.target));
  out += fmt::format("  {}\n", printable(describe_target(facts)));
  out += fmt::format("  Linux {}, {} cores, {} of memory; {}\n", facts.kernel, facts.cores,
                     format_size(facts.memory_bytes), printable(facts.engine));
  const std::string_view what = facts.kind == BenchTarget::kStore ? "of objects" : "test file";
  out += fmt::format("  {} profile, {} {}, {:.3g} s per case\n", bench_profile_name(report.profile),
                     format_size(report.size_bytes), what, report.case_seconds);
  return out;
}

}  // namespace

std::string_view bench_section(const BenchCase& c) {
  if (c.on_small_files()) return "Small files";
  if (c.syncs_each()) return "Durable small writes";
  switch (c.op) {
    case BenchOp::kPut:
      return "Put objects";
    case BenchOp::kGet:
    case BenchOp::kGetRange:
      return "Get objects";
    case BenchOp::kHead:
    case BenchOp::kList:
    case BenchOp::kRemove:
      return "Other object requests";
    default:
      break;
  }
  const bool random = c.pattern == BenchPattern::kRandom;
  if (c.op == BenchOp::kRead) return random ? "Random read" : "Sequential read";
  return random ? "Random write" : "Sequential write";
}

std::string bench_variant(const BenchCase& c) {
  switch (c.op) {
    case BenchOp::kCreate:
    case BenchOp::kStat:
    case BenchOp::kHead:
      return std::string(bench_op_name(c.op));
    case BenchOp::kReadFile:
      return fmt::format("read, {}", bench_cache_name(c.cache));
    case BenchOp::kPut:
    case BenchOp::kGet:
      return "whole";
    case BenchOp::kGetRange:
      return "ranges of 64 MiB";
    case BenchOp::kList:
      return "list, 1000 a page";
    case BenchOp::kRemove:
      return "remove, 1000 a request";
    default:
      break;
  }
  std::string text;
  if (c.syncs_each()) {
    const std::string_view verb = c.pattern == BenchPattern::kAppend ? "append" : "overwrite";
    text = fmt::format("{} + {}, ", verb, bench_op_name(c.op));
  }
  text += bench_mode_name(c.mode);
  if (c.cache != BenchCache::kAny) text += fmt::format(", {}", bench_cache_name(c.cache));
  if (c.lays_file) text += ", new file";
  return text;
}

std::string describe_target(const BenchFacts& facts) {
  if (facts.kind == BenchTarget::kStore) return "object store";
  std::string text = facts.file_system.empty() ? "unknown file system" : facts.file_system;
  if (facts.kind == BenchTarget::kBlockDevice) text = "block device";
  if (!facts.device.empty()) text += fmt::format(" on {}", facts.device);
  if (!facts.device_model.empty()) text += fmt::format(" ({})", facts.device_model);
  if (facts.has_holes) text += ", a file with holes";
  // Virtual disks have no model and often claim to rotate.
  if (facts.rotational && !facts.device_model.empty()) text += ", rotating";
  if (facts.total_bytes != 0) {
    text += fmt::format(", {} of {} available", format_size(facts.available_bytes),
                        format_size(facts.total_bytes));
  }
  return text;
}

std::vector<std::string> bench_notices(const BenchReport& report) {
  std::vector<std::string> notices;
  if (report.interrupted) notices.push_back("Interrupted: these are the results until then.");
  if (!report.error.empty()) notices.push_back("Ended early: " + report.error);
  const BenchFacts& facts = report.facts;
  if (facts.load_average > 0.5 * facts.cores && facts.load_average > 1) {
    notices.push_back(
        fmt::format("The machine was busy before the run (load {:.1f} on {} cores): on "
                    "a quiet one the numbers are better.",
                    facts.load_average, facts.cores));
  }
  return notices;
}

std::string render_bench_table(const BenchReport& report) {
  std::string out = header(report);
  const size_t width = name_width(report);
  std::string_view section;
  for (const CaseResult& result : report.results) {
    if (bench_section(result.bench_case) != section) {
      section = bench_section(result.bench_case);
      out += section_head(result.bench_case, width);
    }
    out += table_row(result, width);
  }
  if (!report.findings.empty()) out += "\nWhat this says\n";
  for (const Finding& finding : report.findings) {
    out += wrapped(printable(finding.text), "  - ", "    ");
    if (!finding.advice.empty()) out += wrapped(printable(finding.advice), "    => ", "       ");
  }
  for (const std::string& notice : bench_notices(report)) {
    out += "\n" + printable(notice) + "\n";
  }
  return out;
}

}  // namespace penstock::tune
