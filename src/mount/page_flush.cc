#include "mount/page_flush.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "base/descriptor.h"

namespace penstock::mount {

namespace {

// A handle of FUSE's: the node's number and generation (fs/fuse/inode.c, fuse_encode_fh).
constexpr int kNodeHandleType = 0x81;
constexpr unsigned kNodeHandleBytes = 12;

int open_node(int mount_fd, meta::Ino ino) {
  alignas(file_handle) std::array<char, sizeof(file_handle) + kNodeHandleBytes> memory{};
  auto* const handle = reinterpret_cast<file_handle*>(memory.data());
  handle->handle_bytes = kNodeHandleBytes;
  handle->handle_type = kNodeHandleType;
  const std::array<uint32_t, 3> node = {static_cast<uint32_t>(ino >> 32),
                                        static_cast<uint32_t>(ino), 0};
  std::memcpy(handle->f_handle, node.data(), kNodeHandleBytes);
  return ::open_by_handle_at(mount_fd, handle, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

}  // namespace

bool PageFlush::flush(meta::Ino ino) const {
  // Not kept open: that would make the mount busy.
  const Descriptor mount(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (mount.get() < 0) return false;
  const Descriptor file(open_node(mount.get(), ino));
  if (file.get() < 0) return false;
  // Not fsync(): that takes the lock which the seek holds that waits for us.
  constexpr unsigned kAll =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  return ::sync_file_range(file.get(), 0, 0, kAll) == 0;
}

}  // namespace penstock::mount
