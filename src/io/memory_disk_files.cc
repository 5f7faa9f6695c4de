// The part of MemoryDisk that deals with open files and the space they take.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "io/memory_disk.h"

namespace penstock::io {

namespace {

constexpr uint64_t kDeviceNumber = 1;
constexpr uint64_t kFileBytesMax = INT64_MAX;

}  // namespace

FileInfo MemoryDisk::info(InodeId id) const {
  const Inode& inode = at(id);
  FileInfo info;
  info.kind = inode.kind;
  info.size =
      inode.kind == FileKind::kSymlink ? inode.target.size() : inode.content.current().size();
  info.allocated_bytes = inode.content.current().block_count() * kMemoryBlockBytes;
  info.inode = id;
  info.device = kDeviceNumber;
  info.mode = inode.attributes.mode;
  info.links = inode.links;
  if (inode.kind == FileKind::kDirectory) {
    const auto is_directory = [this](const auto& entry) {
      return at(entry.second).kind == FileKind::kDirectory;
    };
    info.links += 1 + static_cast<uint32_t>(
                          std::count_if(inode.names.begin(), inode.names.end(), is_directory));
  }
  info.mtime_ns = inode.attributes.mtime_ns;
  info.ctime_ns = inode.attributes.ctime_ns;
  return info;
}

Result<size_t> MemoryDisk::read(InodeId id, uint64_t offset, std::span<std::byte> into) const {
  if (at(id).kind == FileKind::kDirectory) return errno_error(EISDIR, "read of a directory");
  if (offset > kFileBytesMax) return 0;  // Nothing can be there.
  return at(id).content.current().read(offset, into);
}

Result<void> MemoryDisk::write(const MemoryCall& call, InodeId id, uint64_t offset,
                               std::span<const std::byte> from, uint64_t ticket) {
  if (offset > kFileBytesMax) return call.error(EINVAL);
  if (from.size() > kFileBytesMax - offset) return call.error(EFBIG);
  Inode& inode = at(id);
  const FileContent& content = inode.content.current();
  // As on a real one, a write that runs out of space has written what fitted.
  const size_t fits = content.writable_bytes(offset, from.size(), free_blocks());
  const uint64_t blocks_before = content.block_count();
  if (fits > 0) {
    inode.content.write(offset, from.first(fits), ticket);
    touch(inode);
  }
  used_blocks_ += content.block_count() - blocks_before;
  if (fits < from.size()) return call.error(ENOSPC);
  return {};
}

void MemoryDisk::complete(InodeId id, uint64_t ticket) {
  at(id).content.complete(ticket);
}

Result<void> MemoryDisk::resize(const MemoryCall& call, InodeId id, uint64_t size) {
  if (size > kFileBytesMax) return call.error(EINVAL);
  Inode& inode = at(id);
  const uint64_t blocks_before = inode.content.current().block_count();
  inode.content.resize(size);
  used_blocks_ -= blocks_before - inode.content.current().block_count();
  touch(inode);
  return {};
}

Result<void> MemoryDisk::allocate(const MemoryCall& call, InodeId id, uint64_t offset,
                                  uint64_t length) {
  if (length == 0 || offset > kFileBytesMax) return call.error(EINVAL);
  if (length > kFileBytesMax - offset) return call.error(EFBIG);
  Inode& inode = at(id);
  const uint64_t added = inode.content.current().missing_blocks(offset, length);
  if (added > free_blocks()) return call.error(ENOSPC);
  inode.content.allocate(offset, length);
  used_blocks_ += added;
  touch(inode);
  return {};
}

void MemoryDisk::set_attributes(InodeId id, std::optional<uint32_t> mode,
                                std::optional<int64_t> mtime_ns) {
  Attributes& attributes = at(id).attributes;
  if (mode) attributes.mode = *mode & 07777;
  if (mtime_ns) attributes.mtime_ns = *mtime_ns;
  if (mode || mtime_ns) attributes.ctime_ns = tick();
}

void MemoryDisk::sync(InodeId id, bool with_attributes) {
  Inode& inode = at(id);
  inode.content.sync();
  if (with_attributes) inode.synced_attributes = inode.attributes;
}

void MemoryDisk::fail_sync(InodeId id) {
  at(id).content.fail_sync();
}

void MemoryDisk::fail_sync_everything() {
  for (auto& [id, inode] : inodes_) inode.content.fail_sync();
}

void MemoryDisk::close_everything() {
  std::vector<std::pair<InodeId, uint64_t>> opens;
  for (auto& [id, inode] : inodes_) {
    inode.content.complete_all();
    opens.emplace_back(id, inode.opens);
  }
  for (const auto& [id, count] : opens) {
    for (uint64_t i = 0; i < count; ++i) close(id);
  }
}

Result<SpaceInfo> MemoryDisk::space(const std::string& path) const {
  PENSTOCK_TRY(find_existing({"space of", path}, true));
  SpaceInfo space;
  space.block_bytes = kMemoryBlockBytes;
  space.total_bytes = options_.capacity_bytes / kMemoryBlockBytes * kMemoryBlockBytes;
  space.free_bytes = free_blocks() * kMemoryBlockBytes;
  space.available_bytes = space.free_bytes;
  space.total_inodes = options_.inode_limit;
  space.free_inodes = options_.inode_limit - std::min(used_inodes_, options_.inode_limit);
  return space;
}

void MemoryDisk::give_back_space(const Inode& inode) {
  used_blocks_ -= inode.content.current().block_count();
  --used_inodes_;
}

uint64_t MemoryDisk::free_blocks() const {
  const uint64_t total = options_.capacity_bytes / kMemoryBlockBytes;
  return total - std::min(total, used_blocks_);
}

}  // namespace penstock::io
