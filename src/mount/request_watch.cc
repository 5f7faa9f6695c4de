#include "mount/request_watch.h"

#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace penstock::mount {

namespace {

thread_local bool current_kills = false;

// As they are called in linux/fuse.h.
constexpr std::pair<uint32_t, const char*> kNames[] = {
    {FUSE_LOOKUP, "lookup"},
    {FUSE_FORGET, "forget"},
    {FUSE_GETATTR, "getattr"},
    {FUSE_SETATTR, "setattr"},
    {FUSE_READLINK, "readlink"},
    {FUSE_SYMLINK, "symlink"},
    {FUSE_MKNOD, "mknod"},
    {FUSE_MKDIR, "mkdir"},
    {FUSE_UNLINK, "unlink"},
    {FUSE_RMDIR, "rmdir"},
    {FUSE_RENAME, "rename"},
    {FUSE_LINK, "link"},
    {FUSE_OPEN, "open"},
    {FUSE_READ, "read"},
    {FUSE_WRITE, "write"},
    {FUSE_STATFS, "statfs"},
    {FUSE_RELEASE, "release"},
    {FUSE_FSYNC, "fsync"},
    {FUSE_SETXATTR, "setxattr"},
    {FUSE_GETXATTR, "getxattr"},
    {FUSE_LISTXATTR, "listxattr"},
    {FUSE_REMOVEXATTR, "removexattr"},
    {FUSE_FLUSH, "flush"},
    {FUSE_OPENDIR, "opendir"},
    {FUSE_READDIR, "readdir"},
    {FUSE_RELEASEDIR, "releasedir"},
    {FUSE_FSYNCDIR, "fsyncdir"},
    {FUSE_ACCESS, "access"},
    {FUSE_CREATE, "create"},
    {FUSE_INTERRUPT, "interrupt"},
    {FUSE_BATCH_FORGET, "batch_forget"},
    {FUSE_FALLOCATE, "fallocate"},
    {FUSE_READDIRPLUS, "readdirplus"},
    {FUSE_RENAME2, "rename2"},
    {FUSE_LSEEK, "lseek"},
    {FUSE_COPY_FILE_RANGE, "copy_file_range"},
};

// Whoever got an answer often asks again within microseconds. To look out for that so long saves
// waking a processor that has gone to sleep, which takes as long as the rest of a request.
constexpr auto kSpin = std::chrono::microseconds(50);

bool is_waiting(int fd) {
  pollfd wanted{fd, POLLIN, 0};
  return ::poll(&wanted, 1, 0) > 0;
}

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
  counts_[header.opcode < kKinds ? header.opcode : 0].fetch_add(1, std::memory_order_relaxed);
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

std::map<std::string, uint64_t> RequestWatch::counts() const {
  std::map<std::string, uint64_t> found;
  uint64_t named = 0;
  uint64_t all = 0;
  for (const auto& count : counts_) all += count.load(std::memory_order_relaxed);
  for (const auto& [opcode, name] : kNames) {
    const uint64_t count = counts_[opcode].load(std::memory_order_relaxed);
    if (count > 0) found[name] = count;
    named += count;
  }
  if (all > named) found["other"] = all - named;
  return found;
}

ssize_t RequestWatch::read(int fd, void* into, size_t size) {
  turn_.take();
  const auto until = std::chrono::steady_clock::now() + kSpin;
  while (!is_waiting(fd) && std::chrono::steady_clock::now() < until) ::sched_yield();
  const ssize_t got = ::read(fd, into, size);
  if (got > 0) look(into, static_cast<size_t>(got));
  if (got <= 0 || is_waiting(fd)) {
    turn_.pass_on();
  } else {
    turn_.keep();
  }
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
