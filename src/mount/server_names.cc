// Names: found, made, removed.
#include <fcntl.h>

#include <cerrno>

#include "base/log.h"
#include "mount/errors.h"
#include "mount/server.h"

// Of renameat2(2); stdio.h has them only with extensions.
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE (1U << 0)
#endif
#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE (1U << 1)
#endif

namespace penstock::mount {

Result<meta::Inode> Server::find(meta::Ino parent, std::string_view name) {
  if (is_hidden(parent, name)) return errno_error(ENOENT, "a file that is still being put");
  if (name != ".") return names().lookup(parent, name);
  // A handle that somebody kept (open_by_handle_at): of a file as well.
  // The kernel finds by itself what is open, so what has no name is on its way out.
  meta::Inode inode = PENSTOCK_TRY(names().inode(parent));
  if (inode.links == 0) return errno_error(ESTALE, "a file handle");
  return inode;
}

void Server::lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  const Result<meta::Inode> inode = find(parent, name);
  if (inode.ok()) return reply_entry(request, *inode);
  if (errno_of(inode.error()) != ENOENT || std::string_view(name) == ".") {
    return reply_error(request, inode.error(), "lookup", parent);
  }
  // That there is none may be remembered too.
  fuse_entry_param none = entry_of({});
  none.ino = 0;
  fuse_reply_entry(request, &none);
}

Result<void> Server::tell_of(meta::Ino ino) {
  if (!lookups_.add(ino) || live_ == nullptr) return {};
  const Result<meta::Inode> held = live_->hold(ino);
  if (held.ok()) return {};
  lookups_.forget(ino, 1);
  return held.error();
}

void Server::take_back(meta::Ino ino, uint64_t count) {
  if (lookups_.forget(ino, count) && live_ != nullptr) live_->let_go(ino);
}

void Server::forget(fuse_req_t request, fuse_ino_t ino, uint64_t count) {
  take_back(ino, count);
  fuse_reply_none(request);
}

void Server::forget_multi(fuse_req_t request, size_t count, fuse_forget_data* forgets) {
  for (const fuse_forget_data& one : std::span(forgets, count)) take_back(one.ino, one.nlookup);
  fuse_reply_none(request);
}

void Server::readlink(fuse_req_t request, fuse_ino_t ino) {
  const Result<std::string> target = names().symlink(ino);
  if (!target.ok()) return reply_error(request, target.error(), "readlink", ino);
  access_.note(ino);
  fuse_reply_readlink(request, target->c_str());
}

// What the caller asked for, with what the directory adds.
Result<Server::Made> Server::prepare(fuse_req_t request, meta::Ino parent, mode_t mode) {
  const fuse_ctx* const caller = fuse_req_ctx(request);
  Made made;
  made.inode.mode = mode;
  made.inode.uid = options_.uid.value_or(caller->uid);
  made.inode.gid = options_.gid.value_or(caller->gid);
  if (!options_.acl || S_ISLNK(mode)) return made;
  const Result<std::string> inherited = names().xattr(parent, kDefaultAcl);
  if (!inherited.ok()) {
    if (errno_of(inherited.error()) != ENODATA) return inherited.error();
    made.inode.mode &= ~caller->umask;
    return made;
  }
  Inherited list = inherit(PENSTOCK_TRY(parse_acl(*inherited)), mode);
  made.inode.mode = list.mode;
  made.access = std::move(list.access);
  if (S_ISDIR(mode)) made.inherited_default = *inherited;
  return made;
}

Result<meta::Inode> Server::make(meta::Ino parent, std::string_view name, const Made& made) {
  meta::Inode inode = PENSTOCK_TRY(live_->create(parent, name, made.inode));
  if (S_ISREG(inode.mode)) capabilities_.note_none(inode.ino, capabilities_.moment());
  if (made.access) {
    PENSTOCK_TRY(
        live_->set_xattr(inode.ino, kAccessAcl, format_acl(*made.access), meta::XattrMode::kSet));
  }
  if (made.inherited_default) {
    PENSTOCK_TRY(
        live_->set_xattr(inode.ino, kDefaultAcl, *made.inherited_default, meta::XattrMode::kSet));
  }
  return inode;
}

