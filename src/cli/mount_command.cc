#include "cli/mount_command.h"

#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/daemon.h"
#include "cli/interrupt.h"
#include "cli/mount_beside.h"
#include "cli/mount_set.h"
#include "cli/output.h"
#include "cli/volume_command.h"
#include "mount/metrics_file.h"
#include "penstock/io.h"
#include "tune/text.h"
#include "volume/owner.h"

namespace penstock::cli {

namespace {

using tune::doctor::printable;

constexpr auto kCommandPatience = std::chrono::seconds(5);
constexpr auto kCommandPause = std::chrono::milliseconds(100);

constexpr const char* kFooter =
    "NAME is that of a volume (penstock volume list), or the directory of one. The mount is served "
    "by\n"
    "a process in the background; its log is mount.log in the volume's directory. What it "
    "promises:\n"
    "docs/SEMANTICS.md. 'penstock umount DIR' or 'umount DIR' ends it. While a volume is mounted, "
    "--ro and\n"
    "--at show it elsewhere too: the process that has it serves them.\n"
    "In /etc/fstab:  NAME DIR fuse.penstock noatime,_netdev 0 0   (options as here, with _ for -)\n"
    "Exit code: 0 mounted, 1 it could not be, 2 wrong usage, 130 interrupted.\n\n"
    "  penstock mount train /mnt/train --noatime\n"
    "  penstock mount train /mnt/train --cache-dir /nvme/cache --cache-quota 80%\n"
    "  penstock mount train /mnt/then --at '2026-11-14 09:00'\n"
    "  penstock mount train /mnt/train --writeback-max 100GiB --writeback-max-age 30s --memory "
    "1GiB";

int fail_mount(const Error& error) {
  tell("penstock mount: {}\n", printable(error.detail));
  if (error.code == ErrorCode::kCancelled) return kExitInterrupted;
  return error.code == ErrorCode::kInvalid ? kExitUsage : kExitFailed;
}

// Where the volume is, and what is to be seen of it.
struct Target {
  std::string host;  // The directory of the volume.
  NewMount wanted;
  std::string log;           // Empty: standard error.
  std::string metrics_file;  // Empty: none.
};

// In the mount itself the first write would wait for itself.
Result<void> check_metrics_file(const std::string& path, const std::string& directory) {
  if (path.empty()) return {};
  const std::string parent =
      PENSTOCK_TRY(mount_point_path(std::filesystem::path(path).parent_path().string()));
  if (!(parent + "/").starts_with(directory + "/")) return {};
  return make_error(ErrorCode::kInvalid,
                    fmt::format("--metrics-file: {} would lie in the mount itself", path));
}

Result<Target> find_target(const MountArguments& arguments, const MountPlan& plan) {
  PENSTOCK_TRY(check_metrics_file(plan.metrics_file, arguments.directory));
  PENSTOCK_TRY(check_mount_point(arguments.directory));
  const volume::Registry registry = PENSTOCK_TRY(user_registry());
  const volume::VolumeAddress address = PENSTOCK_TRY(registry.resolve(arguments.name));
  Target target;
  target.host = std::filesystem::absolute(address.directory).lexically_normal().string();
  target.log = arguments.log_file;
  if (target.log.empty() && !arguments.foreground) target.log = target.host + "/mount.log";
  target.wanted = {.volume = address.name,
                   .directory = arguments.directory,
                   .live = !arguments.read_only && arguments.at.empty(),
                   .at = PENSTOCK_TRY(parse_at(arguments.at)),
                   .options = plan.mount};
  target.metrics_file = plan.metrics_file;
  return target;
}

// Who has the volume from now on: this process, or the one that mounted it for us.
struct TakenOver {
  std::shared_ptr<volume::Owner> owner;
  volume::control::MountAnswer answer = {};
};

Result<std::shared_ptr<volume::Owner>> own(const std::string& host, MountPlan& plan,
                                           const volume::OwnerOptions& options) {
  if (plan.cache && !plan.host.cache) {
    plan.host.cache = PENSTOCK_TRY(cache::Cache::open(*plan.cache));
  }
  return volume::Owner::open(host, plan.host, options);
}

// A command that has the volume for a moment is waited for, and so is a process that just starts or
// ends.
Result<TakenOver> take_over(const Target& target, MountPlan& plan,
                            const volume::OwnerOptions& options, const std::stop_token& stop) {
  const Deadline deadline = deadline_in(kCommandPatience);
  while (true) {
    const Result<volume::control::MountAnswer> asked =
        volume::mount_beside(target.host, request_for(target.wanted), stop);
    if (asked.ok()) return TakenOver{nullptr, *asked};
    Error error = asked.error();
    if (error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kPermission) {
      Result<std::shared_ptr<volume::Owner>> owner = own(target.host, plan, options);
      if (owner.ok()) return TakenOver{std::move(*owner)};
      if (owner.error().code != ErrorCode::kBusy) return owner.error();
      if (error.code == ErrorCode::kPermission) return error;
      error = owner.error();
    } else if (error.code != ErrorCode::kUnsupported) {
      return error;
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return explain_busy(error, target.wanted.options.source, target.host);
    }
    if (stop.stop_requested()) return make_error(ErrorCode::kCancelled, "interrupted");
    std::this_thread::sleep_for(kCommandPause);
  }
}

// Nothing where nobody wants it.
Result<std::unique_ptr<mount::MetricsFile>> start_metrics(const std::shared_ptr<volume::Host>& host,
                                                          const std::string& volume,
                                                          const std::string& path) {
  if (path.empty()) return std::unique_ptr<mount::MetricsFile>();
  io::FileSystem* const fs = PENSTOCK_TRY(io::process_file_system());
  const std::shared_ptr<volume::Admin> admin = volume::make_local_admin(host);
  auto file =
      mount::MetricsFile::start(*fs, path, [admin, name = volume] { return admin->metrics(name); });
  if (!file.ok()) return file.error().with_context("--metrics-file");
  return file;
}

std::string started_text(const MountArguments& arguments,
                         const volume::control::MountAnswer& mounted) {
  if (!arguments.json) return {};
  nlohmann::ordered_json json = {{"volume", mounted.volume},
                                 {"directory", arguments.directory},
                                 {"pid", mounted.pid},
                                 {"read_only", mounted.version.has_value()},
                                 {"log", mounted.log}};
  if (mounted.version) json["version"] = *mounted.version;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Result<void> begin_and_serve(const MountArguments& arguments, const Target& target,
                             const std::shared_ptr<volume::Host>& host, MountSet& mounts,
                             Daemon& daemon, const std::stop_token& stop) {
  const Mounted mounted = PENSTOCK_TRY(mounts.begin(host, target.host, target.wanted));
  auto metrics = PENSTOCK_TRY(start_metrics(host, mounted.volume, target.metrics_file));
  if (!target.log.empty()) PENSTOCK_TRY(log_to_file(target.log));
  log_info("mounted",
           {{"volume", mounted.volume}, {"directory", arguments.directory}, {"pid", ::getpid()}});
  PENSTOCK_TRY(print_all(started_text(arguments, {.volume = mounted.volume,
                                                  .pid = ::getpid(),
                                                  .version = mounted.version,
                                                  .log = target.log})));
  if (!arguments.foreground) daemon.ready();
  Result<void> done = mounts.serve(stop);
  metrics.reset();
  // What others changed through the control socket.
  const Result<meta::Version> committed = host->commit();
  if (done.ok() && !committed.ok()) done = committed.error();
  if (!done.ok()) log_error("the mount has ended", {{"error", done.error().detail}});
  return done;
}

Result<void> mount_and_serve(const MountArguments& arguments, MountPlan& options, Daemon& daemon) {
  const std::stop_token stop = stop_on_interrupt();
  const Target target = PENSTOCK_TRY(find_target(arguments, options));
  const auto feed = std::make_shared<volume::ChangeFeed>();
  MountSet mounts(feed);  // Before the owner, which asks it.
  const TakenOver taken = PENSTOCK_TRY(take_over(
      target, options,
      {.mounted_at = [&mounts](std::string_view volume) { return mounts.mounted_at(volume); },
       .feed = feed,
       .mount_beside =
           [&mounts, &target](const auto& request, const std::stop_token& cancel) {
             return answer_mount(mounts, request, cancel, target.log);
           }},
      stop));
  if (taken.owner) {
    return begin_and_serve(arguments, target, taken.owner->host(), mounts, daemon, stop);
  }
  note_ignored(arguments, taken.answer.pid);
  PENSTOCK_TRY(print_all(started_text(arguments, taken.answer)));
  return arguments.foreground ? stay_until_unmounted(arguments.directory, stop) : Result<void>();
}

int run_mount(MountArguments& arguments) {
  Result<void> taken = take_mount_options(arguments);
  if (!taken.ok()) return fail_mount(taken.error());
  Result<MountPlan> plan = plan_mount(arguments);
  if (!plan.ok()) return fail_mount(plan.error());
  Result<std::string> directory = mount_point_path(arguments.directory);
  if (!directory.ok()) return fail_mount(directory.error());
  arguments.directory = std::move(*directory);
  Daemon daemon;
  if (!arguments.foreground) {
    const Result<std::optional<int>> left = daemon.leave();
    if (!left.ok()) return fail_mount(left.error());
    if (*left) return **left;
  }
  const Result<void> done = mount_and_serve(arguments, *plan, daemon);
  if (done.ok()) return kExitOk;
  return fail_mount(done.error());
}

void add_content_options(CLI::App& command, MountArguments& arguments) {
  command.add_flag("--ro", arguments.read_only,
                   "Read-only, as the volume is now: nothing changes underneath");
  command
      .add_option("--at", arguments.at,
                  "Read-only, as it was then: '2026-11-14 09:00', or how long ago (3h)")
      ->type_name("TIME");
  command
      .add_option("--cache-dir", arguments.cache_directories,
                  "Keep what is read from a far store on this drive; may be repeated")
      ->type_name("DIR")
      ->allow_extra_args(false);
  command
      .add_option("--cache-quota", arguments.cache_quota,
                  "What the cache may use in each directory: a size, or a share (80%)")
      ->type_name("SIZE");
  command.add_option("--memory", arguments.memory, "For content that was read, at most (256MiB)")
      ->type_name("SIZE");
  command.add_flag(
      "--writeback", arguments.writeback,
      "Acknowledge what is in the journal of this machine, and store it later. Volumes of one "
      "machine always do, on S3 too: for them it changes nothing");
  command
      .add_option("--writeback-max", arguments.writeback_max,
                  "How much may wait in the journal to be stored; then writers wait (4GiB)")
      ->type_name("SIZE");
  command
      .add_option("--writeback-max-age", arguments.writeback_max_age,
                  "How long it may wait there before it is stored (30s)")
      ->type_name("TIME");
  command
      .add_option(
          "--io-timeout", arguments.io_timeout,
          "A request to the store that is not answered until then fails, and so does a write "
          "that waited so long for room in the journal (60s)")
      ->type_name("TIME");
  command.add_flag(
      "--let-sleep", arguments.let_sleep,
      "Let processors sleep between requests, however many come: saves power, and each "
      "takes about twice as long");
  command.add_flag("--gather-writes", arguments.gather_writes,
                   "The kernel gathers writes until close, fsync, or some seconds: many times "
                   "faster for those of a few KiB; a close costs a request more");
}

void add_access_options(CLI::App& command, MountArguments& arguments) {
  command.add_flag("--noatime", arguments.noatime, "Never record when files were read");
  command.add_flag("--relatime", arguments.relatime,
                   "Only after a change, and once a day (the default)");
  command.add_flag("--strictatime", arguments.strictatime, "Whenever they are read");
  command.add_flag("--noexec", arguments.noexec, "Run no programs from there");
  command.add_flag("--nosuid", arguments.nosuid, "Ignore set-user-ID bits");
  command.add_flag("--nodev", arguments.nodev, "Device nodes are not devices");
  command.add_flag("--acl", arguments.acl, "POSIX access control lists");
  command.add_option("--uid", arguments.uid, "All files belong to this user")->type_name("USER");
  command.add_option("--gid", arguments.gid, "All files belong to this group")->type_name("GROUP");
  command.add_flag("--no-allow-other", arguments.no_allow_other, "Only for the user who mounts");
}

void add_watch_options(CLI::App& command, MountArguments& arguments) {
  command.add_option("--log-file", arguments.log_file, "Where to log instead")->type_name("FILE");
  command
      .add_option(
          "--metrics-file", arguments.metrics_file,
          "Write metrics there every 15 seconds, for the textfile collector of node_exporter "
          "(docs/METRICS.md)")
      ->type_name("FILE");
  command
      .add_option("--slow-request", arguments.slow_request,
                  "Log what takes longer, and what it waits for; 0: nothing (10s)")
      ->type_name("TIME");
}

}  // namespace

void add_mount_command(CLI::App& app, Run& run) {
  const auto arguments = std::make_shared<MountArguments>();
  CLI::App* command = app.add_subcommand("mount", "Show a volume as a directory");
  command->add_option("NAME", arguments->name, "The volume")->type_name("")->required();
  command->add_option("DIR", arguments->directory, "An existing directory")
      ->type_name("")
      ->required();
  add_content_options(*command, *arguments);
  add_access_options(*command, *arguments);
  command->add_flag("--foreground", arguments->foreground,
                    "Serve in this process, until Ctrl-C; log to standard error");
  add_watch_options(*command, *arguments);
  command
      ->add_option("-o", arguments->options,
                   "Options as mount(8) and fstab write them: ro,noatime,cache_dir=/nvme/cache")
      ->type_name("LIST")
      ->allow_extra_args(false);
  command->add_flag("--json", arguments->json, "Print JSON: volume, directory, pid, version, log");
  command->footer(kFooter);
  command->callback([arguments, &run] { run = [arguments] { return run_mount(*arguments); }; });
}

}  // namespace penstock::cli
