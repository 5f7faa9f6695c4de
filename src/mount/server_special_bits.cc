// Set-ID bits and capabilities go when a file is written, cut or given away, as the kernel agreed
// with us (RequestWatch). Where it did not, it does so itself.
#include <cerrno>

#include "mount/errors.h"
#include "mount/server.h"

namespace penstock::mount {

namespace {

// Without group execution the set-group-ID bit means something else.
uint32_t without_special_bits(uint32_t mode) {
  mode &= ~static_cast<uint32_t>(S_ISUID);
  if ((mode & S_IXGRP) != 0) mode &= ~static_cast<uint32_t>(S_ISGID);
  return mode;
}

}  // namespace

// Capabilities always, set-ID bits `with_bits`.
Result<void> Server::drop_special_bits(meta::Ino ino, bool with_bits) {
  if (!watch_.kills_special_bits()) return {};
  if (!capabilities_.has_none(ino)) {
    const uint64_t moment = capabilities_.moment();
    const Result<void> removed = live_->remove_xattr(ino, kCapabilityName);
    if (!removed.ok() && errno_of(removed.error()) != ENODATA) return removed;
    capabilities_.note_none(ino, moment);
  }
  if (!with_bits) return {};
  const meta::Inode inode = PENSTOCK_TRY(names().inode(ino));
  const uint32_t mode = without_special_bits(inode.mode);
  if (mode == inode.mode || inode.is_directory()) return {};
  meta::Changes changes;
  changes.permissions = mode & 07777;
  PENSTOCK_TRY(live_->change(ino, changes));
  // It has the old ones in mind. Only attributes: pages it is just writing are not to be waited
  // for.
  if (session_ != nullptr) fuse_lowlevel_notify_inval_inode(session_, ino, -1, 0);
  return {};
}

// Of requests that do not say so themselves.
Result<void> Server::drop_for_caller(fuse_req_t request, meta::Ino ino) {
  return drop_special_bits(ino, fuse_req_ctx(request)->uid != 0);
}

// Of a change that gives a file away, or cuts it.
void Server::drop_from(meta::Changes& changes, meta::Ino ino) {
  const bool given_away = changes.uid || changes.gid;
  if (!watch_.kills_special_bits() || !(given_away || changes.size)) return;
  if (!given_away && !RequestWatch::request_kills()) return;
  const Result<meta::Inode> inode = names().inode(ino);
  if (!inode.ok() || inode->is_directory()) return;
  const uint32_t mode = changes.permissions.value_or(inode->mode & 07777);
  if (without_special_bits(mode) != mode) changes.permissions = without_special_bits(mode);
}

}  // namespace penstock::mount
