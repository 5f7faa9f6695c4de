// Attributes of inodes, and of the whole.
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <limits>

#include "mount/errors.h"
#include "mount/server.h"

namespace penstock::mount {

namespace {

constexpr unsigned long kSpaceBlockBytes = 4096;
// Where there is neither a quota nor a drive: an object store takes what it is given.
constexpr uint64_t kEndlessBytes = 1024 * kTiB;
constexpr uint64_t kEndlessInodes = uint64_t{1} << 40;

// What lies further away than can be said, as ext4 does too, becomes what can.
meta::Time time_of(const timespec& time) {
  constexpr meta::Time kSecond = 1'000'000'000;
  constexpr meta::Time kLast = std::numeric_limits<meta::Time>::max() / kSecond - 1;
  const meta::Time seconds = std::clamp<meta::Time>(time.tv_sec, -kLast, kLast);
  return seconds * kSecond + time.tv_nsec;
}

meta::Time now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

meta::Changes changes_of(const struct stat& wanted, int which) {
  meta::Changes changes;
  if ((which & FUSE_SET_ATTR_MODE) != 0) changes.permissions = wanted.st_mode & 07777;
  if ((which & FUSE_SET_ATTR_UID) != 0) changes.uid = wanted.st_uid;
  if ((which & FUSE_SET_ATTR_GID) != 0) changes.gid = wanted.st_gid;
  if ((which & FUSE_SET_ATTR_SIZE) != 0) changes.size = static_cast<uint64_t>(wanted.st_size);
  if ((which & FUSE_SET_ATTR_ATIME_NOW) != 0) {
    changes.atime = now();
  } else if ((which & FUSE_SET_ATTR_ATIME) != 0) {
    changes.atime = time_of(wanted.st_atim);
  }
  if ((which & FUSE_SET_ATTR_MTIME_NOW) != 0) {
    changes.mtime = now();
  } else if ((which & FUSE_SET_ATTR_MTIME) != 0) {
    changes.mtime = time_of(wanted.st_mtim);
  }
  return changes;
}

// Nothing but the time of access, which by itself counts for no change of the inode.
bool only_access(const meta::Changes& changes) {
  return changes.atime && !changes.mtime && !changes.permissions && !changes.uid && !changes.gid &&
         !changes.size;
}

uint64_t left(uint64_t whole, uint64_t used) {
  return whole > used ? whole - used : 0;
}

}  // namespace

void Server::getattr(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file) {
  (void)file;
  const Result<meta::Inode> inode = names().inode(ino);
  if (!inode.ok()) return reply_error(request, inode.error(), "getattr", ino);
  reply_attr(request, *inode);
}

void Server::setattr(fuse_req_t request, fuse_ino_t ino, struct stat* wanted, int which,
                     fuse_file_info* file) {
  (void)file;
  if (refuse_change(request)) return;
  meta::Changes changes = changes_of(*wanted, which);
  // Where all belongs to one there is nobody to give it to.
  if ((changes.uid && options_.uid && *changes.uid != *options_.uid) ||
      (changes.gid && options_.gid && *changes.gid != *options_.gid)) {
    fuse_reply_err(request, EPERM);
    return;
  }
  if (options_.uid) changes.uid.reset();
  if (options_.gid) changes.gid.reset();
  drop_from(request, changes, ino);
  if (changes.size || changes.uid || changes.gid) (void)drop_special_bits(request, ino, false);
  if (changes.size || changes.atime || changes.mtime) access_.forget(ino);
  if (only_access(changes)) {
    // Somebody sets it, which does count: said by an owner that stays. The kernel lets nobody give it
    // away meanwhile.
    const Result<meta::Inode> now = names().inode(ino);
    if (!now.ok()) return reply_error(request, now.error(), "setattr", ino);
    changes.uid = now->uid;
  }
  const auto change = [&] { return live_->change(ino, changes); };
  const Result<meta::Inode> inode =
      changes.mtime && write_times_ ? write_times_->set(ino, *changes.mtime, change) : change();
  if (!inode.ok()) return reply_error(request, inode.error(), "setattr", ino);
  if (options_.acl && changes.permissions) {
    const Result<void> done = change_mode_in_acl(ino, *changes.permissions);
    if (!done.ok()) return reply_error(request, done.error(), "setattr", ino);
  }
  reply_attr(request, *inode);
}

void Server::statfs(fuse_req_t request, fuse_ino_t ino) {
  const Result<meta::Totals> totals = names().totals();
  if (!totals.ok()) return reply_error(request, totals.error(), "statfs", ino);
  const meta::Quota quota = live_ != nullptr ? live_->settings().quota : meta::Quota{};
  struct statvfs space {};
  space.f_bsize = space.f_frsize = kSpaceBlockBytes;
  space.f_namemax = meta::kNameBytesMax;
  uint64_t whole = kEndlessBytes;
  uint64_t free = left(whole, totals->bytes);
  if (quota.bytes > 0) {
    whole = quota.bytes;
    free = left(whole, totals->bytes);
  } else if (const std::optional<io::SpaceInfo> drive =
                 options_.space ? options_.space() : std::nullopt) {
    free = drive->available_bytes;
    whole = totals->bytes + free;
  }
  space.f_blocks = whole / kSpaceBlockBytes;
  space.f_bfree = space.f_bavail = free / kSpaceBlockBytes;
  space.f_files = quota.inodes > 0 ? quota.inodes : kEndlessInodes;
  space.f_ffree = space.f_favail = left(space.f_files, totals->inodes);
  fuse_reply_statfs(request, &space);
}

}  // namespace penstock::mount
