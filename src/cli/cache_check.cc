#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "cache/checkup.h"
#include "cli/cache_command.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress_line.h"
#include "tune/text.h"

namespace penstock::cli {

namespace {

using cache::CheckupFinding;
using cache::CheckupProgress;
using cache::CheckupReport;
using tune::doctor::printable;

Result<CheckupReport> check_one(cache::CacheDirectory& directory, const CacheArguments& arguments,
                                const std::stop_token& stop) {
  ProgressLine line("penstock cache check");
  RateMeter meter;
  std::optional<EntryRemover> remover;
  cache::CheckupOptions options;
  options.stop = stop;
  if (arguments.jobs != 0) options.jobs = arguments.jobs;
  options.on_progress = [&](const CheckupProgress& now) {
    meter.add(now.bytes);
    if (!line.due()) return;
    const auto left = meter.time_for(now.bytes_total - now.bytes);
    line.show(fmt::format("{} of {}  {}{}{}", format_size(now.bytes), format_size(now.bytes_total),
                          format_rate(meter.per_second()),
                          left ? fmt::format("  {} left", format_duration(*left)) : "",
                          now.problems > 0 ? fmt::format("  {} problems", now.problems) : ""));
  };
  if (arguments.repair) {
    remover.emplace(directory);
    options.drop = [&](const cache::EntryName& name) { return remover->remove(name); };
    options.sweep = [&] { return directory.sweep(); };
  }
  return cache::check_directory(directory, options);
}

std::string counts_text(const CheckupReport& report) {
  std::string text;
  const auto add = [&](uint64_t count, std::string_view name) {
    if (count == 0) return;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", group_digits(count), name);
  };
  add(report.damaged, "damaged");
  if (report.removed > 0) text += fmt::format(" ({} removed)", group_digits(report.removed));
  add(report.unreadable, "unreadable");
  add(report.newer, "of a newer version");
  add(report.foreign, "foreign");
  add(report.leftovers, "left over");
  return text.empty() ? "all is well" : text;
}

// What to do about it.
std::string advice(const CheckupReport& report) {
  std::string text;
  if (report.damaged > report.removed) {
    text += "  damaged entries are never served; --repair removes them, readers fetch them again\n";
  }
  if (report.unreadable > 0) text += "  the drive fails: see dmesg, and replace it\n";
  if (report.foreign > 0) {
    text += "  foreign files take room and are never touched: remove them yourself\n";
  }
  return text;
}

std::string render_text(const std::string& path, const CheckupReport& report) {
  const double seconds = std::max(std::chrono::duration<double>(report.time).count(), 1e-3);
  constexpr size_t kShown = 100;
  std::string text;
  for (const CheckupFinding& finding : report.findings) {
    if (&finding == &report.findings[0] + kShown) {
      text += "  and more: --json names the first thousand\n";
      break;
    }
    text += fmt::format("  {:<10}  {}: {}{}\n", finding_kind_name(finding.kind),
                        printable(finding.path), printable(finding.why),
                        finding.removed ? "; removed" : "");
  }
  return fmt::format("{}: {} entries, {} verified in {} ({}): {}{}\n{}{}", printable(path),
                     group_digits(report.entries), format_size(report.bytes),
                     format_duration(report.time),
                     format_rate(static_cast<double>(report.bytes) / seconds), counts_text(report),
                     report.stopped ? "; interrupted" : "", text, advice(report));
}

nlohmann::json render_json(const std::string& path, const CheckupReport& report) {
  nlohmann::json findings = nlohmann::json::array();
  for (const CheckupFinding& finding : report.findings) {
    findings.push_back({{"kind", finding_kind_name(finding.kind)},
                        {"path", finding.path},
                        {"why", finding.why},
                        {"removed", finding.removed}});
  }
  return {{"path", path},
          {"healthy", report.healthy()},
          {"entries", report.entries},
          {"bytes", report.bytes},
          {"damaged", report.damaged},
          {"removed", report.removed},
          {"unreadable", report.unreadable},
          {"newer", report.newer},
          {"foreign", report.foreign},
          {"leftovers", report.leftovers},
          {"findings", std::move(findings)},
          {"seconds", std::chrono::duration<double>(report.time).count()},
          {"interrupted", report.stopped}};
}

}  // namespace

int run_cache_check(const CacheArguments& arguments) {
  const std::stop_token stop = stop_on_interrupt();
  auto directories = open_caches(arguments.directories());
  if (!directories.ok()) return fail_cache("check", directories.error());
  bool healthy = true;
  std::string text;
  nlohmann::json reports = nlohmann::json::array();
  for (const auto& directory : *directories) {
    const Result<CheckupReport> report = check_one(*directory, arguments, stop);
    if (!report.ok()) return fail_cache("check", report.error());
    healthy = healthy && report->healthy();
    text += render_text(directory->path(), *report);
    reports.push_back(render_json(directory->path(), *report));
    if (stop.stop_requested()) break;
  }
  const nlohmann::json json = {
      {"schema", 1}, {"healthy", healthy}, {"directories", std::move(reports)}};
  const int exit_code = stop.stop_requested() ? kExitInterrupted : healthy ? kExitOk : kExitFailed;
  return print_cache("check",
                     arguments.json
                         ? json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                         : text,
                     exit_code);
}

}  // namespace penstock::cli
