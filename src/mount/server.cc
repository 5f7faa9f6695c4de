#include "mount/server.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "mount/errors.h"
#include "mount/kernel_read_ahead.h"
#include "volume/change_feed.h"

namespace penstock::mount {

namespace {

// Until the kernel needs the memory: it is told of what others change.
constexpr double kTimeoutSeconds = 365.0 * 24 * 3600;
// An answer that is older than a change may reach the kernel after the notice of it.
constexpr auto kAnswersTake = std::chrono::seconds(1);
constexpr uint32_t kRequestBytesMax = kMiB;
constexpr size_t kSeekers = 4;
constexpr size_t kSeeksMax = 4096;
constexpr uint64_t kStatBlockBytes = 512;
// What programs take for the best size of a buffer. The kernel counts pages of files by it, so not
// more.
constexpr blksize_t kBlockBytes = 4096;

timespec timespec_of(meta::Time time) {
  constexpr meta::Time kSecond = 1'000'000'000;
  timespec result{};
  result.tv_sec = time / kSecond;
  result.tv_nsec = time % kSecond;
  if (result.tv_nsec < 0) {  // Before 1970.
    result.tv_nsec += kSecond;
    --result.tv_sec;
  }
  return result;
}

void want(fuse_conn_info* connection, unsigned capability, bool wanted) {
  connection->want &= ~capability;
  if (wanted) connection->want |= connection->capable & capability;
}

}  // namespace

Server::Server(volume::VolumeView& view, volume::Volume* live, Control& control,
               const std::string& directory, const MountOptions& options)
    : view_(view),
      live_(live),
      control_(control),
      options_(options),
      page_flush_(directory),
      access_(live, options.access_times),
      watch_({.threshold = options.slow_request, .store = control.facts().store},
             options.stay_awake),
      directory_(directory),
      seekers_("mount-seek", kSeekers, kSeeksMax) {
  if (gathers()) write_times_.emplace(*live_);
}

void Server::init(fuse_conn_info* connection) {
  connection->max_write = kRequestBytesMax;
  // Reads ahead and writes behind under way at once; the default is 12, too few for an object
  // store.
  connection->max_background = options_.threads_max;
  connection->congestion_threshold = options_.threads_max * 3 / 4;
  connection->time_gran = 1;
  want(connection, FUSE_CAP_WRITEBACK_CACHE, gathers());
  // The kernel takes special bits away itself when a file is written. If we did, it would still
  // show them.
  want(connection, FUSE_CAP_HANDLE_KILLPRIV, false);
  // As above: a truncation inside of open() would leave them.
  want(connection, FUSE_CAP_ATOMIC_O_TRUNC, false);
  // What it has is right, whatever times we say.
  want(connection, FUSE_CAP_AUTO_INVAL_DATA, false);
  want(connection, FUSE_CAP_EXPLICIT_INVAL_DATA, true);
  want(connection, FUSE_CAP_CACHE_SYMLINKS, true);
  want(connection, FUSE_CAP_EXPORT_SUPPORT, true);
  want(connection, FUSE_CAP_POSIX_ACL, options_.acl);
  want(connection, FUSE_CAP_DONT_MASK, options_.acl);  // Default lists come before the umask.
  no_open_ = (connection->capable & FUSE_CAP_NO_OPEN_SUPPORT) != 0;
  no_opendir_ = (connection->capable & FUSE_CAP_NO_OPENDIR_SUPPORT) != 0;
}

void Server::begin() {
  // Here the kernel has taken our answer to init(), which would have set it back.
  std::call_once(begun_, [this] { raise_kernel_read_ahead(directory_); });
}

void Server::destroy() {
  for (const meta::Ino ino : lookups_.take_all()) {
    if (live_ != nullptr) live_->let_go(ino);
  }
}

bool Server::is_hidden(meta::Ino parent, std::string_view name) const {
  return live_ != nullptr && options_.changes &&
         options_.changes->is_hidden(view_.uuid(), parent, name);
}

// Those of a directory others may be changing just now.
double Server::attributes_last(uint32_t mode) const {
  const bool unsure = S_ISDIR(mode) && live_ != nullptr && options_.changes &&
                      options_.changes->changed_within(kAnswersTake);
  return unsure ? 0 : kTimeoutSeconds;
}

struct stat Server::stat_of(meta::Inode inode) {
  access_.show(inode);
  if (write_times_) write_times_->show(inode);
  struct stat result {};
  result.st_ino = inode.ino;
  result.st_mode = inode.mode;
  result.st_nlink = inode.links;
  result.st_uid = options_.uid.value_or(inode.uid);
  result.st_gid = options_.gid.value_or(inode.gid);
  result.st_rdev = inode.rdev;
  result.st_size = static_cast<off_t>(inode.size);
  result.st_blksize = kBlockBytes;
  result.st_blocks =
      static_cast<blkcnt_t>((inode.allocated + kStatBlockBytes - 1) / kStatBlockBytes);
  result.st_atim = timespec_of(inode.atime);
  result.st_mtim = timespec_of(inode.mtime);
  result.st_ctim = timespec_of(inode.ctime);
  return result;
}

fuse_entry_param Server::entry_of(const meta::Inode& inode) {
  fuse_entry_param entry{};
  entry.ino = inode.ino;
  entry.attr = stat_of(inode);
  entry.attr_timeout = attributes_last(inode.mode);
  entry.entry_timeout = kTimeoutSeconds;
  return entry;
}

void Server::reply_entry(fuse_req_t request, const meta::Inode& inode) {
  const Result<void> told = tell_of(inode.ino);
  if (!told.ok()) return reply_error(request, told.error(), "lookup", inode.ino);
  const fuse_entry_param entry = entry_of(inode);
  // Who asked may be gone: then the kernel does not know of it.
  if (fuse_reply_entry(request, &entry) != 0) take_back(inode.ino, 1);
}

void Server::reply_attr(fuse_req_t request, const meta::Inode& inode) {
  const struct stat attributes = stat_of(inode);
  fuse_reply_attr(request, &attributes, attributes_last(inode.mode));
}

void Server::reply_error(fuse_req_t request, const Error& error, std::string_view operation,
                         meta::Ino ino) {
  fuse_reply_err(request, report(error, operation, ino));
}

void Server::reply_done(fuse_req_t request, const Result<void>& done, std::string_view operation,
                        meta::Ino ino) {
  fuse_reply_err(request, done.ok() ? 0 : report(done.error(), operation, ino));
}

bool Server::refuse_change(fuse_req_t request) {
  if (live_ != nullptr) return false;
  fuse_reply_err(request, EROFS);
  return true;
}

}  // namespace penstock::mount
