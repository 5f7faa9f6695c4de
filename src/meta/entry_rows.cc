#include "meta/entry_rows.h"

#include <cerrno>

namespace penstock::meta {

namespace {

EntryRow entry_of(const Query& row) {
  return {row.number(0), row.small(1), row.number(2), row.number(3)};
}

}  // namespace

Result<void> check_name(std::string_view name) {
  if (name.empty()) return posix_error(ENOENT, "an empty name");
  if (name.size() > kNameBytesMax) return posix_error(ENAMETOOLONG, name.substr(0, kNameBytesMax));
  if (name.find('/') != name.npos || name.find('\0') != name.npos)
    return posix_error(EINVAL, "a name with a slash or a zero byte in it");
  return {};
}

Result<std::optional<EntryRow>> find_entry(Core& core, VolumeId volume, Ino parent,
                                           std::string_view name, Version version) {
  if (version == kLive) {
    Query query = core.db().query(
        "SELECT ino, type, cookie, born FROM entry "
        "WHERE volume = ? AND parent = ? AND name = ? AND died = " PENSTOCK_LIVE,
        volume, parent, name);
    if (!PENSTOCK_TRY(query.next())) return std::optional<EntryRow>();
    return std::optional(entry_of(query));
  }
  Query query = core.db().query(
      "SELECT ino, type, cookie, born FROM entry "
      "WHERE volume = ? AND parent = ? AND name = ? AND died > ? ORDER BY died LIMIT 1",
      volume, parent, name, version);
  if (!PENSTOCK_TRY(query.next())) return std::optional<EntryRow>();
  std::optional<EntryRow> found = entry_of(query);
  if (found->born > version) found.reset();
  return found;
}

Result<bool> add_entry_if_free(Core& core, VolumeId volume, Ino parent, std::string_view name,
                               const Inode& inode) {
  const uint64_t added = PENSTOCK_TRY(core.db().run(
      "INSERT OR IGNORE INTO entry(volume, parent, name, died, born, cookie, ino, type) "
      "VALUES(?, ?, ?, " PENSTOCK_LIVE ", ?, ?, ?, ?)",
      volume, parent, name, core.current(), core.next_cookie(), inode.ino, inode.mode & S_IFMT));
  if (added != 0) core.note_change();
  return added != 0;
}

Result<void> add_entry(Core& core, VolumeId volume, Ino parent, std::string_view name,
                       const Inode& inode, uint64_t cookie) {
  core.note_change();
  if (cookie == 0) cookie = core.next_cookie();
  PENSTOCK_TRY(
      core.db().run("INSERT INTO entry(volume, parent, name, died, born, cookie, ino, type) "
                    "VALUES(?, ?, ?, " PENSTOCK_LIVE ", ?, ?, ?, ?)",
                    volume, parent, name, core.current(), cookie, inode.ino, inode.mode & S_IFMT));
  return {};
}

Result<void> end_entry(Core& core, VolumeId volume, Ino parent, std::string_view name,
                       const EntryRow& row) {
  core.note_change();
  if (row.born == core.current()) {
    PENSTOCK_TRY(
        core.db().run("DELETE FROM entry WHERE volume = ? AND parent = ? AND name = ? "
                      "AND died = " PENSTOCK_LIVE,
                      volume, parent, name));
  } else {
    PENSTOCK_TRY(
        core.db().run("UPDATE entry SET died = ? WHERE volume = ? AND parent = ? "
                      "AND name = ? AND died = " PENSTOCK_LIVE,
                      core.current(), volume, parent, name));
  }
  return {};
}

Result<std::vector<Entry>> list_entries(Core& core, VolumeId volume, Ino parent, Version version,
                                        uint64_t cookie, size_t count) {
  // Dead ones have an index of their own, so that they are in nobody's way who lists what is there.
  constexpr const char* kLiveOnes =
      "SELECT name, ino, type, cookie FROM entry INDEXED BY entry_live "
      "WHERE volume = ?1 AND parent = ?2 AND cookie > ?3 AND died = " PENSTOCK_LIVE
      " ORDER BY cookie LIMIT ?4";
  constexpr const char* kPastOnes =
      "SELECT name, ino, type, cookie FROM entry INDEXED BY entry_live "
      "WHERE volume = ?1 AND parent = ?2 AND cookie > ?3 AND died = " PENSTOCK_LIVE
      " AND born <= ?5 "
      "UNION ALL SELECT name, ino, type, cookie FROM entry INDEXED BY entry_past "
      "WHERE volume = ?1 AND parent = ?2 AND cookie > ?3 AND died < " PENSTOCK_LIVE
      " AND born <= ?5 AND died > ?5 ORDER BY cookie LIMIT ?4";
  std::vector<Entry> entries;
  const size_t limit = std::min<size_t>(count, INT32_MAX);
  // SQLite ignores a parameter that a statement does not have.
  const char* sql = version == kLive ? kLiveOnes : kPastOnes;
  Query query = core.db().query(sql, volume, parent, cookie, limit, version);
  while (PENSTOCK_TRY(query.next()))
    entries.push_back({query.bytes(0), query.number(1), query.small(2), query.number(3)});
  return entries;
}

Result<std::vector<Entry>> list_entries_by_name(Core& core, VolumeId volume, Ino parent,
                                                Version version, std::string_view from,
                                                size_t count) {
  constexpr const char* kLiveOnes =
      "SELECT name, ino, type, cookie FROM entry "
      "WHERE volume = ?1 AND parent = ?2 AND name >= ?3 AND died = " PENSTOCK_LIVE
      " ORDER BY name LIMIT ?4";
  constexpr const char* kPastOnes =
      "SELECT name, ino, type, cookie FROM entry "
      "WHERE volume = ?1 AND parent = ?2 AND name >= ?3 AND born <= ?5 AND died > ?5 "
      "ORDER BY name LIMIT ?4";
  std::vector<Entry> entries;
  const size_t limit = std::min<size_t>(count, INT32_MAX);
  const char* sql = version == kLive ? kLiveOnes : kPastOnes;
  Query query = core.db().query(sql, volume, parent, from, limit, version);
  while (PENSTOCK_TRY(query.next()))
    entries.push_back({query.bytes(0), query.number(1), query.small(2), query.number(3)});
  return entries;
}

}  // namespace penstock::meta
