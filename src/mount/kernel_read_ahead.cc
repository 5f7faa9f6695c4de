#include "mount/kernel_read_ahead.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string_view>

namespace penstock::mount {

namespace {

constexpr std::string_view kReadAheadKib = "1024";

}  // namespace

void raise_kernel_read_ahead(const std::string& directory) {
  struct statx info {};
  // Without asking the file system, which is us.
  if (::statx(AT_FDCWD, directory.c_str(), AT_STATX_DONT_SYNC, STATX_TYPE, &info) != 0) return;
  const std::string path =
      fmt::format("/sys/class/bdi/{}:{}/read_ahead_kb", info.stx_dev_major, info.stx_dev_minor);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t written = ::write(fd, kReadAheadKib.data(), kReadAheadKib.size());
  ::close(fd);
}

}  // namespace penstock::mount
