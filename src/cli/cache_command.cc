#include "cli/cache_command.h"

#include <fmt/core.h>

#include <cerrno>

#include "cli/commands.h"
#include "cli/output.h"
#include "tune/text.h"

namespace penstock::cli {

namespace {

using ArgumentsRef = std::shared_ptr<CacheArguments>;

constexpr const char* kFooter =
    "What it is, how large it should be, several drives: docs/CACHING.md\n\n"
    "  penstock cache warm /nvme/cache 's3://bucket/train-*.tar'\n"
    "  penstock cache warm /nvme0/cache --cache-dir /nvme1/cache tree:/mnt/lustre/data\n"
    "  penstock cache show /nvme/cache\n"
    "  penstock cache check /nvme/cache --repair\n"
    "  penstock cache clear /nvme/cache --source s3://bucket/old --to 500GiB";

constexpr const char* kWarmFooter =
    "SOURCE is s3://BUCKET/KEY, pen://VOLUME/PATH, tree:PATH or a path: an object, or else all\n"
    "that is below it.\n"
    "Wildcards are matched against keys: * ? [a-z] ** {a,b} {000..999}. Quote them, or the shell\n"
    "looks for files. What is in the cache already is not fetched again.\n"
    "Exit code: 0 all is there that fits, 1 something could not be fetched, 2 wrong usage, 130 "
    "interrupted.\n\n"
    "  penstock cache warm /nvme/cache 's3://bucket/train-*.tar'\n"
    "  penstock cache warm /nvme/cache 's3://bucket/train-{000..999}.tar' --bandwidth 2GB\n"
    "  penstock cache warm /nvme0/cache --cache-dir /nvme1/cache /mnt/lustre/data --quota 90%";

constexpr const char* kCheckFooter =
    "Readers verify every byte they get from the cache anyway: a damaged entry costs time, never\n"
    "wrong data. Files that are not the cache's are named and never touched.\n"
    "Exit code: 0 all is well (or was repaired), 1 something is wrong, 2 wrong usage, 130 "
    "interrupted.";

constexpr const char* kClearFooter =
    "Safe while others use the cache: they read from the source what is gone. Asks nothing.\n\n"
    "  penstock cache clear /nvme/cache --all\n"
    "  penstock cache clear /nvme/cache --source s3://bucket/old --source tree:/mnt/old\n"
    "  penstock cache clear /nvme/cache --to 500GiB          # what is least useful goes first";

void add_directories(CLI::App& command, const ArgumentsRef& arguments, const char* help) {
  command.add_option("DIR", arguments->directory, help)->type_name("")->required();
  command
      .add_option("--cache-dir", arguments->more_directories,
                  "One more directory of the same cache, on another drive; may be repeated")
      ->type_name("DIR")
      ->allow_extra_args(false);
}

void add_json(CLI::App& command, const ArgumentsRef& arguments) {
  command.add_flag("--json", arguments->json, "Print JSON (docs/CACHING.md)");
}

void add_jobs(CLI::App& command, const ArgumentsRef& arguments, const char* help) {
  command.add_option("--jobs", arguments->jobs, help)->type_name("N")->check(CLI::Range(1U, 128U));
}

CLI::App* add_warm(CLI::App& cache, const ArgumentsRef& arguments) {
  CLI::App* command =
      cache.add_subcommand("warm", "Fetch objects into the cache before they are read");
  add_directories(*command, arguments, "The cache; made when it is missing");
  command->add_option("SOURCE", arguments->sources, "What to fetch; may be repeated")
      ->type_name("")
      ->required();
  command
      ->add_option("--quota", arguments->quota,
                   "What the cache may use in each directory: a size, or a share of its file "
                   "system (80%). The smallest of all who use it now holds")
      ->type_name("SIZE");
  command
      ->add_option("--floor", arguments->floor,
                   "What is always left free on each file system: a size or a share (5%)")
      ->type_name("SIZE");
  command
      ->add_option("--window", arguments->window,
                   "The unit of fetching: as the readers' window_bytes (4MiB)")
      ->type_name("SIZE");
  command
      ->add_option("--bandwidth", arguments->bandwidth,
                   "Fetch no more than this a second, as in 500MB")
      ->type_name("SIZE");
  add_jobs(*command, arguments, "Windows fetched at once (32)");
  command->add_flag("--verify", arguments->verify, "Read and check what is there already");
  add_json(*command, arguments);
  command->footer(kWarmFooter);
  return command;
}

CLI::App* add_show(CLI::App& cache, const ArgumentsRef& arguments) {
  CLI::App* command =
      cache.add_subcommand("show", "What is in the cache, from where, hit rates, who uses it");
  add_directories(*command, arguments, "The cache");
  command->add_flag("--objects", arguments->objects, "Every object, and how much of it is there");
  add_json(*command, arguments);
  return command;
}

CLI::App* add_check(CLI::App& cache, const ArgumentsRef& arguments) {
  CLI::App* command = cache.add_subcommand("check", "Read and verify everything in the cache");
  add_directories(*command, arguments, "The cache");
  command->add_flag("--repair", arguments->repair,
                    "Remove damaged entries, and what killed processes left behind");
  add_jobs(*command, arguments, "Entries read at once (16)");
  add_json(*command, arguments);
  command->footer(kCheckFooter);
  return command;
}

CLI::App* add_clear(CLI::App& cache, const ArgumentsRef& arguments) {
  CLI::App* command = cache.add_subcommand("clear", "Make room");
  add_directories(*command, arguments, "The cache");
  command
      ->add_option("--source", arguments->clear_sources,
                   "Remove what came from here: an address as for warm, or as show prints it; may "
                   "be repeated")
      ->type_name("ADDRESS")
      ->allow_extra_args(false);
  command
      ->add_option("--to", arguments->to,
                   "Remove what is least useful until each directory holds no more than this")
      ->type_name("SIZE");
  command->add_flag("--all", arguments->all, "Remove everything; hit rates begin anew");
  add_jobs(*command, arguments, "Entries looked at once (16)");
  add_json(*command, arguments);
  command->footer(kClearFooter);
  return command;
}

}  // namespace

std::vector<std::string> CacheArguments::directories() const {
  std::vector<std::string> paths = {directory};
  paths.insert(paths.end(), more_directories.begin(), more_directories.end());
  return paths;
}

int fail_cache(std::string_view verb, const Error& error) {
  tell("penstock cache {}: {}\n", verb, tune::doctor::printable(error.detail));
  if (error.code == ErrorCode::kCancelled) return kExitInterrupted;
  return error.code == ErrorCode::kInvalid ? kExitUsage : kExitFailed;
}

int print_cache(std::string_view verb, std::string_view text, int exit_code) {
  const Result<void> printed = print_all(text);
  if (printed.ok()) return exit_code;
  // Whoever closed the pipe has seen enough.
  if (printed.error().os_errno == EPIPE) return kExitFailed;
  (void)fail_cache(verb, printed.error());
  return kExitFailed;
}

void add_cache_command(CLI::App& app, Run& run) {
  CLI::App* cache = app.add_subcommand(
      "cache", "Keep object storage and slow mounts on local drives: warm, show, check, clear");
  cache->require_subcommand(1);
  cache->footer(kFooter);
  const auto add = [&](CLI::App* (*add_verb)(CLI::App&, const ArgumentsRef&),
                       int (*run_verb)(const CacheArguments&)) {
    const auto arguments = std::make_shared<CacheArguments>();
    add_verb(*cache, arguments)->callback([arguments, run_verb, &run] {
      run = [arguments, run_verb] { return run_verb(*arguments); };
    });
  };
  add(add_warm, run_cache_warm);
  add(add_show, run_cache_show);
  add(add_check, run_cache_check);
  add(add_clear, run_cache_clear);
}

}  // namespace penstock::cli
