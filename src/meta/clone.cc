#include <fmt/core.h>

#include "meta/upkeep.h"
#include "meta/volume_rows.h"

namespace penstock::meta {

namespace {

// Rows as ?2 of volume ?1 has them become live ones of volume ?3, born in ?4. What nobody has a name
// for is left: nobody has it open there either. SQLite keeps what it reads from a table that it
// writes to in memory, so they come in slices, of inodes from ?5 up to ?6.
#define WAS_THERE " born <= ?2 AND died > ?2 "
#define NAMED                                                                           \
  " AND ino NOT IN (SELECT ino FROM inode INDEXED BY inode_nameless WHERE volume = ?1 " \
  "AND links = 0 AND" WAS_THERE ")"

struct Copy {
  const char* rows;
  const char* next;  // The inode from which on the next slice is, after some 50,000 rows.
};

#define SLICE_END(table, key)                                                     \
  "SELECT " key " FROM " table " WHERE volume = ? AND " key " >= ? ORDER BY " key \
  " LIMIT 1 OFFSET 50000"

constexpr Copy kCopies[] = {
    {"INSERT INTO inode(volume, ino, died, born, mode, uid, gid, links, rdev, size, allocated, "
     "atime, mtime, ctime, data_version, parent, target) "
     "SELECT ?3, ino, " PENSTOCK_LIVE
     ", ?4, mode, uid, gid, links, rdev, size, allocated, atime, mtime, ctime, data_version, "
     "parent, target FROM inode WHERE volume = ?1 AND ino >= ?5 AND ino < ?6 AND links > 0 "
     "AND" WAS_THERE,
     SLICE_END("inode", "ino")},
    {"INSERT INTO entry(volume, parent, name, died, born, cookie, ino, type) "
     "SELECT ?3, parent, name, " PENSTOCK_LIVE
     ", ?4, cookie, ino, type FROM entry WHERE volume = ?1 AND parent >= ?5 AND parent < ?6 "
     "AND" WAS_THERE,
     SLICE_END("entry", "parent")},
    {"INSERT INTO xattr(volume, ino, name, died, born, value) "
     "SELECT ?3, ino, name, " PENSTOCK_LIVE
     ", ?4, value FROM xattr WHERE volume = ?1 AND ino >= ?5 AND ino < ?6 AND" WAS_THERE NAMED,
     SLICE_END("xattr", "ino")},
    {"INSERT INTO extent(volume, ino, died, offset, length, chunk, chunk_offset, born) "
     "SELECT ?3, ino, " PENSTOCK_LIVE ", offset, length, chunk, chunk_offset, ?4 FROM extent "
     "WHERE volume = ?1 AND ino >= ?5 AND ino < ?6 AND" WAS_THERE NAMED,
     SLICE_END("extent", "ino")},
    // As many references more.
    {"UPDATE chunk SET refs = refs + made.extents FROM (SELECT chunk, count(*) AS extents "
     "FROM extent WHERE volume = ?3 AND ino >= ?5 AND ino < ?6 AND chunk <> 0 GROUP BY chunk) "
     "AS made WHERE chunk.id = made.chunk",
     SLICE_END("extent", "ino")},
};

Result<uint64_t> slice_end(Core& core, const Copy& copy, VolumeId from, uint64_t begin) {
  Query query = core.db().query(copy.next, from, begin);
  if (!PENSTOCK_TRY(query.next())) return kLive;
  return std::max(query.number(0), begin + 1);
}

Result<void> copy_rows(Core& core, const Copy& copy, VolumeId from, Version version, VolumeId to) {
  for (uint64_t begin = 0; begin != kLive;) {
    const uint64_t end = PENSTOCK_TRY(slice_end(core, copy, from, begin));
    PENSTOCK_TRY(core.db().run(copy.rows, from, version, to, core.current(), begin, end));
    begin = end;
  }
  return {};
}

Result<Totals> count_totals(Connection& db, VolumeId id) {
  Query query = db.query(
      "SELECT coalesce(sum(size) FILTER (WHERE mode & ?2 = ?3), 0), count(*) FROM inode "
      "WHERE volume = ?1 AND died = " PENSTOCK_LIVE,
      id, S_IFMT, S_IFREG);
  PENSTOCK_TRY(query.next());
  return Totals{query.number(0), query.number(1)};
}

}  // namespace

Result<void> clone_volume(Core& core, std::string_view source, Version version,
                          const Settings& wanted) {
  const std::shared_ptr<Volume> from = PENSTOCK_TRY(core.volume(source));
  if (version != kLive && (version < from->horizon || version > core.last()))
    return no_version(version);
  Settings settings = wanted;
  if (!wanted.store.empty() && wanted.store != from->settings.store)
    return make_error(ErrorCode::kInvalid, "a clone has its content where its source has it");
  settings.store = from->settings.store;
  PENSTOCK_TRY(check_settings(settings));
  if (core.volume(settings.name).ok())
    return make_error(ErrorCode::kExists,
                      fmt::format("there is a volume {} already", settings.name));
  core.note_change();
  auto made = std::make_shared<Volume>();
  made->settings = settings;
  made->horizon = core.current();
  made->id = PENSTOCK_TRY(add_volume(core.db(), settings, made->horizon));
  // Nothing dies after kLive.
  const Version shown = std::min(version, kLive - 1);
  for (const Copy& copy : kCopies) PENSTOCK_TRY(copy_rows(core, copy, from->id, shown, made->id));
  made->totals = PENSTOCK_TRY(count_totals(core.db(), made->id));
  core.volumes()[made->id] = std::move(made);
  return {};
}

Result<void> remove_volume(Core& core, std::string_view name) {
  const std::shared_ptr<Volume> volume = PENSTOCK_TRY(core.volume(name));
  PENSTOCK_TRY(core.db().run("UPDATE volume SET removed = 1 WHERE id = ?", volume->id));
  core.note_change();
  volume->removed = true;
  return {};
}

}  // namespace penstock::meta
