#include "mount/session.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "base/thread_pool.h"

extern char** environ;

namespace penstock::mount {

namespace {

constexpr auto kBusyPause = std::chrono::milliseconds(50);
// From so many cores on each thread gets its own way to the kernel.
constexpr size_t kManyCores = 8;

// libfuse says why it could not mount only in its log; that becomes the error.
std::mutex last_line_mutex;
std::string last_line;
std::atomic<bool> any_mounted = false;

void take_log(fuse_log_level level, const char* format, va_list arguments) {
  std::array<char, 1024> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  std::string line = text.data();
  while (!line.empty() && line.back() == '\n') line.pop_back();
  {
    const std::lock_guard lock(last_line_mutex);
    last_line = line;
  }
  if (level <= FUSE_LOG_WARNING && any_mounted) log_warn("libfuse", {{"message", line}});
}

// What was said about another mount is not why this one fails.
void forget_last_line() {
  const std::lock_guard lock(last_line_mutex);
  last_line.clear();
}

std::string said_by_library() {
  const std::lock_guard lock(last_line_mutex);
  return last_line;
}

Error cannot_mount(const std::string& directory) {
  std::string why = said_by_library();
  if (why.empty()) why = "fusermount3 refused";
  std::string advice;
  if (::access("/dev/fuse", F_OK) != 0) {
    why = "there is no /dev/fuse";
    advice =
        "; load the module (modprobe fuse), or give it to the container (--device /dev/fuse "
        "--cap-add SYS_ADMIN)";
  } else if (::access("/dev/fuse", R_OK | W_OK) != 0) {
    advice = "; root may: chmod 666 /dev/fuse";
  } else if (::geteuid() != 0) {
    advice =
        "; without root this needs the program fusermount3 (package fuse3) and, for other users "
        "to see the files, the line user_allow_other in /etc/fuse.conf, or --no-allow-other";
  }
  return make_error(ErrorCode::kPermission,
                    fmt::format("cannot mount at {}: {}{}", directory, why, advice));
}

class Arguments {
 public:
  Arguments() { add("penstock"); }
  ~Arguments() { fuse_opt_free_args(&arguments_); }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  void add(const std::string& text) { fuse_opt_add_arg(&arguments_, text.c_str()); }
  void option(const std::string& text) {
    // A comma in a name must not end the option.
    std::string escaped;
    for (const char c : text) {
      if (c == ',' || c == '\\') escaped += '\\';
      escaped += c;
    }
    add("-o" + escaped);
  }
  fuse_args* get() { return &arguments_; }

 private:
  fuse_args arguments_ = FUSE_ARGS_INIT(0, nullptr);
};

void add_options(Arguments& arguments, const MountOptions& options) {
  arguments.option("fsname=" + options.source);
  arguments.option("subtype=penstock");
  arguments.option("default_permissions");
  if (options.allow_other) arguments.option("allow_other");
  if (options.version) arguments.option("ro");
  if (options.no_exec) arguments.option("noexec");
  // The kernel sets times of access of other file systems; ours are set by the server.
  if (options.access_times == AccessTimes::kNever) arguments.option("noatime");
  if (::geteuid() == 0) {
    arguments.option(options.no_suid ? "nosuid" : "suid");
    arguments.option(options.no_device ? "nodev" : "dev");
  }
}

// What programs wrote and the kernel did not send yet: it is lost once the mount is gone by force.
void send_pages(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  if (::syncfs(fd) != 0) {
    log_error("not all that was written could be kept",
              {{"directory", directory}, {"errno", errno}});
  }
  ::close(fd);
}

// Who is not root asks a program that is.
int run_fusermount(const std::string& directory, bool lazily) {
  std::array<const char*, 6> arguments = {"fusermount3", "-u", "-q"};
  size_t count = 3;
  if (lazily) arguments[count++] = "-z";
  arguments[count++] = directory.c_str();
  pid_t child = 0;
  if (::posix_spawnp(&child, arguments[0], nullptr, nullptr,
                     const_cast<char* const*>(arguments.data()), environ) != 0) {
    return EPERM;
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : EBUSY;
}

// 0, or the errno.
int try_unmount(const std::string& directory, int flags) {
  if (::umount2(directory.c_str(), flags | UMOUNT_NOFOLLOW) == 0) return 0;
  if (errno != EPERM) return errno;
  return run_fusermount(directory, (flags & MNT_DETACH) != 0);
}

bool is_gone(int number) {
  return number == EINVAL || number == ENOENT;
}

}  // namespace

Session::Session(std::string directory, uint32_t threads_max)
    : directory_(std::move(directory)), threads_max_(threads_max) {}

Session::~Session() {
  if (session_ == nullptr) return;
  leave();
  fuse_session_destroy(session_);
}

void Session::leave() {
  if (mounted_) fuse_session_unmount(session_);
  mounted_ = false;
}

Result<void> Session::mount(const MountOptions& options, const fuse_lowlevel_ops& operations,
                            void* server, const fuse_custom_io* io) {
  fuse_set_log_func(take_log);
  forget_last_line();
  Arguments arguments;
  add_options(arguments, options);
  session_ = fuse_session_new(arguments.get(), &operations, sizeof operations, server);
  if (session_ == nullptr) return cannot_mount(directory_);
  if (fuse_session_mount(session_, directory_.c_str()) != 0) return cannot_mount(directory_);
  mounted_ = true;
  any_mounted = true;
  const int failed = fuse_session_custom_io(session_, io, fuse_session_fd(session_));
  if (failed != 0) return errno_error(-failed, "set up the connection to the kernel");
  return {};
}

Result<void> Session::serve() {
  fuse_loop_config* const config = fuse_loop_cfg_create();
  if (config == nullptr) return make_error(ErrorCode::kNoMemory, "no memory for a mount");
  fuse_loop_cfg_set_clone_fd(config, available_cores() >= kManyCores ? 1 : 0);
  fuse_loop_cfg_set_max_threads(config, threads_max_);
  // Threads stay: to end and start them costs more than most requests.
  fuse_loop_cfg_set_idle_threads(config, threads_max_);
  const int ended = fuse_session_loop_mt(session_, config);
  fuse_loop_cfg_destroy(config);
  if (ended < 0) return errno_error(-ended, fmt::format("serve the mount at {}", directory_));
  return {};
}

Result<void> Session::unmount(Deadline deadline) {
  send_pages(directory_);
  while (true) {
    const int number = try_unmount(directory_, 0);
    if (number == 0 || is_gone(number)) return {};
    if (number != EBUSY) return errno_error(number, fmt::format("unmount {}", directory_));
    if (std::chrono::steady_clock::now() >= deadline) return detach();
    std::this_thread::sleep_for(kBusyPause);
  }
}

Result<void> Session::detach() {
  log_warn("the mount is still in use: programs that use it get errors from now on",
           {{"directory", directory_}});
  send_pages(directory_);
  // Forced: the kernel ends the connection, and with it serve().
  const int number = try_unmount(directory_, MNT_FORCE | MNT_DETACH);
  if (number == 0 || is_gone(number)) return {};
  return errno_error(number, fmt::format("unmount {}", directory_));
}

}  // namespace penstock::mount
