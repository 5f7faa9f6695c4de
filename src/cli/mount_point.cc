// A directory that becomes a mount point, and stops being one.
#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "cli/mount_command.h"
#include "cli/output.h"
#include "tune/text.h"

namespace penstock::cli {

namespace {

// Something that the kernel does not know by itself.
bool is_dead_mount(const std::string& directory) {
  char byte = 0;
  return ::getxattr(directory.c_str(), mount::kStatusAttribute, &byte, 0) < 0 && errno == ENOTCONN;
}

// Who is not root asks a program that is. 0, or the errno.
int run_fusermount(const std::string& directory, bool lazily) {
  const char* const mode = lazily ? "-uzq" : "-uq";
  const std::array<const char*, 4> words = {"fusermount3", mode, directory.c_str(), nullptr};
  pid_t child = 0;
  if (::posix_spawnp(&child, words[0], nullptr, nullptr, const_cast<char* const*>(words.data()),
                     environ) != 0) {
    return EPERM;
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : EBUSY;
}

// A process that died leaves its mount, which answers nothing any more.
Result<void> clear_dead_mount(const std::string& directory) {
  const auto mount = mount_at(directory);
  if (!mount || mount->type != kMountType || !is_dead_mount(directory)) return {};
  const Result<void> done = unmount_directory(directory, MNT_DETACH);
  if (!done.ok()) return done.error().with_context("its process has died");
  tell("penstock mount: {} was mounted by a process that has died; unmounted\n",
       tune::doctor::printable(directory));
  return {};
}

}  // namespace

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
  if (mount && mount->type == kMountType) return mounted_already(*mount);
  return {};
}

Error busy_mount(const std::string& directory) {
  const std::string users = users_of(directory);
  return make_error(ErrorCode::kBusy, fmt::format("{} is in use{}{}; end that first, or --force",
                                                  directory, users.empty() ? "" : " by ", users));
}

Result<void> send_pages(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno_error(errno, directory);
  const int failed = ::syncfs(fd) == 0 ? 0 : errno;
  ::close(fd);
  if (failed != 0) return errno_error(failed, fmt::format("write what is left at {}", directory));
  return {};
}

Result<void> unmount_directory(const std::string& directory, int flags) {
  if (::umount2(directory.c_str(), flags | UMOUNT_NOFOLLOW) == 0) return {};
  int failed = errno;
  if (failed == EPERM) failed = run_fusermount(directory, (flags & MNT_DETACH) != 0);
  if (failed == 0) return {};
  if (failed == EBUSY) return busy_mount(directory);
  if (failed == EPERM) {
    return make_error(
        ErrorCode::kPermission,
        fmt::format("only root may unmount {0} this way; try: fusermount3 -u {0}", directory));
  }
  return errno_error(failed, fmt::format("unmount {}", directory));
}

}  // namespace penstock::cli
