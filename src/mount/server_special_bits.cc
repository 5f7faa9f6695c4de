// Set-ID bits and capabilities go when a file is written, cut or given away, as the kernel agreed
// with us (RequestWatch). Where it did not, it does so itself.
#include <algorithm>
#include <cerrno>
#include <span>
#include <vector>

#include "mount/errors.h"
#include "mount/server.h"

namespace penstock::mount {

namespace {

// Of whoever asks. Where that cannot be told, no.
bool is_member(fuse_req_t request, gid_t group) {
  const fuse_ctx* const caller = fuse_req_ctx(request);
  if (caller->uid == 0 || caller->gid == group) return true;
  constexpr int kGroupsMax = 65'536;  // As the kernel has it.
  std::vector<gid_t> groups(kGroupsMax);
  const int count = fuse_req_getgroups(request, kGroupsMax, groups.data());
  const auto found = std::span(groups).first(static_cast<size_t>(std::clamp(count, 0, kGroupsMax)));
  return std::ranges::find(found, group) != found.end();
}

}  // namespace

// Without group execution the set-group-ID bit means nothing that a member of the group could gain by.
uint32_t Server::without_special_bits(fuse_req_t request, const meta::Inode& inode,
                                      uint32_t mode) const {
  mode &= ~static_cast<uint32_t>(S_ISUID);
  if ((mode & S_ISGID) == 0) return mode;
  if ((mode & S_IXGRP) != 0 || !is_member(request, options_.gid.value_or(inode.gid))) {
    mode &= ~static_cast<uint32_t>(S_ISGID);
  }
  return mode;
}

// Capabilities always, set-ID bits `with_bits`.
Result<void> Server::drop_special_bits(fuse_req_t request, meta::Ino ino, bool with_bits) {
  if (!watch_.kills_special_bits()) return {};
  if (!capabilities_.has_none(ino)) {
    const uint64_t moment = capabilities_.moment();
    const Result<void> removed = live_->remove_xattr(ino, kCapabilityName);
    if (!removed.ok() && errno_of(removed.error()) != ENODATA) return removed;
    capabilities_.note_none(ino, moment);
  }
  if (!with_bits) return {};
  const meta::Inode inode = PENSTOCK_TRY(names().inode(ino));
  if (inode.is_directory()) return {};
  const uint32_t mode = without_special_bits(request, inode, inode.mode);
  if (mode == inode.mode) return {};
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
  return drop_special_bits(request, ino, fuse_req_ctx(request)->uid != 0);
}

// Of a change that gives a file away, or cuts it.
void Server::drop_from(fuse_req_t request, meta::Changes& changes, meta::Ino ino) {
  const bool given_away = changes.uid || changes.gid;
  if (!watch_.kills_special_bits() || !(given_away || changes.size)) return;
  if (!given_away && !RequestWatch::request_kills()) return;
  const Result<meta::Inode> inode = names().inode(ino);
  if (!inode.ok() || inode->is_directory()) return;
  const uint32_t mode = changes.permissions.value_or(inode->mode & 07777);
  const uint32_t left = without_special_bits(request, *inode, mode);
  if (left != mode) changes.permissions = left;
}

}  // namespace penstock::mount
