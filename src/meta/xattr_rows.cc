#include "meta/xattr_rows.h"

#include <cerrno>

namespace penstock::meta {

Result<void> check_xattr(std::string_view name, std::string_view value) {
  if (name.empty() || name.size() > kXattrNameBytesMax || name.find('\0') != name.npos)
    return posix_error(ERANGE, "the name of an attribute");
  if (value.size() > kXattrValueBytesMax) return posix_error(E2BIG, "the value of an attribute");
  return {};
}

Result<std::optional<XattrRow>> find_xattr(Core& core, VolumeId volume, Ino ino,
                                           std::string_view name) {
  Query query = core.db().query(
      "SELECT id, born FROM xattr WHERE volume = ? AND ino = ? AND name = ? "
      "AND died = " PENSTOCK_LIVE,
      volume, ino, name);
  if (!PENSTOCK_TRY(query.next())) return std::optional<XattrRow>();
  return std::optional(XattrRow{query.integer(0), query.number(1)});
}

Result<void> put_xattr(Core& core, VolumeId volume, Ino ino, std::string_view name,
                       std::string_view value, const std::optional<XattrRow>& before) {
  core.note_change();
  if (before && before->born == core.current()) {
    PENSTOCK_TRY(core.db().run("UPDATE xattr SET value = ? WHERE id = ?", value, before->id));
    return {};
  }
  if (before) PENSTOCK_TRY(end_xattr(core, *before));
  PENSTOCK_TRY(
      core.db().run("INSERT INTO xattr(volume, ino, name, died, born, value) "
                    "VALUES(?, ?, ?, " PENSTOCK_LIVE ", ?, ?)",
                    volume, ino, name, core.current(), value));
  return {};
}

Result<void> end_xattr(Core& core, const XattrRow& row) {
  core.note_change();
  if (row.born == core.current()) {
    PENSTOCK_TRY(core.db().run("DELETE FROM xattr WHERE id = ?", row.id));
  } else {
    PENSTOCK_TRY(core.db().run("UPDATE xattr SET died = ? WHERE id = ?", core.current(), row.id));
  }
  return {};
}

Result<void> end_all_xattrs(Core& core, VolumeId volume, Ino ino) {
  {
    Query query =
        core.db().query("SELECT 1 FROM xattr WHERE volume = ? AND ino = ? LIMIT 1", volume, ino);
    if (!PENSTOCK_TRY(query.next())) return {};  // As of most.
  }
  PENSTOCK_TRY(
      core.db().run("DELETE FROM xattr WHERE volume = ? AND ino = ? "
                    "AND died = " PENSTOCK_LIVE " AND born = ?",
                    volume, ino, core.current()));
  PENSTOCK_TRY(
      core.db().run("UPDATE xattr SET died = ? WHERE volume = ? AND ino = ? "
                    "AND died = " PENSTOCK_LIVE,
                    core.current(), volume, ino));
  return {};
}

Result<std::string> read_xattr(Core& core, VolumeId volume, Ino ino, std::string_view name,
                               Version version) {
  // The first that dies later is the only one that can have been there. Nothing dies after kLive,
  // and nothing that is live was born after it.
  Query query = core.db().query(
      "SELECT value, born FROM xattr WHERE volume = ? AND ino = ? AND name = ? AND died > ? "
      "ORDER BY died LIMIT 1",
      volume, ino, name, std::min(version, kLive - 1));
  if (!PENSTOCK_TRY(query.next()) || query.number(1) > version)
    return posix_error(ENODATA, "the attribute");
  return query.bytes(0);
}

Result<std::vector<std::string>> list_xattrs(Core& core, VolumeId volume, Ino ino,
                                             Version version) {
  std::vector<std::string> names;
  Query query = core.db().query(
      "SELECT name FROM xattr WHERE volume = ? AND ino = ? AND died > ? AND born <= ? "
      "ORDER BY name",
      volume, ino, std::min(version, kLive - 1), version);
  while (PENSTOCK_TRY(query.next())) names.push_back(query.bytes(0));
  return names;
}

}  // namespace penstock::meta
