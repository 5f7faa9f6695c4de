#include "mount/request_kinds.h"

#include <linux/fuse.h>

#include <algorithm>
#include <array>

namespace penstock::mount {

namespace {

constexpr auto kKinds = std::to_array<RequestKind>({
    {FUSE_LOOKUP, "lookup", "lookup"},
    {FUSE_FORGET, "forget", kOtherRequests},
    {FUSE_GETATTR, "getattr", "getattr"},
    {FUSE_SETATTR, "setattr", "setattr"},
    {FUSE_READLINK, "readlink", "readlink"},
    {FUSE_SYMLINK, "symlink", "create"},
    {FUSE_MKNOD, "mknod", "create"},
    {FUSE_MKDIR, "mkdir", "create"},
    {FUSE_UNLINK, "unlink", "unlink"},
    {FUSE_RMDIR, "rmdir", "unlink"},
    {FUSE_RENAME, "rename", "rename"},
    {FUSE_LINK, "link", "create"},
    {FUSE_OPEN, "open", "open"},
    {FUSE_READ, "read", "read"},
    {FUSE_WRITE, "write", "write"},
    {FUSE_STATFS, "statfs", "statfs"},
    {FUSE_RELEASE, "release", "open"},
    {FUSE_FSYNC, "fsync", "fsync"},
    {FUSE_SETXATTR, "setxattr", "xattr"},
    {FUSE_GETXATTR, "getxattr", "xattr"},
    {FUSE_LISTXATTR, "listxattr", "xattr"},
    {FUSE_REMOVEXATTR, "removexattr", "xattr"},
    {FUSE_FLUSH, "flush", "flush"},
    {FUSE_OPENDIR, "opendir", "open"},
    {FUSE_READDIR, "readdir", "readdir"},
    {FUSE_RELEASEDIR, "releasedir", "open"},
    {FUSE_FSYNCDIR, "fsyncdir", "fsync"},
    {FUSE_ACCESS, "access", kOtherRequests},
    {FUSE_CREATE, "create", "create"},
    {FUSE_INTERRUPT, "interrupt", kOtherRequests},
    {FUSE_BATCH_FORGET, "batch_forget", kOtherRequests},
    {FUSE_FALLOCATE, "fallocate", "allocate"},
    {FUSE_READDIRPLUS, "readdirplus", "readdir"},
    {FUSE_RENAME2, "rename2", "rename"},
    {FUSE_LSEEK, "lseek", "seek"},
    {FUSE_COPY_FILE_RANGE, "copy_file_range", "copy"},
});

static_assert(std::ranges::all_of(kKinds, [](const RequestKind& kind) {
  return kind.opcode < kOpcodesMax;
}));

}  // namespace

std::span<const RequestKind> request_kinds() {
  return kKinds;
}

const char* request_name(uint32_t opcode) {
  const auto* const found = std::ranges::find(kKinds, opcode, &RequestKind::opcode);
  return found == kKinds.end() ? kOtherRequests : found->name;
}

}  // namespace penstock::mount
