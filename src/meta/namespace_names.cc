// Names: made, linked, removed.
#include <fmt/core.h>

#include <cerrno>

#include "meta/entry_rows.h"
#include "meta/sqlite_namespace.h"

namespace penstock::meta {

namespace {

constexpr size_t kTargetBytesMax = 4095;
constexpr uint32_t kPermissionBits = 07777;

// One that can be made: "." and ".." are always there.
Result<void> check_new_name(std::string_view name) {
  PENSTOCK_TRY(check_name(name));
  if (name == "." || name == "..") return posix_error(EEXIST, name);
  return {};
}

Result<void> check_new_inode(const NewInode& wanted) {
  switch (wanted.mode & S_IFMT) {
    case S_IFREG:
    case S_IFDIR:
    case S_IFCHR:
    case S_IFBLK:
    case S_IFIFO:
    case S_IFSOCK:
      if (wanted.target.empty()) return {};
      return posix_error(EINVAL, "a target of something that is no symbolic link");
    case S_IFLNK:
      if (wanted.target.empty()) return posix_error(ENOENT, "an empty target");
      if (wanted.target.size() > kTargetBytesMax)
        return posix_error(ENAMETOOLONG, "the target of a symbolic link");
      return {};
    default:
      return posix_error(EINVAL, fmt::format("the mode {:#o}", wanted.mode));
  }
}

Error already_there(std::string_view name) {
  return posix_error(EEXIST, name);
}

// `entries` more names in it, `directories` of them of directories.
void touch_directory(InodeRow& row, int entries, int directories, Time now) {
  row.size += static_cast<uint64_t>(entries);
  row.links += static_cast<uint32_t>(directories);
  row.mtime = row.ctime = now;
}

}  // namespace

Result<InodeRow> SqliteNamespace::new_row(const InodeRow& parent, const NewInode& wanted,
                                          Time now) {
  InodeRow row;
  row.ino = wanted.ino == 0 ? core_->next_ino() : PENSTOCK_TRY(core_->take_ino(wanted.ino));
  row.mode = wanted.mode & (S_IFMT | kPermissionBits);
  row.uid = wanted.uid;
  row.gid = wanted.gid;
  if ((parent.mode & S_ISGID) != 0) {
    row.gid = parent.gid;
    if (row.is_directory()) row.mode |= S_ISGID;
  }
  const bool device = S_ISCHR(row.mode) || S_ISBLK(row.mode);
  row.rdev = device ? wanted.rdev : 0;
  row.links = row.is_directory() ? 2 : 1;
  row.size = S_ISLNK(row.mode) ? wanted.target.size() : 0;
  row.atime = row.mtime = row.ctime = now;
  row.data_version = S_ISREG(row.mode) ? core_->next_data_version() : 0;
  row.parent = row.is_directory() ? parent.ino : 0;
  return row;
}

Result<Inode> SqliteNamespace::create(Ino parent, std::string_view name, const NewInode& wanted,
                                      Time now) {
  return changing([&]() -> Result<Inode> {
    PENSTOCK_TRY(check_new_name(name));
    PENSTOCK_TRY(check_new_inode(wanted));
    InodeRow directory = PENSTOCK_TRY(load_parent(*core_, id(), parent));
    InodeRow row = PENSTOCK_TRY(new_row(directory, wanted, now));
    PENSTOCK_TRY(check_room(parent, name));
    if (!PENSTOCK_TRY(add_entry_if_free(*core_, id(), parent, name, row)))
      return already_there(name);
    std::optional<std::string_view> target;
    if (S_ISLNK(row.mode)) target = wanted.target;
    PENSTOCK_TRY(add_inode(*core_, id(), row, target));
    core_->note_totals(*volume_, 0, 1);
    touch_directory(directory, 1, row.is_directory() ? 1 : 0, now);
    PENSTOCK_TRY(save_inode(*core_, id(), directory));
    return Inode(row);
  });
}

// What is there is told first, be the volume full or not.
Result<void> SqliteNamespace::check_room(Ino parent, std::string_view name) {
  const Result<void> room = core_->check_quota(*volume_, 0, 1);
  if (room.ok()) return {};
  const auto there = PENSTOCK_TRY(find_entry(*core_, id(), parent, name, kLive));
  return there ? already_there(name) : room.error();
}

Result<Inode> SqliteNamespace::link(Ino ino, Ino parent, std::string_view name, Time now) {
  return changing([&]() -> Result<Inode> {
    PENSTOCK_TRY(check_new_name(name));
    InodeRow row = PENSTOCK_TRY(load_inode(*core_, id(), ino, kLive));
    InodeRow directory = PENSTOCK_TRY(load_parent(*core_, id(), parent));
    const auto there = PENSTOCK_TRY(find_entry(*core_, id(), parent, name, kLive));
    if (there) return already_there(name);
    if (row.is_directory()) return posix_error(EPERM, "a second name of a directory");
    if (row.links == 0) return no_inode(ino);
    if (row.links >= kLinksMax) return posix_error(EMLINK, fmt::format("inode {}", ino));
    PENSTOCK_TRY(add_entry(*core_, id(), parent, name, row));
    ++row.links;
    row.ctime = now;
    PENSTOCK_TRY(save_inode(*core_, id(), row));
    touch_directory(directory, 1, 0, now);
    PENSTOCK_TRY(save_inode(*core_, id(), directory));
    return Inode(row);
  });
}

Result<Removed> SqliteNamespace::remove_name(Ino parent, std::string_view name, bool directory,
                                             Time now) {
  InodeRow above = PENSTOCK_TRY(load_parent(*core_, id(), parent));
  const auto entry = PENSTOCK_TRY(find_entry(*core_, id(), parent, name, kLive));
  if (!entry) return posix_error(ENOENT, name);
  InodeRow row = PENSTOCK_TRY(load_inode(*core_, id(), entry->ino, kLive));
  if (row.is_directory() != directory) return posix_error(directory ? ENOTDIR : EISDIR, name);
  if (directory && row.size != 0) return posix_error(ENOTEMPTY, name);
  PENSTOCK_TRY(end_entry(*core_, id(), parent, name, *entry));
  row.links = directory ? 0 : row.links - 1;
  row.ctime = now;
  PENSTOCK_TRY(save_inode(*core_, id(), row));
  touch_directory(above, -1, directory ? -1 : 0, now);
  PENSTOCK_TRY(save_inode(*core_, id(), above));
  return Removed{row};
}

Result<Removed> SqliteNamespace::unlink(Ino parent, std::string_view name, Time now) {
  return changing([&]() -> Result<Removed> {
    PENSTOCK_TRY(check_name(name));
    if (name == "." || name == "..") return posix_error(EISDIR, name);
    return remove_name(parent, name, false, now);
  });
}

Result<Removed> SqliteNamespace::remove_directory(Ino parent, std::string_view name, Time now) {
  return changing([&]() -> Result<Removed> {
    PENSTOCK_TRY(check_name(name));
    if (name == ".") return posix_error(EINVAL, name);
    if (name == "..") return posix_error(ENOTEMPTY, name);
    return remove_name(parent, name, true, now);
  });
}

}  // namespace penstock::meta
