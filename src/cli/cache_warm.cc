#include "cache/warm.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cache/options.h"
#include "cli/cache_command.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/mounts.h"
#include "cli/output.h"
#include "cli/progress_line.h"
#include "penstock/cache.h"
#include "penstock/io.h"
#include "store/identity.h"
#include "store/selection.h"
#include "tune/text.h"

namespace penstock::cli {

namespace {

using cache::WarmProgress;
using cache::WarmReport;
using tune::doctor::printable;

constexpr uint32_t kJobs = 32;
constexpr size_t kMissingMax = 100;
constexpr Nanoseconds kSettleMax = std::chrono::seconds(30);

struct Plan {
  cache::CacheOptions cache;
  cache::WarmOptions warm;
};

// "500MB", "500MB/s"
Result<uint64_t> parse_bandwidth(std::string_view text) {
  if (text.ends_with("/s")) text.remove_suffix(2);
  const uint64_t bytes = PENSTOCK_TRY(parse_size(text));
  if (bytes > 0) return bytes;
  return make_error(ErrorCode::kInvalid, "--bandwidth 0: expected more than nothing, as in 500MB");
}

Result<Plan> make_plan(const CacheArguments& arguments) {
  Plan plan;
  plan.cache.directories = arguments.directories();
  if (!arguments.quota.empty()) {
    plan.cache.quota = PENSTOCK_TRY(parse_size_or_percent(arguments.quota));
  }
  if (!arguments.floor.empty()) {
    plan.cache.free_floor = PENSTOCK_TRY(parse_size_or_percent(arguments.floor));
  }
  if (!arguments.window.empty()) {
    plan.cache.window_bytes = PENSTOCK_TRY(parse_size(arguments.window));
  }
  plan.warm.jobs = arguments.jobs == 0 ? kJobs : arguments.jobs;
  plan.warm.verify = arguments.verify;
  plan.warm.window_bytes = plan.cache.window_bytes;
  if (!arguments.bandwidth.empty()) {
    plan.warm.bytes_per_second = PENSTOCK_TRY(parse_bandwidth(arguments.bandwidth));
  }
  // A quarter of it is for fills under way: what was fetched must find room there.
  const uint64_t needed = uint64_t{4} * plan.warm.jobs * (plan.cache.window_bytes + 64 * kKiB);
  plan.cache.memory_bytes = std::max(plan.cache.memory_bytes, needed);
  PENSTOCK_TRY(cache::check_options(plan.cache));
  return plan;
}

struct Sources {
  store::Selection selection;
  std::vector<std::unique_ptr<cache::CachedStore>> stores;
  std::vector<std::string> cache_directories;  // As parts of the identity of a tree.
  std::vector<std::string> made;               // Those that were no caches yet.
};

// A cache takes a directory that it cannot use for a drive that is ill, and goes on without it. Who
// typed its name should rather hear what is wrong. Answers those that were made: where a drive is not
// mounted, that is how it shows.
Result<std::vector<std::string>> check_directories(io::FileSystem& fs,
                                                   const cache::CacheOptions& options) {
  std::vector<std::string> made;
  for (const std::string& path : options.directories) {
    const std::string directory = cache::normal_directory(path, true);
    const auto there =
        cache::CacheDirectory::open(fs, directory, options.mode, /*must_exist=*/true);
    if (!there.ok() && there.error().code == ErrorCode::kNotFound) made.push_back(directory);
    PENSTOCK_TRY(cache::CacheDirectory::open(fs, directory, options.mode));
  }
  return made;
}

// All that can be found wrong with what was typed comes before a cache is made.
Result<Sources> open_sources(const CacheArguments& arguments, const cache::CacheOptions& options,
                             std::shared_ptr<cache::Cache>& cache) {
  io::FileSystem& fs = *PENSTOCK_TRY(io::process_file_system());
  Sources sources{PENSTOCK_TRY(store::Selection::parse(arguments.sources, fs)), {}, {}, {}};
  std::vector<std::unique_ptr<store::ObjectStore>> opened;
  for (const std::string& address : sources.selection.stores()) {
    opened.push_back(PENSTOCK_TRY(store::open_store(address, {.read_only = true})));
  }
  sources.made = PENSTOCK_TRY(check_directories(fs, options));
  cache = PENSTOCK_TRY(cache::Cache::open(options));
  for (const std::string& path : options.directories) {
    sources.cache_directories.push_back(
        PENSTOCK_TRY(store::directory_identity(fs, "tree", cache::normal_directory(path, true))));
  }
  for (auto& store : opened) {
    sources.stores.push_back(cache::make_cached_store(std::move(store), cache));
  }
  return sources;
}

// Warming, with what is not there noted on the way.
class Warming {
 public:
  Warming(const CacheArguments& arguments, Plan plan, Sources sources)
      : arguments_(arguments),
        plan_(std::move(plan)),
        sources_(std::move(sources)),
        progress_("penstock cache warm") {}

