#include <fmt/core.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <thread>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/mount_command.h"
#include "cli/output.h"
#include "cli/progress_line.h"
#include "tune/text.h"

namespace penstock::cli {

namespace {

using tune::doctor::printable;

constexpr auto kLookEvery = std::chrono::milliseconds(200);
constexpr auto kAnswerPatience = std::chrono::seconds(10);
constexpr auto kAnswerPause = std::chrono::milliseconds(2);
constexpr auto kEndPatience = std::chrono::seconds(60);

constexpr const char* kFooter =
    "What was written and is not yet in the volume's store is moved there first; with --no-drain "
    "it stays in\n"
    "the journal on this machine, durable, and the next mount goes on with it.\n"
    "Exit code: 0 unmounted, 1 still mounted, or it could not be, 2 wrong usage, 130 interrupted "
    "(and\n"
    "still mounted).\n\n"
    "  penstock umount /mnt/train\n"
    "  penstock umount /mnt/train --no-drain";

struct UnmountArguments {
  std::string directory;
  bool no_drain = false;
  bool force = false;
  bool json = false;
};

struct Unmounted {
  std::string volume;
  uint64_t left_bytes = 0;
  bool was_dead = false;
  std::vector<std::string> others = {};  // That the same process serves: it goes on.
};

int fail_umount(const Error& error) {
  tell("penstock umount: {}\n", printable(error.detail));
  if (error.code == ErrorCode::kCancelled) return kExitInterrupted;
  return error.code == ErrorCode::kInvalid ? kExitUsage : kExitFailed;
}

Result<tune::doctor::Mount> find(const std::string& directory) {
  const auto mount = mount_at(directory);
  if (mount && mount->type == kMountType) return *mount;
  std::vector<std::string> others;
  for (const tune::doctor::Mount& other : penstock_mounts()) others.push_back(other.point);
  return make_error(
      ErrorCode::kNotFound,
      fmt::format("no volume is mounted at {}; {}", directory,
                  others.empty() ? "none is anywhere"
                                 : fmt::format("there are {}", fmt::join(others, ", "))));
}

// What the mount says about itself. ENOTCONN: its process has died.
Result<nlohmann::json> status_of(const std::string& directory) {
  std::string text(64 << 10, '\0');
  const ssize_t size =
      ::getxattr(directory.c_str(), mount::kStatusAttribute, text.data(), text.size());
  if (size < 0) return errno_error(errno, fmt::format("ask the mount at {}", directory));
  text.resize(static_cast<size_t>(size));
  nlohmann::json status = nlohmann::json::parse(text, nullptr, false);
  if (!status.is_object()) {
    return make_error(ErrorCode::kCorrupt,
                      fmt::format("the mount at {} talks nonsense", directory));
  }
  return status;
}

// A mount that does not answer never lets go of whoever asks, not even to die: so that is not us.
Result<void> check_answers(const std::string& directory) {
  const pid_t child = ::fork();
  if (child < 0) return errno_error(errno, "start a process");
  if (child == 0) {
    for (int fd = 0; fd < 3; ++fd)
      ::close(fd);  // Whoever reads what we print is not to wait for it.
    char byte = 0;
    (void)::getxattr(directory.c_str(), mount::kStatusAttribute, &byte, 0);
    ::_exit(0);
  }
  const Deadline deadline = deadline_in(kAnswerPatience);
  while (std::chrono::steady_clock::now() < deadline) {
    if (::waitpid(child, nullptr, WNOHANG) == child) return {};
    std::this_thread::sleep_for(kAnswerPause);
  }
  return make_error(
      ErrorCode::kTimeout,
      fmt::format("the mount at {} does not answer: see its log; --force unmounts it all the same",
                  directory));
}

Result<nlohmann::json> first_status_of(const std::string& directory) {
  PENSTOCK_TRY(check_answers(directory));
  return status_of(directory);
}

std::vector<std::string> others_of(const nlohmann::json& status) {
  return status.value("others", std::vector<std::string>());
}

uint64_t left_bytes(const nlohmann::json& status) {
  return status.value("/pending/content_bytes"_json_pointer, uint64_t{0});
}

Result<void> drain(const std::string& directory, const std::stop_token& stop) {
  if (::setxattr(directory.c_str(), mount::kDrainAttribute, "1", 1, 0) != 0) {
    return errno_error(errno, fmt::format("drain the mount at {}", directory));
  }
  ProgressLine line("penstock umount");
  RateMeter meter;
  uint64_t first = 0;
  while (true) {
    const nlohmann::json status = PENSTOCK_TRY(status_of(directory));
    const uint64_t left = left_bytes(status);
    if (!status.value("draining", false)) {
      const std::string error = status.value("drain_error", "");
      if (error.empty()) return {};
      return make_error(ErrorCode::kUnavailable,
                        fmt::format("{} could not be stored: {}; still mounted. With --no-drain it "
                                    "stays in the journal on this machine",
                                    format_size(left), error));
    }
    first = std::max(first, left);
    meter.add(first - left);
    if (line.due()) {
      line.show(fmt::format("{} left of {}, {}", format_size(left), format_size(first),
                            format_rate(meter.per_second())));
    }
    if (stop.stop_requested()) {
      return make_error(ErrorCode::kCancelled,
                        fmt::format("interrupted; {} is still mounted", directory));
    }
    std::this_thread::sleep_for(kLookEvery);
  }
}

// The volume has an owner until its process has ended: whoever mounts it next should not be turned
// away.
class ProcessEnd {
 public:
  explicit ProcessEnd(pid_t pid)
      : fd_(pid > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)) : -1) {}
  ~ProcessEnd() {
    if (fd_ >= 0) ::close(fd_);
  }
  ProcessEnd(const ProcessEnd&) = delete;
  ProcessEnd& operator=(const ProcessEnd&) = delete;
  void wait() const {
    if (fd_ < 0) return;
    pollfd ended{.fd = fd_, .events = POLLIN, .revents = 0};
    ::poll(&ended, 1, static_cast<int>(std::chrono::milliseconds(kEndPatience).count()));
  }

