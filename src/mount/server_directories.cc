// What directories hold. An offset is the cookie of the entry before, moved up by the two that
// every directory has: 1 stands after ".", 2 after "..".
#include <algorithm>
#include <cerrno>
#include <span>

#include "mount/errors.h"
#include "mount/server.h"

namespace penstock::mount {

namespace {

constexpr off_t kAfterSelf = 1;
constexpr off_t kAfterParent = 2;
// With short names: so that hardly anything is looked up in vain.
constexpr size_t kEntryBytes = 40;
constexpr size_t kEntryBytesWithAttributes = 168;
constexpr size_t kEntriesAtOnceMax = 1024;

size_t entries_in(size_t reply_bytes, bool with_attributes) {
  const size_t fit = reply_bytes / (with_attributes ? kEntryBytesWithAttributes : kEntryBytes);
  return std::clamp<size_t>(fit, 1, kEntriesAtOnceMax);
}

}  // namespace

void Server::opendir(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file) {
  (void)ino;
  // From now on the kernel opens directories by itself, and keeps what it has read of them.
  if (no_opendir_) {
    fuse_reply_err(request, ENOSYS);
    return;
  }
  file->keep_cache = 1;
  file->cache_readdir = 1;
  fuse_reply_open(request, file);
}

void Server::fsyncdir(fuse_req_t request, fuse_ino_t ino, int only_data, fuse_file_info* file) {
  fsync(request, ino, only_data, file);
}

// How much it takes; more than there is when it does not fit. 0: it went meanwhile.
size_t Server::add_entry(fuse_req_t request, std::span<char> into, const meta::Entry& entry,
                         off_t next, bool with_attributes) {
  const bool own = entry.name == "." || entry.name == "..";
  if (!with_attributes || own) {
    fuse_entry_param param{};
    param.attr.st_ino = entry.ino;
    param.attr.st_mode = entry.mode & S_IFMT;
    return with_attributes ? fuse_add_direntry_plus(request, into.data(), into.size(),
                                                    entry.name.c_str(), &param, next)
                           : fuse_add_direntry(request, into.data(), into.size(),
                                               entry.name.c_str(), &param.attr, next);
  }
  const Result<meta::Inode> inode = names().inode(entry.ino);
  if (!inode.ok() || !tell_of(entry.ino).ok()) return 0;
  const fuse_entry_param param = entry_of(*inode);
  const size_t taken =
      fuse_add_direntry_plus(request, into.data(), into.size(), entry.name.c_str(), &param, next);
  if (taken > into.size()) take_back(entry.ino, 1);
  return taken;
}

void Server::list(fuse_req_t request, meta::Ino ino, size_t size, off_t offset,
                  bool with_attributes) {
  std::vector<char> reply(size);
  size_t used = 0;
  bool full = false;
  const auto add = [&](const meta::Entry& entry, off_t next) {
    const size_t taken =
        add_entry(request, std::span(reply).subspan(used), entry, next, with_attributes);
    full = taken > size - used;
    if (!full) used += taken;
  };
  if (offset < kAfterSelf) add({.name = ".", .ino = ino, .mode = S_IFDIR, .cookie = 0}, kAfterSelf);
  if (!full && offset < kAfterParent) {
    const Result<meta::Inode> parent = names().lookup(ino, "..");
    if (!parent.ok()) return reply_error(request, parent.error(), "readdir", ino);
    add({.name = "..", .ino = parent->ino, .mode = S_IFDIR, .cookie = 0}, kAfterParent);
  }
  auto cookie = static_cast<uint64_t>(std::max<off_t>(offset - kAfterParent, 0));
  if (offset == 0) listing_ends_.begin(ino, names().last_cookie());
  const uint64_t end = listing_ends_.end_of(ino);
  while (!full && cookie < end) {
    const size_t wanted = entries_in(size - used, with_attributes);
    const Result<std::vector<meta::Entry>> entries = names().list(ino, cookie, wanted);
    if (!entries.ok()) {
      if (used == 0) return reply_error(request, entries.error(), "readdir", ino);
      break;  // Those before are told of already; it fails when asked for more.
    }
    for (const meta::Entry& entry : *entries) {
      cookie = entry.cookie;
      if (cookie > end) break;
      if (!is_hidden(ino, entry.name)) add(entry, static_cast<off_t>(entry.cookie) + kAfterParent);
      if (full) break;
    }
    if (entries->size() < wanted) break;
  }
  if (offset == 0) access_.note(ino);
  fuse_reply_buf(request, reply.data(), used);
}

void Server::readdir(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset,
                     fuse_file_info* file) {
  (void)file;
  list(request, ino, size, offset, false);
}

void Server::readdirplus(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset,
                         fuse_file_info* file) {
  (void)file;
  list(request, ino, size, offset, true);
}

}  // namespace penstock::mount
