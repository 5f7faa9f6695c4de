#include "cli/mount_command.h"

#include <fmt/core.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/log.h"
#include "base/thread_pool.h"
#include "cli/commands.h"
#include "cli/daemon.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/volume_command.h"
#include "mount/metrics_file.h"
#include "penstock/io.h"
#include "tune/text.h"
#include "volume/owner.h"

namespace penstock::cli {

namespace {

using tune::doctor::printable;

// A signal waits so long for programs to let go of the mount: at a shutdown they were told to end
// too.
constexpr auto kBusyPatience = std::chrono::seconds(5);
constexpr auto kCommandPatience = std::chrono::seconds(5);
constexpr auto kCommandPause = std::chrono::milliseconds(100);

constexpr const char* kFooter =
    "NAME is that of a volume (penstock volume list), or the directory of one. The mount is served "
    "by\n"
    "a process in the background; its log is mount.log in the volume's directory. What it "
    "promises:\n"
    "docs/SEMANTICS.md. 'penstock umount DIR' or 'umount DIR' ends it.\n"
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

// A process that died leaves its mount, which answers nothing any more.
Result<void> clear_dead_mount(const std::string& directory) {
  const auto mount = mount_at(directory);
  if (!mount || mount->type != kMountType) return {};
  // Something that the kernel does not know by itself.
  char byte = 0;
  if (::getxattr(directory.c_str(), ::penstock::mount::kStatusAttribute, &byte, 0) >= 0 ||
      errno != ENOTCONN) {
    return {};
  }
  if (::umount2(directory.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0) {
    return errno_error(errno, fmt::format("unmount {}, whose process has died", directory));
  }
  tell("penstock mount: {} was mounted by a process that has died; unmounted\n",
       printable(directory));
  return {};
}

Result<void> check_mount_point(const std::string& directory) {
  PENSTOCK_TRY(clear_dead_mount(directory));
  struct stat info {};
  if (::stat(directory.c_str(), &info) != 0) {
    if (errno != ENOENT) return errno_error(errno, directory);
    return make_error(ErrorCode::kNotFound,
                      fmt::format("there is no directory {0}; make it: mkdir -p {0}", directory));
  }
  if (!S_ISDIR(info.st_mode)) {
    return make_error(ErrorCode::kInvalid, fmt::format("{} is no directory", directory));
  }
  const auto mount = mount_at(directory);
  if (mount && mount->type == kMountType) {
    return make_error(
        ErrorCode::kExists,
        fmt::format("{0} is mounted already (volume {1}); to end that: penstock umount "
                    "{0}",
                    directory, mount->source));
  }
  return {};
}

// The drive that the blocks lie on, unless they lie elsewhere.
std::function<std::optional<io::SpaceInfo>()> space_of(const std::string& store,
                                                       const std::string& directory) {
  if (store.starts_with("s3://")) return nullptr;
  return [directory]() -> std::optional<io::SpaceInfo> {
    const Result<io::LocalFileSystem*> fs = io::process_file_system();
    if (!fs.ok()) return std::nullopt;
    const Result<io::SpaceInfo> space = (*fs)->space(directory);
    return space.ok() ? std::optional(*space) : std::nullopt;
  };
}

struct Served {
  std::string directory;  // Of the host.
  std::string name;       // Of the volume in it.
  std::shared_ptr<volume::Owner> owner;
  std::shared_ptr<volume::Host> host;  // Its.
  std::unique_ptr<mount::Mount> mount;
  std::optional<meta::Version> version;
};

// A command that has the volume for a moment is waited for; another mount is not.
Result<std::shared_ptr<volume::Owner>> take_over(const MountArguments& arguments,
                                                 const std::string& directory,
                                                 const MountPlan& plan) {
  const Deadline deadline = deadline_in(kCommandPatience);
  while (true) {
    Result<std::shared_ptr<volume::Owner>> owner = volume::Owner::open(
        directory, plan.host, {.mounted_at = arguments.directory, .feed = plan.mount.changes});
    if (owner.ok() || owner.error().code != ErrorCode::kBusy) return owner;
    if (std::chrono::steady_clock::now() >= deadline || mount_of_host(directory)) {
      return explain_busy(owner.error(), arguments.name, directory);
    }
    std::this_thread::sleep_for(kCommandPause);
  }
}

Result<Served> start_mount(const MountArguments& arguments, MountPlan& plan) {
  PENSTOCK_TRY(check_mount_point(arguments.directory));
  const volume::Registry registry = PENSTOCK_TRY(user_registry());
  const volume::VolumeAddress address = PENSTOCK_TRY(registry.resolve(arguments.name));
  Served served;
  served.directory = std::filesystem::absolute(address.directory).lexically_normal().string();
  if (plan.cache) plan.host.cache = PENSTOCK_TRY(cache::Cache::open(*plan.cache));
  plan.mount.changes = std::make_shared<volume::ChangeFeed>();
  served.owner = PENSTOCK_TRY(take_over(arguments, served.directory, plan));
  served.host = served.owner->host();
  served.name = address.name;
  if (served.name.empty()) served.name = PENSTOCK_TRY(served.host->volumes()).front();
  if (arguments.read_only || !arguments.at.empty()) {
    served.version = PENSTOCK_TRY(version_at(*served.host, arguments.at));
    plan.mount.version = served.version;
  }
  const meta::Settings settings = PENSTOCK_TRY(served.host->open(served.name))->settings();
  plan.mount.space = space_of(settings.store, served.directory);
  served.mount =
      PENSTOCK_TRY(mount::Mount::start(served.host, served.name, arguments.directory, plan.mount));
  return served;
}

// In the mount itself the first write would wait for itself.
Result<void> check_metrics_file(const std::string& path, const std::string& directory) {
  if (path.empty()) return {};
  const std::string parent =
      PENSTOCK_TRY(mount_point_path(std::filesystem::path(path).parent_path().string()));
  if (!(parent + "/").starts_with(directory + "/")) return {};
  return make_error(ErrorCode::kInvalid,
                    fmt::format("--metrics-file: {} would lie in the mount itself", path));
}

// Nothing where nobody wants it.
Result<std::unique_ptr<mount::MetricsFile>> start_metrics(const Served& served,
                                                          const std::string& path) {
  if (path.empty()) return std::unique_ptr<mount::MetricsFile>();
  io::FileSystem* const fs = PENSTOCK_TRY(io::process_file_system());
  const std::shared_ptr<volume::Admin> admin = volume::make_local_admin(served.host);
  auto file = mount::MetricsFile::start(
      *fs, path, [admin, name = served.name] { return admin->metrics(name); });
  if (!file.ok()) return file.error().with_context("--metrics-file");
  return file;
}

std::string started_text(const MountArguments& arguments, const Served& served,
                         const std::string& log) {
  if (!arguments.json) return {};
  nlohmann::ordered_json json = {{"volume", served.name},
                                 {"directory", arguments.directory},
                                 {"pid", ::getpid()},
                                 {"read_only", served.version.has_value()},
                                 {"log", log}};
  if (served.version) json["version"] = *served.version;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// Serves, and unmounts when told to stop.
Result<void> serve(Served& served, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  bool ended = false;
  // Not where the signal arrives: a second one must still be able to end it all.
  std::thread closer([&] {
    set_thread_name("mount-stop");
    std::unique_lock lock(mutex);
    if (wake.wait(lock, stop, [&] { return ended; })) return;
    lock.unlock();
    const Result<void> done = served.mount->unmount(deadline_in(kBusyPatience));
    if (!done.ok()) log_error("cannot unmount", {{"error", done.error().detail}});
  });
  const Result<void> done = served.mount->serve();
  {
    const std::lock_guard lock(mutex);
    ended = true;
  }
  wake.notify_all();
  closer.join();
  return done;
}

// So that whoever opens it next has nothing to repeat.
Result<void> close_volume(Served& served) {
  served.mount.reset();
  PENSTOCK_TRY(served.host->commit());
  const volume::HostStatus status = PENSTOCK_TRY(served.host->status());
  log_info("unmounted", {{"volume", served.name},
                         {"left_bytes", status.pending.content_bytes},
                         {"where", "the journal; the next mount goes on with them"}});
  return {};
}

Result<void> mount_and_serve(MountArguments& arguments, MountPlan& plan, Daemon& daemon) {
  const std::stop_token stop = stop_on_interrupt();
  PENSTOCK_TRY(check_metrics_file(plan.metrics_file, arguments.directory));
  Served served = PENSTOCK_TRY(start_mount(arguments, plan));
  auto metrics = PENSTOCK_TRY(start_metrics(served, plan.metrics_file));
  std::string log = arguments.log_file;
  if (log.empty() && !arguments.foreground) log = served.directory + "/mount.log";
  if (!log.empty()) PENSTOCK_TRY(log_to_file(log));
  log_info("mounted",
           {{"volume", served.name}, {"directory", arguments.directory}, {"pid", ::getpid()}});
  PENSTOCK_TRY(print_all(started_text(arguments, served, log)));
  if (!arguments.foreground) daemon.ready();
  Result<void> done = serve(served, stop);
  metrics.reset();
  const Result<void> closed = close_volume(served);
  if (done.ok()) done = closed;
  if (!done.ok()) log_error("the mount has ended", {{"error", done.error().detail}});
  return done;
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