 private:
  const int fd_;
};

Result<Unmounted> run(const UnmountArguments& arguments, const std::stop_token& stop) {
  const std::string directory = PENSTOCK_TRY(mount_point_path(arguments.directory));
  Unmounted done;
  done.volume = PENSTOCK_TRY(find(directory)).source;
  const Result<nlohmann::json> status = first_status_of(directory);
  if (!status.ok() && status.error().os_errno == ENOTCONN) {
    PENSTOCK_TRY(unmount_directory(directory, MNT_DETACH));
    done.was_dead = true;
    return done;
  }
  if (!status.ok() && !arguments.force) return status.error();
  const ProcessEnd end(status.ok() ? status->value("pid", 0) : 0);
  // Before anything that takes time.
  if (!arguments.force && !users_of(directory).empty()) return busy_mount(directory);
  if (status.ok()) PENSTOCK_TRY(send_pages(directory));
  if (status.ok()) done.others = others_of(*status);
  const bool live = status.ok() && !status->value("read_only", false);
  if (live && !arguments.no_drain) PENSTOCK_TRY(drain(directory, stop));
  if (live) {
    const Result<nlohmann::json> last = status_of(directory);
    done.left_bytes = last.ok() ? left_bytes(*last) : 0;
    if (last.ok()) done.others = others_of(*last);
  }
  PENSTOCK_TRY(unmount_directory(directory, arguments.force ? MNT_FORCE | MNT_DETACH : 0));
  if (done.others.empty()) end.wait();
  return done;
}

std::string text_of(const UnmountArguments& arguments, const Unmounted& done) {
  if (arguments.json) {
    const nlohmann::ordered_json json = {{"volume", done.volume},
                                         {"directory", arguments.directory},
                                         {"left_bytes", done.left_bytes},
                                         {"was_dead", done.was_dead},
                                         {"others", done.others}};
    return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  if (done.was_dead) {
    return fmt::format(
        "the process of {} had died; what it acknowledged is in its journal, and back "
        "with the next mount\n",
        done.volume);
  }
  std::string text;
  if (done.left_bytes > 0) {
    text = fmt::format(
        "{} of {} are in the journal on this machine, not in the store; the next mount "
        "goes on with them\n",
        format_size(done.left_bytes), done.volume);
  }
  if (!done.others.empty()) {
    text += fmt::format("its process goes on, for what else it serves: {}\n",
                        printable(fmt::format("{}", fmt::join(done.others, ", "))));
  }
  return text;
}

int run_umount(const UnmountArguments& arguments) {
  const Result<Unmounted> done = run(arguments, stop_on_interrupt());
  if (!done.ok()) return fail_umount(done.error());
  const Result<void> printed = print_all(text_of(arguments, *done));
  return printed.ok() ? kExitOk : kExitFailed;
}

}  // namespace

void add_umount_command(CLI::App& app, Run& run_chosen) {
  const auto arguments = std::make_shared<UnmountArguments>();
  CLI::App* command = app.add_subcommand("umount", "Unmount a volume");
  command->add_option("DIR", arguments->directory, "Where it is mounted")
      ->type_name("")
      ->required();
  command->add_flag("--no-drain", arguments->no_drain,
                    "Leave in the journal what is not in the store yet");
  command->add_flag("--force", arguments->force,
                    "Though programs use it, or it does not answer: they get errors");
  command->add_flag("--json", arguments->json, "Print JSON: volume, directory, left_bytes, others");
  command->footer(kFooter);
  command->callback(
      [arguments, &run_chosen] { run_chosen = [arguments] { return run_umount(*arguments); }; });
}

}  // namespace penstock::cli
