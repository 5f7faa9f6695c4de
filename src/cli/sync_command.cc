#include <fmt/core.h>

#include <cerrno>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/mounts.h"
#include "cli/output.h"
#include "cli/sync_output.h"
#include "penstock/io.h"
#include "penstock/s3.h"
#include "penstock/sync.h"
#include "sync/stripe.h"
#include "tune/text.h"

namespace penstock::cli {

namespace {

using tune::doctor::printable;

constexpr uint64_t kMemoryMin = 64 * kMiB;
constexpr uint32_t kConnectionsMin = 64;
constexpr uint32_t kConnectionsMax = 1024;

struct SyncArguments {
  std::string from;
  std::string to;
  uint32_t jobs = sync::Options{}.jobs;
  bool checksum = false;
  bool delete_extra = false;
  bool dry_run = false;
  std::vector<sync::Filter> filters;  // In the order they were given.
  std::string bandwidth;
  std::string memory;
  bool no_verify = false;
  std::optional<int64_t> stripes;
  bool verbose = false;
  bool json = false;
  bool quiet = false;
};

Result<uint64_t> parse_option_size(std::string_view option, const std::string& text) {
  const Result<uint64_t> size = parse_size(text);
  if (!size.ok()) return size.error().with_context(option);
  return size;
}

Result<sync::Options> parse_options(const SyncArguments& arguments) {
  sync::Options options;
  options.jobs = arguments.jobs;
  options.checksum = arguments.checksum;
  options.delete_extra = arguments.delete_extra;
  options.dry_run = arguments.dry_run;
  options.verify = !arguments.no_verify;
  options.filters = arguments.filters;
  for (const sync::Filter& filter : options.filters) PENSTOCK_TRY(sync::check_filter(filter));
  if (!arguments.bandwidth.empty()) {
    options.bytes_per_second = PENSTOCK_TRY(parse_option_size("--bandwidth", arguments.bandwidth));
    if (options.bytes_per_second == 0) {
      return make_error(ErrorCode::kInvalid, "--bandwidth: nothing moves at 0 bytes a second");
    }
  }
  if (!arguments.memory.empty()) {
    options.memory_bytes = PENSTOCK_TRY(parse_option_size("--memory", arguments.memory));
    if (options.memory_bytes < kMemoryMin) {
      return make_error(ErrorCode::kInvalid,
                        fmt::format("--memory: at least {} are needed", format_size(kMemoryMin)));
    }
  }
  return options;
}

Result<store::S3Options> s3_options(const sync::Options& options) {
  store::S3Options s3 = PENSTOCK_TRY(store::s3_options_from_environment());
  s3.connections = std::clamp(options.jobs, kConnectionsMin, kConnectionsMax);
  s3.part_bytes = options.part_bytes;
  s3.verify_content = options.verify;
  return s3;
}

struct Places {
  std::unique_ptr<sync::Place> from;
  std::unique_ptr<sync::Place> to;
};

Result<Places> open_places(const SyncArguments& arguments, const sync::Options& options) {
  std::optional<store::S3Options> s3;
  if (arguments.from.starts_with("s3://") || arguments.to.starts_with("s3://")) {
    s3 = PENSTOCK_TRY(s3_options(options));
  }
  store::StoreOptions store;
  store.s3 = s3 ? &*s3 : nullptr;
  Places places;
  places.from = PENSTOCK_TRY(
      sync::open_place(arguments.from, {.read_only = true, .store = store, .stop = options.stop}));
  places.to = PENSTOCK_TRY(sync::open_place(
      arguments.to,
      {.create = true, .read_only = options.dry_run, .store = store, .stop = options.stop}));
  return places;
}

std::string file_system_type(const sync::Place& place) {
  if (place.file_system == nullptr) return "";
  const auto mount = mount_of(*place.file_system, place.directory);
  return mount ? mount->type : "";
}

// Sets the striping of directories as they are made, and remembers what went wrong.
class Striping {
 public:
  Striping(sync::Striper striper, std::string root)
      : striper_(std::move(striper)), root_(std::move(root)) {}

  static Result<std::unique_ptr<Striping>> create(int64_t stripes, const sync::Place& to) {
    const char* path = std::getenv("PATH");
    sync::Striper striper =
        PENSTOCK_TRY(sync::Striper::create(stripes, to.description(), file_system_type(to),
                                           sync::find_program("lfs", path != nullptr ? path : "")));
    return std::make_unique<Striping>(std::move(striper), to.directory);
  }

