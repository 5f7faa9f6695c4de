// The facts of the machine this runs on.
#include <fcntl.h>
#include <fmt/core.h>
#include <liburing.h>
#include <linux/nvme_ioctl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>

#include "penstock/units.h"
#include "tune/machine.h"

extern char** environ;

namespace penstock::tune::doctor {

namespace {

constexpr auto kProgramTimeout = std::chrono::seconds(5);
constexpr size_t kProgramOutputLimit = 64 * kKiB;

Result<io::SpaceInfo> local_space(const std::string& path) {
  // XFS that the kernel has shut down still tells its space, and refuses to be looked at.
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 && errno == EIO) return errno_error(EIO, "stat " + path);
  struct statvfs numbers {};
  if (::statvfs(path.c_str(), &numbers) != 0) return errno_error(errno, "statvfs " + path);
  io::SpaceInfo info;
  info.block_bytes = numbers.f_frsize;
  info.total_bytes = numbers.f_blocks * numbers.f_frsize;
  info.free_bytes = numbers.f_bfree * numbers.f_frsize;
  info.available_bytes = numbers.f_bavail * numbers.f_frsize;
  info.total_inodes = numbers.f_files;
  info.free_inodes = numbers.f_ffree;
  return info;
}

// What arrives before the end, the limit or the deadline.
Result<std::string> read_output(int fd, Deadline deadline) {
  std::string output;
  std::array<char, 4096> block;
  while (output.size() < kProgramOutputLimit) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd waiting{fd, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return errno_error(errno, "poll");
    if (ready == 0) return make_error(ErrorCode::kTimeout, "gave no answer within 5 s");
    const ssize_t n = ::read(fd, block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error(errno, "read");
    if (n == 0) break;
    output.append(block.data(), static_cast<size_t>(n));
  }
  return output;
}

Result<pid_t> spawn(std::vector<std::string>& words, int output_fd) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output_fd, 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed =
      ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed == ENOENT)
    return make_error(ErrorCode::kNotFound, fmt::format("{} is not installed", words[0]));
  if (failed != 0) return errno_error(failed, "start " + words[0]);
  return child;
}

// Runs a program, no shell between, and returns what it printed.
Result<std::string> run_program(std::vector<std::string> words) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return errno_error(errno, "pipe");
  const Result<pid_t> child = spawn(words, ends[1]);
  ::close(ends[1]);
  if (!child) {
    ::close(ends[0]);
    return child.error();
  }
  Result<std::string> output = read_output(ends[0], deadline_in(kProgramTimeout));
  ::close(ends[0]);
  if (!output) ::kill(*child, SIGKILL);
  int status = 0;
  while (::waitpid(*child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!output) return output.error().with_context(words[0]);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return make_error(ErrorCode::kIo, words[0] + " failed");
  return output;
}

// Asks the drive for its health log page (02h): needs root, changes nothing.
Result<NvmeHealth> local_nvme_health(const std::string& controller) {
  const std::string node = "/dev/" + controller;
  const int fd = ::open(node.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno_error(errno, "open " + node);
  std::array<std::byte, 512> page{};
  nvme_admin_cmd command{};
  command.opcode = 0x02;  // Get Log Page
  command.nsid = 0xffffffff;
  command.addr = reinterpret_cast<uintptr_t>(page.data());
  command.data_len = page.size();
  command.cdw10 = ((page.size() / 4 - 1) << 16) | 0x02;
  const int failed = ::ioctl(fd, NVME_IOCTL_ADMIN_CMD, &command);
  const int os_errno = errno;
  ::close(fd);
  if (failed < 0) return errno_error(os_errno, "health log of " + node);
  const auto health = failed == 0 ? parse_nvme_health(page) : std::nullopt;
  if (!health) return make_error(ErrorCode::kUnsupported, node + " keeps no health log");
  return *health;
}

// A ring as large as the engine's: its requests and one entry to wake it. A smaller one may fit
// under a limit that the engine's does not.
int probe_io_uring() {
  io_uring ring{};
  const int failed = io_uring_queue_init(io::LocalOptions{}.queue_depth + 1, &ring, 0);
  if (failed == 0) io_uring_queue_exit(&ring);
  return -failed;
}

std::optional<uint64_t> memlock_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return std::nullopt;
  return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

}  // namespace

Machine local_machine() {
  Facts facts;
  facts.space = local_space;
  facts.lustre_striping = [](const std::string& path) {
    return run_program({"lfs", "getstripe", "-d", path});
  };
  facts.zfs_property = [](const std::string& dataset, const std::string& property) {
    return run_program({"zfs", "get", "-Hp", "-o", "value", property, dataset});
  };
  facts.nvme_health = local_nvme_health;
  facts.sleep = [](uint64_t milliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  };
  facts.memlock_bytes = memlock_limit();
  facts.io_uring_errno = probe_io_uring();
  return Machine("", std::move(facts));
}

}  // namespace penstock::tune::doctor
