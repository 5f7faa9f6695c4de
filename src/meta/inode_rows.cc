#include "meta/inode_rows.h"

#include <fmt/core.h>

#include <cerrno>

namespace penstock::meta {

namespace {

#define INODE_COLUMNS                                                                  \
  "inode.ino, inode.mode, inode.uid, inode.gid, inode.links, inode.rdev, inode.size, " \
  "inode.allocated, inode.atime, inode.mtime, inode.ctime, inode.data_version, "       \
  "inode.parent, inode.born"

InodeRow inode_of(const Query& row) {
  InodeRow inode;
  inode.ino = row.number(0);
  inode.mode = row.small(1);
  inode.uid = row.small(2);
  inode.gid = row.small(3);
  inode.links = row.small(4);
  inode.rdev = row.number(5);
  inode.size = row.number(6);
  inode.allocated = row.number(7);
  inode.atime = row.integer(8);
  inode.mtime = row.integer(9);
  inode.ctime = row.integer(10);
  inode.data_version = row.number(11);
  inode.parent = row.number(12);
  inode.born = row.number(13);
  return inode;
}

}  // namespace

Result<std::optional<InodeRow>> find_inode(Core& core, VolumeId volume, Ino ino, Version version) {
  if (version == kLive) {
    Query query =
        core.db().query("SELECT " INODE_COLUMNS
                        " FROM inode WHERE volume = ? AND ino = ? AND died = " PENSTOCK_LIVE,
                        volume, ino);
    if (!PENSTOCK_TRY(query.next())) return std::optional<InodeRow>();
    return std::optional(inode_of(query));
  }
  Query query = core.db().query("SELECT " INODE_COLUMNS
                                " FROM inode WHERE volume = ? AND ino = ? AND died > ? "
                                "ORDER BY died LIMIT 1",
                                volume, ino, version);
  if (!PENSTOCK_TRY(query.next())) return std::optional<InodeRow>();
  std::optional<InodeRow> found = inode_of(query);
  if (found->born > version) found.reset();
  return found;
}

Result<std::optional<InodeRow>> find_named(Core& core, VolumeId volume, Ino parent,
                                           std::string_view name) {
  Query query =
      core.db().query("SELECT " INODE_COLUMNS
                      " FROM entry CROSS JOIN inode ON inode.volume = ?1 AND inode.ino = entry.ino "
                      "AND inode.died = " PENSTOCK_LIVE
                      " WHERE entry.volume = ?1 AND entry.parent = ?2 AND entry.name = ?3 "
                      "AND entry.died = " PENSTOCK_LIVE,
                      volume, parent, name);
  if (!PENSTOCK_TRY(query.next())) return std::optional<InodeRow>();
  return std::optional(inode_of(query));
}

Result<InodeRow> load_inode(Core& core, VolumeId volume, Ino ino, Version version) {
  const std::optional<InodeRow> found = PENSTOCK_TRY(find_inode(core, volume, ino, version));
  if (!found) return no_inode(ino);
  return *found;
}

Result<InodeRow> load_directory(Core& core, VolumeId volume, Ino ino, Version version) {
  const InodeRow row = PENSTOCK_TRY(load_inode(core, volume, ino, version));
  if (!row.is_directory()) return posix_error(ENOTDIR, fmt::format("inode {}", ino));
  return row;
}

Result<void> check_parent(const InodeRow& row) {
  if (!row.is_directory()) return posix_error(ENOTDIR, fmt::format("inode {}", row.ino));
  if (row.links == 0) return no_inode(row.ino);
  return {};
}

Result<InodeRow> load_parent(Core& core, VolumeId volume, Ino ino) {
  const InodeRow row = PENSTOCK_TRY(load_inode(core, volume, ino, kLive));
  PENSTOCK_TRY(check_parent(row));
  return row;
}

Result<InodeRow> load_file(Core& core, VolumeId volume, Ino ino) {
  const InodeRow row = PENSTOCK_TRY(load_inode(core, volume, ino, kLive));
  if (S_ISREG(row.mode)) return row;
  return posix_error(row.is_directory() ? EISDIR : EINVAL, fmt::format("inode {}", ino));
}

Result<void> add_inode(Core& core, VolumeId volume, InodeRow& row,
                       std::optional<std::string_view> target) {
  row.born = core.current();
  core.note_change();
  constexpr const char* kAdd =
      "INSERT INTO inode(volume, ino, died, born, mode, uid, gid, links, rdev, size, allocated, "
      "atime, mtime, ctime, data_version, parent, target) "
      "VALUES(?, ?, " PENSTOCK_LIVE ", ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
  PENSTOCK_TRY(core.db().run(kAdd, volume, row.ino, row.born, row.mode, row.uid, row.gid, row.links,
                             row.rdev, row.size, row.allocated, row.atime, row.mtime, row.ctime,
                             row.data_version, row.parent, target));
  return {};
}

namespace {

// What the row was until now, for the versions that had it so.
Result<void> keep_history(Core& core, VolumeId volume, const InodeRow& row) {
  constexpr const char* kKeep =
      "INSERT INTO inode(volume, ino, died, born, mode, uid, gid, links, rdev, size, allocated, "
      "atime, mtime, ctime, data_version, parent, target) "
      "SELECT volume, ino, ?3, born, mode, uid, gid, links, rdev, size, allocated, atime, mtime, "
      "ctime, data_version, parent, target FROM inode "
      "WHERE volume = ?1 AND ino = ?2 AND died = " PENSTOCK_LIVE;
  PENSTOCK_TRY(core.db().run(kKeep, volume, row.ino, core.current()));
  return {};
}

}  // namespace

Result<void> save_inode(Core& core, VolumeId volume, InodeRow& row) {
  core.note_change();
  if (row.born < core.current()) PENSTOCK_TRY(keep_history(core, volume, row));
  row.born = core.current();
  constexpr const char* kSave =
      "UPDATE inode SET born = ?, mode = ?, uid = ?, gid = ?, links = ?, size = ?, allocated = ?, "
      "atime = ?, mtime = ?, ctime = ?, data_version = ?, parent = ? "
      "WHERE volume = ? AND ino = ? AND died = " PENSTOCK_LIVE;
  PENSTOCK_TRY(core.db().run(kSave, row.born, row.mode, row.uid, row.gid, row.links, row.size,
                             row.allocated, row.atime, row.mtime, row.ctime, row.data_version,
                             row.parent, volume, row.ino));
  return {};
}

Result<void> end_inode(Core& core, VolumeId volume, const InodeRow& row) {
  core.note_change();
  if (row.born < core.current()) PENSTOCK_TRY(keep_history(core, volume, row));
  PENSTOCK_TRY(core.db().run(
      "DELETE FROM inode WHERE volume = ? AND ino = ? AND died = " PENSTOCK_LIVE, volume, row.ino));
  return {};
}

Result<void> save_atime(Core& core, VolumeId volume, Ino ino, Time atime) {
  core.note_upkeep();
  PENSTOCK_TRY(core.db().run(
      "UPDATE inode SET atime = ? WHERE volume = ? AND ino = ? AND died = " PENSTOCK_LIVE, atime,
      volume, ino));
  return {};
}

Result<std::string> read_target(Core& core, VolumeId volume, Ino ino, Version version) {
  const InodeRow row = PENSTOCK_TRY(load_inode(core, volume, ino, version));
  if (!S_ISLNK(row.mode)) return posix_error(EINVAL, fmt::format("inode {}", ino));
  // A target never changes: any row has it.
  Query query =
      core.db().query("SELECT target FROM inode WHERE volume = ? AND ino = ? LIMIT 1", volume, ino);
  PENSTOCK_TRY(query.next());
  return query.bytes(0);
}

Result<std::vector<Ino>> find_nameless(Core& core, VolumeId volume) {
  std::vector<Ino> found;
  Query query = core.db().query(
      "SELECT ino FROM inode INDEXED BY inode_nameless "
      "WHERE volume = ? AND died = " PENSTOCK_LIVE " AND links = 0 ORDER BY ino",
      volume);
  while (PENSTOCK_TRY(query.next())) found.push_back(query.number(0));
  return found;
}

Result<InodeRow*> InodeSet::get(Ino ino) {
  const auto found = rows_.find(ino);
  if (found != rows_.end()) return &found->second;
  const InodeRow row = PENSTOCK_TRY(load_inode(core_, volume_, ino, kLive));
  return &rows_.emplace(ino, row).first->second;
}

Result<void> InodeSet::save() {
  for (auto& [ino, row] : rows_) PENSTOCK_TRY(save_inode(core_, volume_, row));
  return {};
}

}  // namespace penstock::meta