  void apply(const std::string& folder) {
    const Result<void> applied = striper_.apply(folder.empty() ? root_ : root_ + "/" + folder);
    if (applied.ok()) return;
    std::lock_guard lock(mutex_);
    if (failed_++ == 0) tell("penstock sync: {}\n", printable(applied.error().detail));
  }
  uint64_t failed() const { return failed_; }

 private:
  const sync::Striper striper_;
  const std::string root_;
  std::mutex mutex_;
  uint64_t failed_ = 0;
};

int fail(const Error& error) {
  tell("penstock sync: {}\n", printable(error.detail));
  return error.code == ErrorCode::kInvalid ? kExitUsage : kExitFailed;
}

// Who closed the pipe has seen enough; the copying goes on.
void print_line(const std::string& line) {
  (void)print_all(line);
}

void add_callbacks(sync::Options& options, const SyncArguments& arguments, SyncProgress& progress) {
  options.on_progress = [&](const sync::Progress& now) { progress.show(now); };
  if (!arguments.verbose && !arguments.dry_run) return;
  options.on_action = [&](sync::Action action, const std::string& key, uint64_t bytes,
                          std::string_view why) {
    if (arguments.json) return print_line(action_json(action, key, bytes, why));
    progress.clear();
    print_line(action_text(action, key, bytes, why));
  };
}

void tell_skipped(const sync::Report& report, const SyncArguments& arguments) {
  const bool told = arguments.verbose || arguments.dry_run || arguments.quiet || arguments.json;
  if (told || report.skipped == 0) return;
  for (const sync::Skip& skip : report.skips) {
    tell("penstock sync: skipped {}: {}\n", printable(skip.key), skip.why);
  }
  if (report.skipped > report.skips.size()) {
    tell("penstock sync: and {} more\n", report.skipped - report.skips.size());
  }
}

int tell_report(const sync::Report& report, const SyncArguments& arguments,
                const sync::Options& options) {
  tell_skipped(report, arguments);
  if (!arguments.json) tell_failures(report);
  if (options.delete_extra && report.totals.failed > 0 && report.totals.deleted == 0) {
    tell("penstock sync: nothing was deleted, because of the failures\n");
  }
  Result<void> printed;
  if (arguments.json) printed = print_all(summary_json(report, options));
  if (!arguments.json && !arguments.quiet) printed = print_all(summary_text(report, options));
  if (report.stopped) return kExitInterrupted;
  if (!printed.ok() && printed.error().os_errno != EPIPE) return fail(printed.error());
  return report.totals.failed == 0 ? kExitOk : kExitFailed;
}

// What kept it from beginning, or ended it.
int fail_whole(const Error& error, const SyncArguments& arguments) {
  if (arguments.json) {
    print_line(fmt::format(R"({{"error":{{"code":"{}","detail":"{}"}}}})"
                           "\n",
                           error_code_name(error.code), json_escape(error.detail)));
  }
  return fail(error);
}

int run_sync(const SyncArguments& arguments) {
  const std::stop_token stop = stop_on_interrupt();
  Result<sync::Options> options = parse_options(arguments);
  if (!options.ok()) return fail_whole(options.error(), arguments);
  options->stop = stop;
  Result<Places> places = open_places(arguments, *options);
  if (!places.ok())
    return stop.stop_requested() ? kExitInterrupted : fail_whole(places.error(), arguments);
  std::unique_ptr<Striping> striping;
  if (arguments.stripes) {
    Result<std::unique_ptr<Striping>> created = Striping::create(*arguments.stripes, *places->to);
    if (!created.ok()) {
      fail(created.error().with_context("--stripe"));
      return kExitUsage;
    }
    striping = std::move(*created);
    options->on_directory = [&](const std::string& folder) { striping->apply(folder); };
  }
  SyncProgress progress(arguments.quiet);
  add_callbacks(*options, arguments, progress);
  const Result<sync::Report> report = sync::run(*places->from, *places->to, *options);
  progress.clear();
  if (!report.ok())
    return stop.stop_requested() ? kExitInterrupted : fail_whole(report.error(), arguments);
  const int code = tell_report(*report, arguments, *options);
  const bool striped = striping == nullptr || striping->failed() == 0;
  return code == kExitOk && !striped ? kExitFailed : code;
}

constexpr const char* kFooter =
    "Copies what is missing at TO or differs there: by size and time of change, or by content "
    "with\n"
    "--checksum. Every object appears whole or not at all; a run that was stopped is continued by\n"
    "the same command. More: docs/SYNC.md\n\n"
    "  penstock sync s3://bucket/raw/ /nvme/raw --jobs 64\n"
    "  penstock sync ./imagenet s3://bucket/imagenet --exclude '*.tmp'\n"
    "  penstock sync /mnt/lustre/data /nvme/data --include '*.tar' --dry-run\n"
    "  penstock sync s3://a/x s3://b/y --delete\n\n"
    "Patterns: '*' and '?' match within a name, '**' across folders; one with a '/' that is not "
    "its\n"
    "last is matched from the top, any other at every level; one that ends with '/' matches "
    "folders\n"
    "only. The first that matches decides; what none matches is taken, unless the first is an "
    "include.\n"
    "Exit status: 0 all copied, 1 something failed, 2 wrong usage, 130 interrupted.";

void add_places(CLI::App& command, SyncArguments& arguments) {
  command
      .add_option("FROM", arguments.from,
                  "What to copy: a directory or file, tree:DIR, or s3://BUCKET/PREFIX")
      ->required()
      ->type_name("");
  command
      .add_option("TO", arguments.to,
                  "Where to: a directory, which is made when it is missing, "
                  "tree:DIR, or s3://BUCKET/PREFIX")
      ->required()
      ->type_name("");
}

void add_filters(CLI::App& command) {
  for (const auto& [name, help] :
       {std::pair("--include",
                  "Only these (when it comes first), or these all the same; repeatable"),
        std::pair("--exclude", "Not these; repeatable")}) {
    command.add_option(name, help)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->type_name("PATTERN");
  }
}

// Includes and excludes are one list: their order counts.
std::vector<sync::Filter> given_filters(const CLI::App& command) {
  std::vector<sync::Filter> filters;
  std::map<std::string, size_t> seen;
  for (const CLI::Option* option : command.parse_order()) {
    const std::string name = option->get_name();
    if (name != "--include" && name != "--exclude") continue;
    filters.push_back({name == "--include", option->results().at(seen[name]++)});
  }
  return filters;
}

void add_limits(CLI::App& command, SyncArguments& arguments) {
  command.add_option("--jobs", arguments.jobs, "Objects, or ranges of large ones, at once (32)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  command
      .add_option("--bandwidth", arguments.bandwidth,
                  "At most so many bytes a second, such as 200MB")
      ->type_name("SIZE");
  command
      .add_option("--memory", arguments.memory,
                  "At most so much memory for what is being copied (512MiB)")
      ->type_name("SIZE");
}

}  // namespace

void add_sync_command(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<SyncArguments>();
  CLI::App* command =
      app.add_subcommand("sync", "Copy what differs: directories and s3://, any to any");
  add_places(*command, *arguments);
  add_limits(*command, *arguments);
  command->add_flag("--checksum", arguments->checksum, "Compare contents, not times");
  command->add_flag("--delete", arguments->delete_extra,
                    "Afterwards delete what only TO has; not after failures, and not what the "
                    "patterns leave out");
  command->add_flag("--dry-run", arguments->dry_run, "Print what would be done; write nothing");
  add_filters(*command);
  command->add_flag("--no-verify", arguments->no_verify,
                    "Do not read files back, nor check S3's MD5");
  command
      ->add_option("--stripe", arguments->stripes,
                   "On Lustre: stripes of files in new directories; -1: all there are")
      ->type_name("N");
  CLI::Option* verbose =
      command->add_flag("--verbose", arguments->verbose, "Print every object that is copied");
  CLI::Option* json =
      command->add_flag("--json", arguments->json, "Print JSON, one object per line");
  command->add_flag("--quiet", arguments->quiet, "Print failures only")
      ->excludes(json)
      ->excludes(verbose);
  command->footer(kFooter);
  command->callback([arguments, command, &run] {
    arguments->filters = given_filters(*command);
    run = [arguments] { return run_sync(*arguments); };
  });
}

}  // namespace penstock::cli
