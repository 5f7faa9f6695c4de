#include "cli/mount_beside.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "base/log.h"
#include "cli/output.h"

namespace penstock::cli {

namespace {

constexpr auto kBusyPatience = std::chrono::seconds(5);
constexpr auto kLookEvery = std::chrono::milliseconds(200);

// 0: not known.
uint64_t own_name_space() {
  struct stat info {};
  return ::stat("/proc/self/ns/mnt", &info) == 0 ? info.st_ino : 0;
}

Result<void> check(const volume::control::MountRequest& request) {
  if (!request.directory.starts_with('/') ||
      request.access_times > static_cast<uint8_t>(mount::AccessTimes::kAlways)) {
    return make_error(ErrorCode::kInvalid, "a request to mount that makes no sense");
  }
  const uint64_t own = own_name_space();
  if (own == 0 || request.name_space == 0 || own == request.name_space) return {};
  return make_error(
      ErrorCode::kBusy,
      fmt::format(
          "process {0} has the volume, and sees other mounts than this one (a container, or "
          "a mount namespace of its own); mount it from there: nsenter -t {0} -m",
          ::getpid()));
}

Result<void> leave(const std::string& directory) {
  const Deadline deadline = deadline_in(kBusyPatience);
  while (true) {
    const Result<void> sent = send_pages(directory);
    if (!sent.ok()) log_warn("cannot write what is left", {{"error", sent.error().detail}});
    const Result<void> done = unmount_directory(directory, 0);
    if (done.ok() || done.error().code != ErrorCode::kBusy) return done;
    if (std::chrono::steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(kLookEvery);
  }
  log_warn("the mount is still in use: programs that use it get errors from now on",
           {{"directory", directory}});
  return unmount_directory(directory, MNT_FORCE | MNT_DETACH);
}

}  // namespace

volume::control::MountRequest request_for(const NewMount& wanted) {
  const mount::MountOptions& options = wanted.options;
  return {.volume = wanted.volume,
          .directory = wanted.directory,
          .source = options.source,
          .live = wanted.live,
          .at = wanted.at,
          .uid = options.uid,
          .gid = options.gid,
          .access_times = static_cast<uint8_t>(options.access_times),
          .acl = options.acl,
          .gather_writes = options.gather_writes,
          .no_exec = options.no_exec,
          .no_suid = options.no_suid,
          .no_device = options.no_device,
          .allow_other = options.allow_other,
          .name_space = own_name_space()};
}

Result<volume::control::MountAnswer> answer_mount(MountSet& mounts,
                                                  const volume::control::MountRequest& request,
                                                  const std::stop_token& cancel,
                                                  const std::string& log) {
  PENSTOCK_TRY(check(request));
  NewMount wanted{.volume = request.volume,
                  .directory = request.directory,
                  .live = request.live,
                  .at = request.at};
  mount::MountOptions& options = wanted.options;
  options.source = request.source;
  options.access_times = static_cast<mount::AccessTimes>(request.access_times);
  options.uid = request.uid;
  options.gid = request.gid;
  options.acl = request.acl;
  options.gather_writes = request.gather_writes;
  options.no_exec = request.no_exec;
  options.no_suid = request.no_suid;
  options.no_device = request.no_device;
  options.allow_other = request.allow_other;
  const Mounted mounted = PENSTOCK_TRY(mounts.add(wanted, cancel));
  log_info("mounted too", {{"volume", mounted.volume},
                           {"directory", wanted.directory},
                           {"version", mounted.version.value_or(0)}});
  return volume::control::MountAnswer{
      .volume = mounted.volume, .pid = ::getpid(), .version = mounted.version, .log = log};
}

void note_ignored(const MountArguments& arguments, int32_t owner) {
  std::vector<std::string_view> given;
  if (!arguments.cache_directories.empty()) given.emplace_back("--cache-dir");
  if (!arguments.cache_quota.empty()) given.emplace_back("--cache-quota");
  if (!arguments.memory.empty()) given.emplace_back("--memory");
  if (arguments.writeback) given.emplace_back("--writeback");
  if (!arguments.writeback_max.empty()) given.emplace_back("--writeback-max");
  if (!arguments.writeback_max_age.empty()) given.emplace_back("--writeback-max-age");
  if (!arguments.io_timeout.empty()) given.emplace_back("--io-timeout");
  if (!arguments.log_file.empty()) given.emplace_back("--log-file");
  if (!arguments.metrics_file.empty()) given.emplace_back("--metrics-file");
  if (!arguments.slow_request.empty()) given.emplace_back("--slow-request");
  if (arguments.let_sleep) given.emplace_back("--let-sleep");
  if (given.empty()) return;
  tell(
      "penstock mount: not followed: {}; process {} has the volume, serves this mount too, and "
      "keeps to its own\n",
      fmt::join(given, ", "), owner);
}

Result<void> stay_until_unmounted(const std::string& directory, const std::stop_token& stop) {
  const auto first = mount_at(directory);
  while (first) {
    const auto now = mount_at(directory);
    if (!now || now->id != first->id) break;
    if (stop.stop_requested()) return leave(directory);
    std::this_thread::sleep_for(kLookEvery);
  }
  return {};
}

}  // namespace penstock::cli