  Result<void> run() {
    plan_.warm.on_progress = [this](const WarmProgress& now) { show(now); };
    Result<WarmReport> report =
        cache::warm([this](const cache::WarmTake& take) { return list(take); }, plan_.warm);
    progress_.clear();
    report_ = PENSTOCK_TRY(std::move(report));
    return {};
  }

  // After what was staged is on the drives.
  int conclude(const cache::CacheStats& stats);

 private:
  Result<void> list(const cache::WarmTake& take) {
    std::vector<store::ObjectStore*> stores;
    for (const auto& store : sources_.stores) stores.push_back(store.get());
    Result<void> outside;
    const Result<void> listed = sources_.selection.for_each(
        stores,
        [&](size_t store, const store::ObjectInfo& object) {
          outside = check_outside_cache(stores[store]->identity() + object.key);
          return outside.ok() && take(*sources_.stores[store], object);
        },
        [&](const std::string& address) {
          ++missing_count_;
          if (missing_.size() < kMissingMax) missing_.push_back(address);
        },
        {.cancel = plan_.warm.stop});
    return outside.ok() ? listed : outside;
  }

  // A cache that holds itself would grow with every warming.
  Result<void> check_outside_cache(const std::string& url) const {
    for (const std::string& directory : sources_.cache_directories) {
      if (!url.starts_with(directory)) continue;
      return make_error(
          ErrorCode::kInvalid,
          fmt::format("{} is a file of the cache itself, which lies inside what it is "
                      "to hold: use another directory for it, or name less",
                      url));
    }
    return {};
  }

  void show(const WarmProgress& now) {
    meter_.add(now.done_bytes());
    if (!progress_.due()) return;
    const uint64_t done = now.done_bytes();
    const auto left = now.listed ? meter_.time_for(now.bytes - done) : std::nullopt;
    progress_.show(
        fmt::format("{} of {}{}  {}{}", format_size(done), now.listed ? "" : "at least ",
                    format_size(now.bytes), format_rate(meter_.per_second()),
                    left ? fmt::format("  {} left", format_duration(*left)) : std::string()));
  }

  void tell_problems() const;
  void tell_room(const cache::CacheStats& stats) const;
  std::string summary() const;
  std::string made_text() const;
  std::string json(const cache::CacheStats& stats) const;