void Server::make_and_reply(fuse_req_t request, meta::Ino parent, const char* name, mode_t mode,
                            dev_t rdev, std::string_view target) {
  if (refuse_change(request)) return;
  Result<Made> made = prepare(request, parent, mode);
  if (!made.ok()) return reply_error(request, made.error(), "create", parent);
  made->inode.rdev = rdev;
  made->inode.target = target;
  const Result<meta::Inode> inode = make(parent, name, *made);
  if (!inode.ok()) return reply_error(request, inode.error(), "create", parent);
  reply_entry(request, *inode);
}

void Server::mknod(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode,
                   dev_t rdev) {
  make_and_reply(request, parent, name, mode, rdev, {});
}

void Server::mkdir(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
  make_and_reply(request, parent, name, S_IFDIR | (mode & ~static_cast<mode_t>(S_IFMT)), 0, {});
}

void Server::symlink(fuse_req_t request, const char* target, fuse_ino_t parent, const char* name) {
  make_and_reply(request, parent, name, S_IFLNK | 0777, 0, target);
}

void Server::create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode,
                    fuse_file_info* file) {
  if (refuse_change(request)) return;
  // As with open(): the kernel makes a node then, and opens it by itself.
  if (no_open_) {
    fuse_reply_err(request, ENOSYS);
    return;
  }
  const Result<Made> made =
      prepare(request, parent, S_IFREG | (mode & ~static_cast<mode_t>(S_IFMT)));
  if (!made.ok()) return reply_error(request, made.error(), "create", parent);
  Result<meta::Inode> inode = make(parent, name, *made);
  if (!inode.ok() && errno_of(inode.error()) == EEXIST && (file->flags & O_EXCL) == 0) {
    inode = names().lookup(parent, name);
  }
  if (!inode.ok()) return reply_error(request, inode.error(), "create", parent);
  file->keep_cache = 1;
  const Result<void> told = tell_of(inode->ino);
  if (!told.ok()) return reply_error(request, told.error(), "create", parent);
  const fuse_entry_param entry = entry_of(*inode);
  if (fuse_reply_create(request, &entry, file) != 0) take_back(inode->ino, 1);
}

void Server::link(fuse_req_t request, fuse_ino_t ino, fuse_ino_t parent, const char* name) {
  if (refuse_change(request)) return;
  const Result<meta::Inode> inode = live_->link(ino, parent, name);
  if (!inode.ok()) return reply_error(request, inode.error(), "link", ino);
  reply_entry(request, *inode);
}

void Server::unlink(fuse_req_t request, fuse_ino_t parent, const char* name) {
  if (refuse_change(request)) return;
  const Result<meta::Inode> inode = live_->unlink(parent, name);
  if (!inode.ok()) return reply_error(request, inode.error(), "unlink", parent);
  fuse_reply_err(request, 0);
}

void Server::rmdir(fuse_req_t request, fuse_ino_t parent, const char* name) {
  if (refuse_change(request)) return;
  const Result<meta::Inode> inode = live_->remove_directory(parent, name);
  if (!inode.ok()) return reply_error(request, inode.error(), "rmdir", parent);
  fuse_reply_err(request, 0);
}

void Server::rename(fuse_req_t request, fuse_ino_t parent, const char* name, fuse_ino_t new_parent,
                    const char* new_name, unsigned flags) {
  if (refuse_change(request)) return;
  meta::Rename mode = meta::Rename::kReplace;
  if (flags == RENAME_NOREPLACE) {
    mode = meta::Rename::kNoReplace;
  } else if (flags == RENAME_EXCHANGE) {
    mode = meta::Rename::kExchange;
  } else if (flags != 0) {
    fuse_reply_err(request, EINVAL);
    return;
  }
  const Result<meta::Renamed> renamed = live_->rename(parent, name, new_parent, new_name, mode);
  if (!renamed.ok()) return reply_error(request, renamed.error(), "rename", parent);
  fuse_reply_err(request, 0);
}

}  // namespace penstock::mount
