#include "cli/sync_output.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cmath>

#include "base/log.h"
#include "cli/output.h"
#include "tune/text.h"

namespace penstock::cli {

namespace {

using sync::Progress;
using sync::Report;
using tune::doctor::printable;

constexpr auto kLineEvery = std::chrono::seconds(10);
constexpr double kMemorySeconds = 5;  // Over which the rate is smoothed.

double seconds_of(Nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::string count_of(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

double rate_of(const Report& report) {
  const double seconds = seconds_of(report.time);
  return seconds > 0 ? static_cast<double>(report.totals.copied_bytes) / seconds : 0;
}

}  // namespace

SyncProgress::SyncProgress(bool quiet)
    : quiet_(quiet),
      terminal_(::isatty(STDERR_FILENO) == 1),
      shown_at_(Clock::now()),
      measured_at_(shown_at_) {}

void SyncProgress::measure(const Progress& progress) {
  const Clock::time_point now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - measured_at_).count();
  if (seconds <= 0) return;
  const double rate = static_cast<double>(progress.moved_bytes - measured_bytes_) / seconds;
  const bool is_first = measured_bytes_ == 0;
  const double weight = is_first ? 1 : 1 - std::exp(-seconds / kMemorySeconds);
  bytes_per_second_ += weight * (rate - bytes_per_second_);
  measured_at_ = now;
  measured_bytes_ = progress.moved_bytes;
}

void SyncProgress::show(const Progress& progress) {
  if (quiet_) return;
  measure(progress);
  const std::string text = progress_text(progress, bytes_per_second_);
  if (terminal_) return tell("\r{:.78}\033[K", text);
  if (Clock::now() - shown_at_ < kLineEvery) return;
  shown_at_ = Clock::now();
  tell("penstock sync: {}\n", text);
}

void SyncProgress::clear() {
  if (!quiet_ && terminal_) tell("\r\033[K");
}

std::string progress_text(const Progress& progress, double bytes_per_second) {
  const std::string rate = format_rate(bytes_per_second);
  if (!progress.listing_done) {
    return fmt::format("{} copied ({}), {} found so far, {}", progress.copied,
                       format_size(progress.moved_bytes), progress.listed, rate);
  }
  std::string text = fmt::format(
      "{} of {} copied, {} of {}, {}", progress.copied, count_of(progress.to_copy, "object"),
      format_size(progress.moved_bytes), format_size(progress.to_copy_bytes), rate);
  if (progress.failed > 0) text += fmt::format(", {} failed", progress.failed);
  const bool has_end = progress.to_copy_bytes > progress.moved_bytes && bytes_per_second > 1;
  if (has_end) {
    const double left = static_cast<double>(progress.to_copy_bytes - progress.moved_bytes);
    const auto seconds = std::chrono::seconds(static_cast<int64_t>(left / bytes_per_second) + 1);
    text += fmt::format(", {} left", format_duration(seconds));
  }
  return text;
}

std::string action_text(sync::Action action, const std::string& key, uint64_t bytes,
                        std::string_view why) {
  const std::string name = printable(key);
  if (action == sync::Action::kCopy) {
    return fmt::format("copy {} ({}, {})\n", name, format_size(bytes), why);
  }
  if (action == sync::Action::kDelete) return fmt::format("delete {}\n", name);
  return fmt::format("{} {} ({})\n", sync::action_name(action), name, why);
}

std::string action_json(sync::Action action, const std::string& key, uint64_t bytes,
                        std::string_view why) {
  return fmt::format(R"({{"action":"{}","key":"{}","bytes":{},"why":"{}"}})"
                     "\n",
                     sync::action_name(action), json_escape(key), bytes, json_escape(why));
}

std::string summary_text(const Report& report, const sync::Options& options) {
  const Progress& totals = report.totals;
  const uint64_t count = options.dry_run ? totals.to_copy : totals.copied;
  const uint64_t bytes = options.dry_run ? totals.to_copy_bytes : totals.copied_bytes;
  std::string text = fmt::format("{} {} ({})", options.dry_run ? "would copy" : "copied",
                                 count_of(count, "object"), format_size(bytes));
  if (!options.dry_run) {
    text += fmt::format(" in {}: {}", format_duration(report.time), format_rate(rate_of(report)));
  }
  text += fmt::format("; {} already there", totals.same);
  if (options.delete_extra) {
    text += fmt::format("; {} {}", totals.deleted, options.dry_run ? "to delete" : "deleted");
  }
  if (report.skipped > 0) text += fmt::format("; {} skipped", report.skipped);
  if (totals.failed > 0) text += fmt::format("; {} failed", totals.failed);
  if (report.stopped) text += "; stopped";
  return text + "\n";
}

std::string summary_json(const Report& report, const sync::Options& options) {
  const Progress& totals = report.totals;
  std::string failures;
  for (const sync::Failure& failure : report.failures) {
    failures += fmt::format(R"({}{{"key":"{}","code":"{}","detail":"{}"}})",
                            failures.empty() ? "" : ",", json_escape(failure.key),
                            error_code_name(failure.error.code), json_escape(failure.error.detail));
  }
  std::string skipped;
  for (const sync::Skip& skip : report.skips) {
    skipped += fmt::format(R"({}"{}")", skipped.empty() ? "" : ",", json_escape(skip.key));
  }
  return fmt::format(
      R"({{"summary":{{"dry_run":{},"stopped":{},"listed":{},"same":{},"to_copy":{},)"
      R"("to_copy_bytes":{},"copied":{},"copied_bytes":{},"deleted":{},"failed":{},"skipped":{},)"
      R"("seconds":{:.3f},"bytes_per_second":{:.0f},"failures":[{}],"skipped_names":[{}]}}}})"
      "\n",
      options.dry_run, report.stopped, totals.listed, totals.same, totals.to_copy,
      totals.to_copy_bytes, totals.copied, totals.copied_bytes, totals.deleted, totals.failed,
      report.skipped, seconds_of(report.time), rate_of(report), failures, skipped);
}

void tell_failures(const Report& report) {
  for (const sync::Failure& failure : report.failures) {
    const std::string name = failure.key.empty() ? "" : printable(failure.key) + ": ";
    tell("penstock sync: {}{}\n", name, printable(failure.error.detail));
  }
  if (report.totals.failed > report.failures.size()) {
    tell("penstock sync: and {} more\n", report.totals.failed - report.failures.size());
  }
}

}  // namespace penstock::cli
