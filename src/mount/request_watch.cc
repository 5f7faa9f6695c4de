#include "mount/request_watch.h"

#include <linux/fuse.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace penstock::mount {

namespace {

thread_local bool current_kills = false;

// The part of the request after its header.
template <typename T>
bool take(T& into, const void* request, size_t size) {
  if (size < sizeof(fuse_in_header) + sizeof into) return false;
  std::memcpy(&into, static_cast<const char*>(request) + sizeof(fuse_in_header), sizeof into);
  return true;
}

}  // namespace

bool RequestWatch::request_kills() {
  return current_kills;
}

void RequestWatch::look(const void* request, size_t size) {
  current_kills = false;
  fuse_in_header header{};
  if (size < sizeof header) return;
  std::memcpy(&header, request, sizeof header);
  if (header.opcode == FUSE_WRITE) {
    fuse_write_in write{};
    current_kills =
        take(write, request, size) && (write.write_flags & FUSE_WRITE_KILL_SUIDGID) != 0;
  } else if (header.opcode == FUSE_SETATTR) {
    fuse_setattr_in change{};
    current_kills = take(change, request, size) && (change.valid & FATTR_KILL_SUIDGID) != 0;
  } else if (header.opcode == FUSE_INIT) {
    // Only its beginning: it grows with the kernels.
    struct {
      uint32_t major, minor, read_ahead, flags;
    } init{};
    if (take(init, request, size) && (init.flags & FUSE_HANDLE_KILLPRIV_V2) != 0) {
      first_ = header.unique;
    }
  }
}

ssize_t RequestWatch::read(int fd, void* into, size_t size) {
  const ssize_t got = ::read(fd, into, size);
  if (got > 0) look(into, static_cast<size_t>(got));
  return got;
}

ssize_t RequestWatch::write(int fd, iovec* parts, int count) {
  fuse_out_header header{};
  if (first_ != 0 && count >= 2 && parts[0].iov_len == sizeof header) {
    std::memcpy(&header, parts[0].iov_base, sizeof header);
    fuse_init_out answer{};
    if (header.unique == first_ && header.error == 0 && parts[1].iov_len >= 16) {
      const size_t known = std::min(parts[1].iov_len, sizeof answer);
      std::memcpy(&answer, parts[1].iov_base, known);
      answer.flags |= FUSE_HANDLE_KILLPRIV_V2;
      std::memcpy(parts[1].iov_base, &answer, known);
      first_ = 0;
      agreed_ = true;
    }
  }
  return ::writev(fd, parts, count);
}

}  // namespace penstock::mount
