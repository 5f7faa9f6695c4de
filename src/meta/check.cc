// What contradicts itself in a database: everything is read.
#include <fmt/core.h>
#include <sys/stat.h>

#include "meta/upkeep.h"

namespace penstock::meta {

namespace {

// Of each kind; a database with more is no better known for it.
constexpr size_t kTold = 20;

// A statement whose every row is a contradiction, with up to three numbers that go into `text`.
struct Rule {
  const char* text;
  const char* sql;
};

#define DIRECTORY "16384"  // S_IFDIR
#define REGULAR "32768"    // S_IFREG
#define TYPE_BITS "61440"  // S_IFMT
static_assert(S_IFDIR == 16384 && S_IFREG == 32768 && S_IFMT == 61440);

// What is there now, of volumes that are not being removed.
#define NOW " died = " PENSTOCK_LIVE " AND volume IN (SELECT id FROM volume WHERE removed = 0)), "
#define WITH_LIVE                                                                         \
  "WITH RECURSIVE inodes AS (SELECT *, mode & " TYPE_BITS " AS type FROM inode WHERE" NOW \
  "names AS (SELECT * FROM entry WHERE" NOW "parts AS (SELECT * FROM extent WHERE" NOW    \
  "attributes AS (SELECT * FROM xattr WHERE" NOW                                          \
  "named AS (SELECT volume, ino, count(*) AS names FROM names GROUP BY volume, ino), "    \
  "holding AS (SELECT volume, parent, count(*) AS entries, "                              \
  "count(*) FILTER (WHERE type = " DIRECTORY                                              \
  ") AS directories FROM names "                                                          \
  "GROUP BY volume, parent) "

constexpr Rule kNameRules[] = {
    {"volume {}: a name in directory {} leads to inode {}, which is not there",
     WITH_LIVE "SELECT volume, parent, ino FROM names "
               "WHERE NOT EXISTS (SELECT 1 FROM inode WHERE inode.volume = names.volume "
               "AND inode.ino = names.ino AND inode.died = " PENSTOCK_LIVE ")"},
    {"volume {}: a name in {} says that inode {} is of another type",
     WITH_LIVE "SELECT names.volume, names.parent, names.ino FROM names JOIN inodes "
               "USING (volume, ino) WHERE inodes.type <> names.type"},
    {"volume {}: a name of inode {} is in {}, which is no directory",
     WITH_LIVE "SELECT volume, ino, parent FROM names "
               "WHERE NOT EXISTS (SELECT 1 FROM inode WHERE inode.volume = names.volume "
               "AND inode.ino = names.parent AND inode.died = " PENSTOCK_LIVE
               " AND mode & " TYPE_BITS " = " DIRECTORY ")"},
    {"volume {}: inode {} has {} links, and another number of names",
     WITH_LIVE "SELECT inodes.volume, inodes.ino, links FROM inodes LEFT JOIN named "
               "USING (volume, ino) WHERE type <> " DIRECTORY " AND links <> coalesce(names, 0)"},
    {"volume {}: directory {} has {} links, and another number of directories in it", WITH_LIVE
     "SELECT inodes.volume, ino, links FROM inodes LEFT JOIN holding "
     "ON holding.volume = inodes.volume AND holding.parent = inodes.ino "
     "WHERE type = " DIRECTORY " AND links <> 0 AND links <> 2 + coalesce(directories, 0)"},
    {"volume {}: directory {} says that it has {} entries, and has others",
     WITH_LIVE "SELECT inodes.volume, ino, size FROM inodes LEFT JOIN holding "
               "ON holding.volume = inodes.volume AND holding.parent = inodes.ino "
               "WHERE type = " DIRECTORY " AND size <> coalesce(entries, 0)"},
    {"volume {}: directory {} is not in {}, which it says is its parent",
     WITH_LIVE "SELECT inodes.volume, inodes.ino, inodes.parent FROM inodes LEFT JOIN names "
               "ON names.volume = inodes.volume AND names.ino = inodes.ino "
               "WHERE inodes.type = " DIRECTORY
               " AND links <> 0 AND inodes.ino <> 1 AND names.parent IS NOT inodes.parent"},
    {"volume {}: directory {} has several names, or one that it should not have",
     WITH_LIVE "SELECT inodes.volume, ino FROM inodes JOIN named USING (volume, ino) "
               "WHERE type = " DIRECTORY " AND (names > 1 OR links = 0 OR ino = 1)"},
    {"volume {} has no root",
     WITH_LIVE "SELECT id FROM volume WHERE removed = 0 AND NOT EXISTS "
               "(SELECT 1 FROM inodes WHERE inodes.volume = volume.id AND ino = 1)"},
    {"volume {}: directory {} cannot be reached from the root",
     WITH_LIVE ", reached(volume, ino) AS (SELECT id, 1 FROM volume WHERE removed = 0 UNION "
               "SELECT entry.volume, entry.ino FROM reached JOIN entry "
               "ON entry.volume = reached.volume AND entry.parent = reached.ino "
               "AND entry.died = " PENSTOCK_LIVE " AND entry.type = " DIRECTORY ") "
               "SELECT volume, ino FROM inodes WHERE type = " DIRECTORY " AND links <> 0 "
               "EXCEPT SELECT volume, ino FROM reached"},
    {"volume {}: attributes of inode {}, which is not there",
     WITH_LIVE "SELECT volume, ino FROM attributes EXCEPT SELECT volume, ino FROM inodes"},
};

constexpr Rule kContentRules[] = {
    {"volume {}: content of inode {}, which is no file",
     WITH_LIVE "SELECT volume, ino FROM parts EXCEPT "
               "SELECT volume, ino FROM inodes WHERE type = " REGULAR},
    {"volume {}: extents of inode {} overlap at {}",
     WITH_LIVE "SELECT volume, ino, offset FROM (SELECT volume, ino, offset, "
               "lag(offset + length) OVER (PARTITION BY volume, ino ORDER BY offset) AS before "
               "FROM parts) WHERE before > offset"},
    {"volume {}: inode {} has {} allocated bytes, and extents of another number",
     WITH_LIVE "SELECT inodes.volume, inodes.ino, allocated FROM inodes LEFT JOIN "
               "(SELECT volume, ino, sum(length) AS bytes FROM parts GROUP BY volume, ino) "
               "USING (volume, ino) WHERE allocated <> coalesce(bytes, 0)"},
    {"volume {}: inode {} has an extent at {} that goes beyond its chunk, or is empty",
     "SELECT extent.volume, extent.ino, extent.offset FROM extent LEFT JOIN chunk "
     "ON chunk.id = extent.chunk WHERE length <= 0 OR (extent.chunk <> 0 AND "
     "(chunk.id IS NULL OR chunk_offset < 0 OR chunk_offset + length > chunk.raw))"},
    {"chunk {} has {} references by its own account, and {} in truth",
     "SELECT id, refs, coalesce(found, 0) FROM chunk LEFT JOIN (SELECT chunk, count(*) AS found "
     "FROM extent WHERE chunk <> 0 GROUP BY chunk) AS used ON used.chunk = chunk.id "
     "WHERE refs <> coalesce(found, 0)"},
    {"chunk {} is to lie in object {}-{}, which is not live, or not that long",
     "SELECT chunk.id, chunk.session, chunk.number FROM chunk LEFT JOIN object "
     "ON object.session = chunk.session AND object.number = chunk.number "
     "WHERE object.session IS NULL OR object.state <> 1 OR chunk.offset < 0 "
     "OR chunk.offset + chunk.stored > object.bytes"},
    {"object {}-{} has {} live bytes by its own account, and others in truth",
     "SELECT session, number, live_bytes FROM object WHERE live_bytes <> "
     "(SELECT coalesce(sum(stored), 0) FROM chunk WHERE chunk.session = object.session "
     "AND chunk.number = object.number AND refs > 0)"},
};

// Of history: no row lives twice at a time.
constexpr Rule kHistoryRules[] = {
    {"volume {}: inode {} has two states in version {}",
     "SELECT volume, ino, born FROM (SELECT volume, ino, born, died, "
     "lag(died) OVER (PARTITION BY volume, ino ORDER BY died) AS before FROM inode) "
     "WHERE before > born OR born >= died"},
    {"volume {}: a name in {} has two meanings in version {}",
     "SELECT volume, parent, born FROM (SELECT volume, parent, born, died, "
     "lag(died) OVER (PARTITION BY volume, parent, name ORDER BY died) AS before FROM entry) "
     "WHERE before > born OR born >= died"},
    {"volume {}: an attribute of inode {} has two values in version {}",
     "SELECT volume, ino, born FROM (SELECT volume, ino, born, died, "
     "lag(died) OVER (PARTITION BY volume, ino, name ORDER BY died) AS before FROM xattr) "
     "WHERE before > born OR born >= died"},
    {"volume {}: an extent of inode {} dies before its birth in version {}",
     "SELECT volume, ino, born FROM extent WHERE born >= died"},
};

Result<void> apply(Core& core, const Rule& rule, std::vector<std::string>& found) {
  Query query = core.db().query(rule.sql);
  for (size_t told = 0; told < kTold && PENSTOCK_TRY(query.next()); ++told) {
    found.push_back(
        fmt::format(fmt::runtime(rule.text), query.integer(0), query.integer(1), query.integer(2)));
  }
  return {};
}

Result<void> check_totals(Core& core, std::vector<std::string>& found) {
  for (const auto& [id, volume] : core.volumes()) {
    if (volume->removed) continue;
    const Totals truth = PENSTOCK_TRY(count_totals(core, id));
    if (truth == volume->totals) continue;
    found.push_back(
        fmt::format("volume {}: {} bytes in {} inodes by its own account, {} in {} in truth", id,
                    volume->totals.bytes, volume->totals.inodes, truth.bytes, truth.inodes));
  }
  return {};
}

// Numbers that were given must not be given again.
Result<void> check_counters(Core& core, std::vector<std::string>& found) {
  const Core::Counters next = core.counters();
  const auto check = [&](const char* what, const char* sql, uint64_t limit) -> Result<void> {
    Query query = core.db().query(sql);
    PENSTOCK_TRY(query.next());
    if (query.number(0) >= limit)
      found.push_back(
          fmt::format("{} {} is there, and {} would be the next", what, query.number(0), limit));
    return {};
  };
  PENSTOCK_TRY(check("inode", "SELECT coalesce(max(ino), 0) FROM inode", next.ino));
  PENSTOCK_TRY(check("cookie", "SELECT coalesce(max(cookie), 0) FROM entry", next.cookie));
  PENSTOCK_TRY(check("chunk", "SELECT coalesce(max(id), 0) FROM chunk", next.chunk));
  return check("version", "SELECT coalesce(max(id), 0) FROM version", core.current());
}

}  // namespace

Result<void> check_tree(Core& core, std::vector<std::string>& found) {
  Query query = core.db().query("PRAGMA integrity_check(20)");
  while (PENSTOCK_TRY(query.next())) {
    std::string line = query.bytes(0);
    if (line != "ok") found.push_back(std::move(line));
  }
  return {};
}

Result<Totals> count_totals(Core& core, VolumeId volume) {
  Query query =
      core.db().query("SELECT coalesce(sum(size) FILTER (WHERE mode & " TYPE_BITS " = " REGULAR
                      "), 0), count(*) FROM inode WHERE volume = ? AND died = " PENSTOCK_LIVE,
                      volume);
  PENSTOCK_TRY(query.next());
  return Totals{query.number(0), query.number(1)};
}

Result<std::vector<std::string>> find_contradictions(Core& core) {
  std::vector<std::string> found;
  PENSTOCK_TRY(check_tree(core, found));
  for (const Rule& rule : kNameRules) PENSTOCK_TRY(apply(core, rule, found));
  for (const Rule& rule : kContentRules) PENSTOCK_TRY(apply(core, rule, found));
  for (const Rule& rule : kHistoryRules) PENSTOCK_TRY(apply(core, rule, found));
  PENSTOCK_TRY(check_totals(core, found));
  PENSTOCK_TRY(check_counters(core, found));
  return found;
}

}  // namespace penstock::meta