  const CacheArguments& arguments_;
  Plan plan_;
  Sources sources_;
  ProgressLine progress_;
  RateMeter meter_;
  std::vector<std::string> missing_;
  uint64_t missing_count_ = 0;
  WarmReport report_;
};

void Warming::tell_problems() const {
  for (const std::string& address : missing_) {
    tell("penstock cache warm: there is nothing at {}\n", printable(address));
  }
  if (missing_count_ > missing_.size()) {
    tell("penstock cache warm: and {} more\n", missing_count_ - missing_.size());
  }
  for (const cache::WarmFailure& failure : report_.failures) {
    tell("penstock cache warm: {}: {}\n", printable(failure.object),
         printable(failure.error.detail));
  }
  const uint64_t failed = report_.totals.failed_objects;
  if (failed > report_.failures.size()) {
    tell("penstock cache warm: and {} more\n", failed - report_.failures.size());
  }
}

void Warming::tell_room(const cache::CacheStats& stats) const {
  const WarmProgress& totals = report_.totals;
  if (stats.directories_off > 0) {
    tell("penstock cache warm: {} of {} cache directories cannot be used now; {} were for them\n",
         stats.directories_off, arguments_.directories().size(), format_size(totals.no_room_bytes));
    return;
  }
  if (totals.no_room_bytes == 0) return;
  const uint64_t there = totals.fetched_bytes + totals.there_bytes;
  tell(
      "penstock cache warm: no room for {}: the cache holds {} of {}; an epoch will hit about {}\n",
      format_size(totals.no_room_bytes), format_size(there), format_size(totals.bytes),
      format_share(there, totals.bytes));
  const uint64_t others = stats.used_bytes - std::min(stats.used_bytes, totals.file_bytes);
  if (others > stats.limit_bytes / 20) {
    tell("  {} of the {} it may use hold other data: penstock cache show, penstock cache clear\n",
         format_size(others), format_size(stats.limit_bytes));
  } else {
    tell(
        "  it may use {}: a larger --quota, a smaller --floor or one more --cache-dir would hold "
        "more; is its file system full, or out of inodes (df -i)?\n",
        format_size(stats.limit_bytes));
  }
}

std::string Warming::summary() const {
  const WarmProgress& totals = report_.totals;
  const double seconds = std::max(std::chrono::duration<double>(report_.time).count(), 1e-3);
  if (totals.objects == 0) {
    return report_.stopped ? "interrupted before anything was found\n" : "nothing to fetch\n";
  }
  const std::string end = report_.stopped ? "; interrupted" : "";
  std::string text =
      fmt::format("{} objects, {}: ", group_digits(totals.objects), format_size(totals.bytes));
  if (totals.fetched_bytes == 0) {
    const double rate = static_cast<double>(totals.there_bytes) / seconds;
    return text + fmt::format("{} were there{} ({}{}){}\n", format_size(totals.there_bytes),
                              arguments_.verify ? " and are well" : "",
                              format_duration(report_.time),
                              arguments_.verify ? ", " + format_rate(rate) : "", end);
  }
  text += fmt::format("fetched {} in {} ({})", format_size(totals.fetched_bytes),
                      format_duration(report_.time),
                      format_rate(static_cast<double>(totals.fetched_bytes) / seconds));
  if (totals.there_bytes > 0) {
    text += fmt::format("; {} were there", format_size(totals.there_bytes));
  }
  return text + end + "\n";
}

// So that one sees when it is on the file system below a mount point.
std::string Warming::made_text() const {
  std::string text;
  for (const std::string& path : sources_.made) {
    const Result<io::LocalFileSystem*> fs = io::process_file_system();
    const auto mount = fs.ok() ? mount_of(**fs, path) : std::nullopt;
    text += fmt::format("made a new cache in {}{}\n", printable(path),
                        mount ? fmt::format(", on the {} that is mounted at {}", mount->type,
                                            printable(mount->point))
                              : "");
  }
  return text;
}

std::string Warming::json(const cache::CacheStats& stats) const {
  const WarmProgress& totals = report_.totals;
  nlohmann::json failures = nlohmann::json::array();
  for (const cache::WarmFailure& failure : report_.failures) {
    failures.push_back({{"object", failure.object},
                        {"code", error_code_name(failure.error.code)},
                        {"error", failure.error.detail}});
  }
  const nlohmann::json report = {
      {"schema", 1},
      {"directories", arguments_.directories()},
      {"made", sources_.made},
      {"objects", totals.objects},
      {"bytes", totals.bytes},
      {"fetched_bytes", totals.fetched_bytes},
      {"there_bytes", totals.there_bytes},
      {"no_room_bytes", totals.no_room_bytes},
      {"failed_bytes", totals.failed_bytes},
      {"failed_objects", totals.failed_objects},
      {"failures", failures},
      {"missing", missing_},
      {"missing_count", missing_count_},
      {"seconds", std::chrono::duration<double>(report_.time).count()},
      {"interrupted", report_.stopped},
      {"used_bytes", stats.used_bytes},
      {"limit_bytes", stats.limit_bytes},
      {"directories_off", stats.directories_off},
  };
  return report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

int Warming::conclude(const cache::CacheStats& stats) {
  tell_problems();
  if (!report_.stopped) tell_room(stats);
  const bool failed =
      report_.totals.failed_objects > 0 || missing_count_ > 0 || stats.directories_off > 0;
  const int exit_code = report_.stopped ? kExitInterrupted : failed ? kExitFailed : kExitOk;
  return print_cache("warm", arguments_.json ? json(stats) : made_text() + summary(), exit_code);
}

}  // namespace

int run_cache_warm(const CacheArguments& arguments) {
  const std::stop_token stop = stop_on_interrupt();
  Result<Plan> plan = make_plan(arguments);
  if (!plan.ok()) return fail_cache("warm", plan.error());
  plan->warm.stop = stop;
  std::shared_ptr<cache::Cache> cache;
  Result<Sources> sources = open_sources(arguments, plan->cache, cache);
  if (!sources.ok()) return fail_cache("warm", sources.error());
  Warming warming(arguments, std::move(*plan), std::move(*sources));
  const Result<void> warmed = warming.run();
  if (!warmed.ok()) return fail_cache("warm", warmed.error());
  cache->settle(deadline_in(kSettleMax));
  return warming.conclude(cache->stats());
}

}  // namespace penstock::cli
