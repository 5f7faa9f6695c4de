#include <fmt/core.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "cache/clear.h"
#include "cli/cache_command.h"
#include "cli/cache_sources.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress_line.h"
#include "tune/text.h"

namespace penstock::cli {

namespace {

using cache::ClearReport;
using tune::doctor::printable;

struct ClearPlan {
  bool by_entry = false;              // --all or --source.
  std::vector<SourcePatterns> given;  // As in --source.
  std::vector<Glob> sources;          // Empty: everything.
  std::optional<uint64_t> to = {};    // Bytes.
};

Result<ClearPlan> make_plan(const CacheArguments& arguments) {
  ClearPlan plan;
  const bool by_source = !arguments.clear_sources.empty();
  if (!arguments.all && !by_source && arguments.to.empty()) {
    return make_error(ErrorCode::kInvalid,
                      "what? --all, --source ADDRESS or --to SIZE (penstock cache clear --help)");
  }
  if (arguments.all && (by_source || !arguments.to.empty())) {
    return make_error(ErrorCode::kInvalid, "--all leaves nothing for --source or --to");
  }
  plan.by_entry = arguments.all || by_source;
  for (const std::string& source : arguments.clear_sources) {
    plan.given.push_back(PENSTOCK_TRY(source_patterns(source)));
  }
  if (!arguments.to.empty()) plan.to = PENSTOCK_TRY(parse_size(arguments.to));
  return plan;
}

using Directories = std::vector<std::unique_ptr<cache::CacheDirectory>>;

// Whether anything in the cache is from there.
Result<bool> has_any(const Directories& directories, const std::vector<Glob>& sources,
                     const std::stop_token& stop) {
  std::stop_source enough;
  const std::stop_callback on_stop(stop, [&] { enough.request_stop(); });
  std::atomic<bool> found = false;
  cache::ClearOptions options;
  options.sources = sources;
  options.stop = enough.get_token();
  options.drop = [&](const cache::EntryName&) -> Result<void> {  // Only looks.
    found = true;
    enough.request_stop();
    return {};
  };
  for (const auto& directory : directories) {
    PENSTOCK_TRY(cache::clear_entries(*directory, options));
  }
  return found.load();
}

// An address that something is from by these very characters means no more than that.
Result<void> choose_sources(const Directories& directories, const std::stop_token& stop,
                            ClearPlan& plan) {
  for (const SourcePatterns& given : plan.given) {
    const bool literal =
        given.wild.empty() || PENSTOCK_TRY(has_any(directories, given.literal, stop));
    const std::vector<Glob>& chosen = literal ? given.literal : given.wild;
    plan.sources.insert(plan.sources.end(), chosen.begin(), chosen.end());
  }
  return {};
}

Result<ClearReport> clear_by_entry(cache::CacheDirectory& directory, const ClearPlan& plan,
                                   uint32_t jobs, const std::stop_token& stop) {
  ProgressLine line("penstock cache clear");
  EntryRemover remover(directory);
  cache::ClearOptions options;
  options.sources = plan.sources;
  options.stop = stop;
  if (jobs != 0) options.jobs = jobs;
  options.drop = [&](const cache::EntryName& name) { return remover.remove(name); };
  options.on_progress = [&](const cache::ClearProgress& now) {
    if (!line.due()) return;
    line.show(fmt::format("removed {} entries, {}; kept {}", group_digits(now.removed.entries),
                          format_size(now.removed.bytes), group_digits(now.kept.entries)));
  };
  Result<ClearReport> report = cache::clear_entries(directory, options);
  if (report.ok() && plan.sources.empty() && !report->stopped) remover.keeper().count_anew();
  return report;
}

// As a member with that quota: whoever evicts does what is to be done, in the order of usefulness.
Result<void> shrink(cache::CacheDirectory& directory, uint64_t bytes, const std::stop_token& stop) {
  using namespace std::chrono_literals;
  constexpr auto kPatience = 60s;  // Without any progress.
  ProgressLine line("penstock cache clear");
  const auto keeper =
      cache::Keeper::start(directory, {.quota = {.bytes = bytes}, .free_floor = {.bytes = 0}});
  uint64_t least = UINT64_MAX;
  Deadline give_up = deadline_in(kPatience);
  while (!stop.stop_requested()) {
    const Result<void> settled = keeper->settle(deadline_in(200ms));
    if (!settled.ok() && settled.error().code != ErrorCode::kTimeout) return settled;
    const cache::KeeperStatus status = keeper->status();
    if (status.known && status.limit_bytes <= bytes && status.used_bytes <= bytes) return {};
    if (!status.known || status.used_bytes < least) give_up = deadline_in(kPatience);
    if (status.known) least = std::min(least, status.used_bytes);
    if (std::chrono::steady_clock::now() > give_up) {
      return make_error(ErrorCode::kTimeout,
                        fmt::format("{} still holds {}: the process that evicts does not",
                                    directory.path(), format_size(least)));
    }
    if (status.known && line.due()) line.show(fmt::format("{} left", format_size(least)));
  }
  return make_error(ErrorCode::kCancelled, "interrupted");
}

Result<cache::EntrySums> sum_up(cache::CacheDirectory& directory) {
  cache::EntrySums sums;
  PENSTOCK_TRY(directory.scan([&](const cache::EntryName& name) {
    sums.entries += 1;
    sums.bytes += name.file_bytes();
    return true;
  }));
  return sums;
}

struct Outcome {
  std::string path;
  cache::EntrySums removed;
  cache::EntrySums left;
  uint64_t unreadable = 0;
  uint64_t failed = 0;
  std::string why;
  bool stopped = false;
};

Result<Outcome> clear_one(cache::CacheDirectory& directory, const ClearPlan& plan, uint32_t jobs,
                          const std::stop_token& stop) {
  Outcome outcome;
  outcome.path = directory.path();
  const cache::EntrySums before = PENSTOCK_TRY(sum_up(directory));
  if (plan.by_entry) {
    const ClearReport report = PENSTOCK_TRY(clear_by_entry(directory, plan, jobs, stop));
    outcome.removed = report.totals.removed;
    outcome.unreadable = report.unreadable;
    outcome.failed = report.failed;
    if (report.failed > 0) outcome.why = report.first_failure.detail;
  }
  if (plan.to && !stop.stop_requested()) {
    const Result<void> shrunk = shrink(directory, *plan.to, stop);
    if (!shrunk.ok() && shrunk.error().code != ErrorCode::kCancelled) return shrunk.error();
  }
  outcome.left = PENSTOCK_TRY(sum_up(directory));
  if (plan.to) {  // Others may have come and gone meanwhile: the difference is near enough.
    outcome.removed = {before.entries - std::min(before.entries, outcome.left.entries),
                       before.bytes - std::min(before.bytes, outcome.left.bytes)};
  }
  outcome.stopped = stop.stop_requested();
  return outcome;
}

std::string count_entries(uint64_t count) {
  return fmt::format("{} {}", group_digits(count), count == 1 ? "entry" : "entries");
}

std::string render_text(const Outcome& outcome, const CacheArguments& arguments) {
  std::string text =
      fmt::format("{}: removed {} ({}), {} left ({}){}\n", printable(outcome.path),
                  count_entries(outcome.removed.entries), format_size(outcome.removed.bytes),
                  count_entries(outcome.left.entries), format_size(outcome.left.bytes),
                  outcome.stopped ? "; interrupted" : "");
  const bool by_source = !arguments.clear_sources.empty();
  if (by_source && outcome.removed.entries == 0 && !outcome.stopped) {
    text += "  nothing in it is from there: penstock cache show lists what it has\n";
  }
  if (outcome.unreadable > 0) {
    text += fmt::format("  {} entries cannot be read: penstock cache check --repair\n",
                        group_digits(outcome.unreadable));
  }
  return text;
}

nlohmann::json render_json(const Outcome& outcome) {
  return {{"path", outcome.path},
          {"removed_entries", outcome.removed.entries},
          {"removed_bytes", outcome.removed.bytes},
          {"left_entries", outcome.left.entries},
          {"left_bytes", outcome.left.bytes},
          {"unreadable", outcome.unreadable},
          {"failed", outcome.failed},
          {"interrupted", outcome.stopped}};
}

}  // namespace

int run_cache_clear(const CacheArguments& arguments) {
  const std::stop_token stop = stop_on_interrupt();
  Result<ClearPlan> plan = make_plan(arguments);
  if (!plan.ok()) return fail_cache("clear", plan.error());
  auto directories = open_caches(arguments.directories());
  if (!directories.ok()) return fail_cache("clear", directories.error());
  const Result<void> chosen = choose_sources(*directories, stop, *plan);
  if (!chosen.ok()) return fail_cache("clear", chosen.error());
  bool failed = false;
  std::string text;
  nlohmann::json outcomes = nlohmann::json::array();
  for (const auto& directory : *directories) {
    const Result<Outcome> outcome = clear_one(*directory, *plan, arguments.jobs, stop);
    if (!outcome.ok()) return fail_cache("clear", outcome.error());
    if (outcome->failed > 0) {
      tell("penstock cache clear: {} entries could not be removed: {}\n", outcome->failed,
           printable(outcome->why));
      failed = true;
    }
    text += render_text(*outcome, arguments);
    outcomes.push_back(render_json(*outcome));
    if (stop.stop_requested()) break;
  }
  const nlohmann::json json = {{"schema", 1}, {"directories", std::move(outcomes)}};
  const int exit_code = stop.stop_requested() ? kExitInterrupted : failed ? kExitFailed : kExitOk;
  return print_cache("clear",
                     arguments.json
                         ? json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                         : text,
                     exit_code);
}

}  // namespace penstock::cli
