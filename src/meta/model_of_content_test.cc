#include <algorithm>
#include <cerrno>

#include "meta/model.h"

namespace penstock::meta {

namespace {

uint64_t count_allocated(const ModelNode& node) {
  return static_cast<uint64_t>(
      std::ranges::count_if(node.bytes, [](uint64_t byte) { return byte != Model::kHole; }));
}

// The content became another.
void finish(ModelNode& node, Time now) {
  node.inode.allocated = count_allocated(node);
  node.inode.mtime = node.inode.ctime = now;
}

void cover(ModelNode& node, uint64_t end) {
  if (node.bytes.size() < end) node.bytes.resize(end, Model::kHole);
}

}  // namespace

int Model::check_file(Ino ino) {
  ModelNode* node = find(ino);
  if (node == nullptr) return ENOENT;
  if (node->inode.is_directory()) return EISDIR;
  return S_ISREG(node->inode.mode) ? 0 : EINVAL;
}

int Model::change(Ino ino, const Changes& changes, Time now) {
  ModelNode* node = find(ino);
  if (node == nullptr) return ENOENT;
  if (changes.size) {
    if (const int error = check_file(ino)) return error;
    if (*changes.size != node->inode.size) {
      if (node->bytes.size() > *changes.size && *changes.size < node->inode.size)
        node->bytes.resize(*changes.size);
      node->inode.size = *changes.size;
    }
    finish(*node, now);
  }
  Inode& inode = node->inode;
  if (changes.permissions) inode.mode = (inode.mode & S_IFMT) | *changes.permissions;
  inode.uid = changes.uid.value_or(inode.uid);
  inode.gid = changes.gid.value_or(inode.gid);
  inode.mtime = changes.mtime.value_or(inode.mtime);
  if (changes.size || changes.permissions || changes.uid || changes.gid || changes.mtime)
    inode.ctime = now;
  return 0;
}

int Model::write(Ino ino, uint64_t offset, const std::vector<Place>& chunks, Time now) {
  if (const int error = check_file(ino)) return error;
  ModelNode& node = *find(ino);
  for (const Place& chunk : chunks) {
    cover(node, offset + chunk.raw);
    for (uint64_t i = 0; i < chunk.raw; ++i) node.bytes[offset++] = byte_of(chunk.checksum, i);
  }
  node.inode.size = std::max(node.inode.size, offset);
  finish(node, now);
  return 0;
}

int Model::punch(Ino ino, uint64_t offset, uint64_t length, bool zeros, Time now) {
  if (const int error = check_file(ino)) return error;
  ModelNode& node = *find(ino);
  cover(node, offset + length);
  for (uint64_t i = offset; i < offset + length; ++i) node.bytes[i] = zeros ? kZero : kHole;
  finish(node, now);
  return 0;
}

int Model::allocate(Ino ino, uint64_t offset, uint64_t length, bool grow, Time now) {
  if (const int error = check_file(ino)) return error;
  ModelNode& node = *find(ino);
  cover(node, offset + length);
  for (uint64_t i = offset; i < offset + length; ++i) {
    if (node.bytes[i] == kHole) node.bytes[i] = kZero;
  }
  if (grow) node.inode.size = std::max(node.inode.size, offset + length);
  finish(node, now);
  return 0;
}

int Model::copy_range(Ino from, uint64_t from_offset, Ino to, uint64_t to_offset, uint64_t length,
                      Time now) {
  if (const int error = check_file(from)) return error;
  if (const int error = check_file(to)) return error;
  const uint64_t size = find(from)->inode.size;
  if (from_offset >= size) return 0;
  length = std::min(length, size - from_offset);
  if (length == 0) return 0;
  if (from == to && from_offset < to_offset + length && to_offset < from_offset + length)
    return EINVAL;
  cover(*find(from), from_offset + length);
  const std::vector<uint64_t> taken(
      find(from)->bytes.begin() + static_cast<int64_t>(from_offset),
      find(from)->bytes.begin() + static_cast<int64_t>(from_offset + length));
  ModelNode& node = *find(to);
  cover(node, to_offset + length);
  std::ranges::copy(taken, node.bytes.begin() + static_cast<int64_t>(to_offset));
  node.inode.size = std::max(node.inode.size, to_offset + length);
  finish(node, now);
  return 0;
}

}  // namespace penstock::meta
