// What inodes have beside their names and content.
#include <fmt/core.h>

#include <cerrno>

#include "meta/sqlite_namespace.h"
#include "meta/volume_rows.h"
#include "meta/xattr_rows.h"

namespace penstock::meta {

Settings SqliteNamespace::settings() {
  std::lock_guard turn(core_->mutex());
  return volume_->settings;
}

Result<void> SqliteNamespace::set_settings(const Settings& wanted) {
  Settings settings = wanted;
  return changing([&]() -> Result<void> {
    settings.uuid = volume_->settings.uuid;
    settings.block_bytes = volume_->settings.block_bytes;
    settings.store = volume_->settings.store;
    PENSTOCK_TRY(check_settings(settings));
    if (settings.name != volume_->settings.name && core_->volume(settings.name).ok())
      return make_error(ErrorCode::kExists,
                        fmt::format("there is a volume {} already", settings.name));
    PENSTOCK_TRY(store_settings(core_->db(), id(), settings));
    core_->note_change();
    volume_->settings = settings;
    return {};
  });
}

Result<Inode> SqliteNamespace::apply(InodeRow& row, const Changes& changes, Time now) {
  if (changes.size && *changes.size != row.size) {
    const uint64_t before = row.size;
    PENSTOCK_TRY(set_size(row, *changes.size));
    if (row.size < before) {
      const Range rest{row.size, kFileBytesMax};
      row.allocated -= PENSTOCK_TRY(cut_extents(*core_, id(), row.ino, rest));
    }
    row.data_version = core_->next_data_version();
  }
  if (changes.size) row.mtime = now;  // Of the same size too, as ftruncate(2) has it.
  if (changes.permissions) row.mode = (row.mode & S_IFMT) | (*changes.permissions & 07777);
  if (changes.uid) row.uid = *changes.uid;
  if (changes.gid) row.gid = *changes.gid;
  if (changes.atime) row.atime = *changes.atime;
  if (changes.mtime) row.mtime = *changes.mtime;
  row.ctime = now;
  PENSTOCK_TRY(save_inode(*core_, id(), row));
  return Inode(row);
}

Result<Inode> SqliteNamespace::change(Ino ino, const Changes& changes, Time now) {
  return changing([&]() -> Result<Inode> {
    InodeRow row = PENSTOCK_TRY(changes.size ? load_file(*core_, id(), ino)
                                             : load_inode(*core_, id(), ino, kLive));
    const bool others =
        changes.permissions || changes.uid || changes.gid || changes.size || changes.mtime;
    if (others) return apply(row, changes, now);
    if (changes.atime) {
      PENSTOCK_TRY(save_atime(*core_, id(), ino, *changes.atime));
      row.atime = *changes.atime;
    }
    return Inode(row);
  });
}

Result<void> SqliteNamespace::set_xattr(Ino ino, std::string_view name, std::string_view value,
                                        XattrMode mode, Time now) {
  return changing([&]() -> Result<void> {
    PENSTOCK_TRY(check_xattr(name, value));
    InodeRow row = PENSTOCK_TRY(load_inode(*core_, id(), ino, kLive));
    const auto before = PENSTOCK_TRY(find_xattr(*core_, id(), ino, name));
    if (before && mode == XattrMode::kCreate) return posix_error(EEXIST, "the attribute");
    if (!before && mode == XattrMode::kReplace) return posix_error(ENODATA, "the attribute");
    PENSTOCK_TRY(put_xattr(*core_, id(), ino, name, value, before));
    row.ctime = now;
    return save_inode(*core_, id(), row);
  });
}

Result<void> SqliteNamespace::remove_xattr(Ino ino, std::string_view name, Time now) {
  return changing([&]() -> Result<void> {
    InodeRow row = PENSTOCK_TRY(load_inode(*core_, id(), ino, kLive));
    const auto before = PENSTOCK_TRY(find_xattr(*core_, id(), ino, name));
    if (!before) return posix_error(ENODATA, "the attribute");
    PENSTOCK_TRY(end_xattr(*core_, *before));
    row.ctime = now;
    return save_inode(*core_, id(), row);
  });
}

Result<void> SqliteNamespace::forget(Ino ino) {
  return changing([&]() -> Result<void> {
    const InodeRow row = PENSTOCK_TRY(load_inode(*core_, id(), ino, kLive));
    if (row.links != 0)
      return posix_error(EBUSY, fmt::format("inode {}, which still has a name", ino));
    if (row.allocated != 0) PENSTOCK_TRY(end_all_extents(*core_, id(), ino));
    PENSTOCK_TRY(end_all_xattrs(*core_, id(), ino));
    PENSTOCK_TRY(end_inode(*core_, id(), row));
    const uint64_t bytes = S_ISREG(row.mode) ? row.size : 0;
    core_->note_totals(*volume_, -static_cast<int64_t>(bytes), -1);
    return {};
  });
}

Result<std::vector<Ino>> SqliteNamespace::nameless() {
  return core_->read([&]() -> Result<std::vector<Ino>> {
    PENSTOCK_TRY(check_volume(*volume_));
    return find_nameless(*core_, id());
  });
}

Result<std::unique_ptr<View>> SqliteNamespace::at(Version version) {
  return core_->read([&]() -> Result<std::unique_ptr<View>> {
    PENSTOCK_TRY(check_volume(*volume_));
    if (version < volume_->horizon || version > core_->last()) return no_version(version);
    return make_past_view(core_, volume_, version);
  });
}

}  // namespace penstock::meta
