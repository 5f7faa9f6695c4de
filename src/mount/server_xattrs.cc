// Extended attributes. Those of the kernel's own name spaces that mean something (lists of who may
// do what) are only taken where they are asked for; those that others ask for in vain are answered
// so that they stop.
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>

#include "mount/errors.h"
#include "mount/server.h"

namespace penstock::mount {

namespace {

bool is_acl(std::string_view name) {
  return name == kAccessAcl || name == kDefaultAcl;
}

// 0, or why it cannot be stored.
int refusal_of(std::string_view name, bool acl) {
  if (is_acl(name)) return acl ? 0 : EOPNOTSUPP;
  // ls -l asks for it once for each file, unless it is told that there is no such thing.
  if (name == "security.selinux") return EOPNOTSUPP;
  for (const std::string_view prefix : {"user.", "trusted.", "security."}) {
    if (name == prefix) return EINVAL;
    if (name.starts_with(prefix)) return 0;
  }
  return EOPNOTSUPP;
}

void reply_value(fuse_req_t request, std::string_view value, size_t size) {
  if (size == 0) {
    fuse_reply_xattr(request, value.size());
  } else if (size < value.size()) {
    fuse_reply_err(request, ERANGE);
  } else {
    fuse_reply_buf(request, value.data(), value.size());
  }
}

bool may_command(fuse_req_t request) {
  const uid_t uid = fuse_req_ctx(request)->uid;
  return uid == 0 || uid == ::geteuid();
}

}  // namespace

bool Server::answers_for_mount(fuse_req_t request, meta::Ino ino, std::string_view name,
                               size_t size) {
  if (ino != meta::kRoot || name != kStatusAttribute) return false;
  const Result<std::string> status = control_.status(watch_.counts());
  if (status.ok()) {
    reply_value(request, *status, size);
  } else {
    reply_error(request, status.error(), "status", ino);
  }
  return true;
}

void Server::getxattr(fuse_req_t request, fuse_ino_t ino, const char* name, size_t size) {
  if (answers_for_mount(request, ino, name, size)) return;
  if (const int refusal = refusal_of(name, options_.acl)) {
    fuse_reply_err(request, refusal);
    return;
  }
  const bool capability = kCapabilityName == name;
  if (capability && capabilities_.has_none(ino)) {
    fuse_reply_err(request, ENODATA);
    return;
  }
  const uint64_t moment = capabilities_.moment();
  const Result<std::string> value = names().xattr(ino, name);
  if (capability && !value.ok() && errno_of(value.error()) == ENODATA)
    capabilities_.note_none(ino, moment);
  if (!value.ok()) return reply_error(request, value.error(), "getxattr", ino);
  reply_value(request, *value, size);
}

void Server::listxattr(fuse_req_t request, fuse_ino_t ino, size_t size) {
  const Result<std::vector<std::string>> all = names().xattrs(ino);
  if (!all.ok()) return reply_error(request, all.error(), "listxattr", ino);
  const bool root = fuse_req_ctx(request)->uid == 0;
  std::string text;
  for (const std::string& name : *all) {
    if (refusal_of(name, options_.acl) != 0 || (name.starts_with("trusted.") && !root)) continue;
    text += name;
    text += '\0';
  }
  reply_value(request, text, size);
}

Result<void> Server::change_mode_in_acl(meta::Ino ino, uint32_t mode) {
  const Result<std::string> value = names().xattr(ino, kAccessAcl);
  if (!value.ok()) {
    if (errno_of(value.error()) == ENODATA) return {};
    return value.error();
  }
  const Acl acl = with_mode(PENSTOCK_TRY(parse_acl(*value)), mode);
  return live_->set_xattr(ino, kAccessAcl, format_acl(acl), meta::XattrMode::kSet);
}

// The list and the mode say the same; where the mode says it all, no list is kept.
Result<void> Server::set_access_acl(meta::Ino ino, std::string_view value) {
  const Acl acl = PENSTOCK_TRY(parse_acl(value));
  const meta::Inode inode = PENSTOCK_TRY(names().inode(ino));
  if (is_minimal(acl)) {
    const Result<void> removed = live_->remove_xattr(ino, kAccessAcl);
    if (!removed.ok() && errno_of(removed.error()) != ENODATA) return removed;
  } else {
    PENSTOCK_TRY(live_->set_xattr(ino, kAccessAcl, value, meta::XattrMode::kSet));
  }
  meta::Changes changes;
  changes.permissions = mode_of(acl, inode.mode) & 07777;
  PENSTOCK_TRY(live_->change(ino, changes));
  return {};
}

void Server::setxattr(fuse_req_t request, fuse_ino_t ino, const char* name, const char* value,
                      size_t size, int flags) {
  if (ino == meta::kRoot && std::string_view(name) == kDrainAttribute) {
    if (may_command(request)) control_.start_drain();
    fuse_reply_err(request, may_command(request) ? 0 : EPERM);
    return;
  }
  if (refuse_change(request)) return;
  if (const int refusal = refusal_of(name, options_.acl)) {
    fuse_reply_err(request, refusal);
    return;
  }
  const std::string_view text(value, size);
  if (std::string_view(name) == kAccessAcl) {
    return reply_done(request, set_access_acl(ino, text), "setxattr", ino);
  }
  if (std::string_view(name) == kDefaultAcl && !parse_acl(text).ok()) {
    fuse_reply_err(request, EINVAL);
    return;
  }
  if (flags == (XATTR_CREATE | XATTR_REPLACE)) {  // Can only fail.
    fuse_reply_err(request, names().xattr(ino, name).ok() ? EEXIST : ENODATA);
    return;
  }
  meta::XattrMode mode = meta::XattrMode::kSet;
  if ((flags & XATTR_CREATE) != 0) mode = meta::XattrMode::kCreate;
  if ((flags & XATTR_REPLACE) != 0) mode = meta::XattrMode::kReplace;
  const Result<void> done = live_->set_xattr(ino, name, text, mode);
  if (kCapabilityName == name) capabilities_.forget(ino);
  reply_done(request, done, "setxattr", ino);
}

void Server::removexattr(fuse_req_t request, fuse_ino_t ino, const char* name) {
  if (refuse_change(request)) return;
  if (const int refusal = refusal_of(name, options_.acl)) {
    fuse_reply_err(request, refusal);
    return;
  }
  const Result<void> removed = live_->remove_xattr(ino, name);
  // The kernel removes lists without looking whether there is one.
  if (!removed.ok() && is_acl(name) && errno_of(removed.error()) == ENODATA) {
    fuse_reply_err(request, 0);
    return;
  }
  reply_done(request, removed, "removexattr", ino);
}

}  // namespace penstock::mount
