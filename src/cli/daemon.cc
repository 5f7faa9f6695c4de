#include "cli/daemon.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/output.h"

namespace penstock::cli {

namespace {

constexpr off_t kLogBytesMax = 16 << 20;  // Then the next start begins a new one.

int wait_for_start(int pipe, pid_t child) {
  char done = 0;
  ssize_t got = 0;
  do {
    got = ::read(pipe, &done, 1);
  } while (got < 0 && errno == EINTR);
  if (got == 1) return kExitOk;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  tell("penstock: the process in the background ended by signal {}\n", WTERMSIG(status));
  return kExitFailed;
}

}  // namespace

Daemon::~Daemon() {
  if (pipe_ >= 0) ::close(pipe_);
}

Result<std::optional<int>> Daemon::leave() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return errno_error(errno, "pipe");
  std::fflush(nullptr);  // Or both would print what waits.
  const pid_t child = ::fork();
  if (child < 0) return errno_error(errno, "start a process");
  if (child > 0) {
    ::close(ends[1]);
    return std::optional(wait_for_start(ends[0], child));
  }
  ::close(ends[0]);
  pipe_ = ends[1];
  return std::optional<int>();
}

void Daemon::ready() {
  if (pipe_ < 0) return;
  std::fflush(nullptr);
  ::setsid();
  if (::chdir("/") != 0) log_warn("cannot leave the current directory", {{"errno", errno}});
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd < 3 && null >= 0; ++fd) ::dup2(null, fd);
  if (null > 2) ::close(null);
  const char done = 1;
  [[maybe_unused]] const ssize_t written = ::write(pipe_, &done, 1);
  ::close(pipe_);
  pipe_ = -1;
}

Result<void> log_to_file(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && info.st_size > kLogBytesMax) {
    std::rename(path.c_str(), (path + ".1").c_str());
  }
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  if (fd < 0) return errno_error(errno, fmt::format("open {}", path)).with_context("--log-file");
  if (std::getenv("PENSTOCK_LOG") == nullptr) set_log_level(LogLevel::kInfo);
  set_log_sink([fd](std::string_view line) {
    const std::string whole = fmt::format("{}\n", line);
    [[maybe_unused]] const ssize_t written = ::write(fd, whole.data(), whole.size());
  });
  return {};
}

}  // namespace penstock::cli
