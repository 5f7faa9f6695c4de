// Counts that can be counted again, where they are wrong. What somebody made is never touched: a name
// that leads nowhere stays, and so does a file without its content.
#include <fmt/core.h>
#include <sys/stat.h>

#include "meta/upkeep.h"

namespace penstock::meta {

namespace {

#define DIRECTORY "16384"  // S_IFDIR
#define REGULAR "32768"    // S_IFREG
#define TYPE_BITS "61440"  // S_IFMT
static_assert(S_IFDIR == 16384 && S_IFREG == 32768 && S_IFMT == 61440);

#define LIVE_INODE "inode.died = " PENSTOCK_LIVE
#define LIVE_NAME "entry.died = " PENSTOCK_LIVE
#define STORED_THERE                                   \
  "(SELECT coalesce(sum(stored), 0) FROM chunk WHERE " \
  "chunk.session = object.session AND chunk.number = object.number AND refs > 0)"
#define PARTS_OF_IT                                                                  \
  "(SELECT coalesce(sum(length), 0) FROM extent WHERE extent.volume = inode.volume " \
  "AND extent.ino = inode.ino AND extent.died = " PENSTOCK_LIVE ")"
#define ENTRIES_OF_IT                                                  \
  "(SELECT count(*) FROM entry WHERE entry.volume = inode.volume AND " \
  "entry.parent = inode.ino AND " LIVE_NAME ")"
#define FOLDERS_IN_IT                                                  \
  "(SELECT count(*) FROM entry WHERE entry.volume = inode.volume AND " \
  "entry.parent = inode.ino AND " LIVE_NAME " AND entry.type = " DIRECTORY ")"

// A statement that changes each row that is wrong, in this order: counts depend on others.
struct Mend {
  const char* text;  // With how many there were.
  const char* sql;
};

constexpr Mend kMends[] = {
    {"{} chunks had another number of references than they said",
     "UPDATE chunk SET refs = coalesce(found, 0) FROM (SELECT chunk.id AS wrong, found FROM chunk "
     "LEFT JOIN (SELECT extent.chunk AS used, count(*) AS found FROM extent WHERE extent.chunk <> "
     "0 "
     "GROUP BY extent.chunk) ON used = chunk.id WHERE chunk.refs <> coalesce(found, 0)) "
     "WHERE chunk.id = wrong"},
    {"{} objects had another number of live bytes than they said",
     "UPDATE object SET live_bytes = " STORED_THERE " WHERE live_bytes <> " STORED_THERE},
    {"{} files had another number of allocated bytes than they said",
     "UPDATE inode SET allocated = " PARTS_OF_IT " WHERE " LIVE_INODE
     " AND allocated <> " PARTS_OF_IT},
    {"{} directories had another number of entries than they said",
     "UPDATE inode SET size = " ENTRIES_OF_IT " WHERE " LIVE_INODE " AND mode & " TYPE_BITS
     " = " DIRECTORY " AND size <> " ENTRIES_OF_IT},
    {"{} directories had another number of links than they said",
     "UPDATE inode SET links = 2 + " FOLDERS_IN_IT " WHERE " LIVE_INODE " AND mode & " TYPE_BITS
     " = " DIRECTORY " AND links <> 0 AND links <> 2 + " FOLDERS_IN_IT},
    // One without any name is left: with no links it would be forgotten.
    {"{} files had another number of names than they said",
     "UPDATE inode SET links = names FROM (SELECT entry.volume AS of_volume, entry.ino AS of_ino, "
     "count(*) AS names FROM entry WHERE " LIVE_NAME " GROUP BY entry.volume, entry.ino) "
     "WHERE inode.volume = of_volume AND inode.ino = of_ino AND " LIVE_INODE
     " AND mode & " TYPE_BITS " <> " DIRECTORY " AND links <> names"},
};

Result<void> mend_totals(Core& core, std::vector<std::string>& mended) {
  for (const auto& [id, volume] : core.volumes()) {
    if (volume->removed) continue;
    const Totals truth = PENSTOCK_TRY(count_totals(core, id));
    if (truth == volume->totals) continue;
    mended.push_back(fmt::format("volume {} had {} bytes in {} files, and said {} in {}",
                                 volume->settings.name, truth.bytes, truth.inodes,
                                 volume->totals.bytes, volume->totals.inodes));
    volume->totals = truth;
    core.note_change();
  }
  return {};
}

Result<void> mend_counters(Core& core, std::vector<std::string>& mended) {
  const auto after = [&](const char* sql) -> Result<uint64_t> {
    return static_cast<uint64_t>(PENSTOCK_TRY(core.db().value(sql))) + 1;
  };
  Core::Counters least;
  least.ino = PENSTOCK_TRY(after("SELECT coalesce(max(ino), 0) FROM inode"));
  least.cookie = PENSTOCK_TRY(after("SELECT coalesce(max(cookie), 0) FROM entry"));
  least.chunk = PENSTOCK_TRY(after("SELECT coalesce(max(id), 0) FROM chunk"));
  if (!core.raise_counters(least)) return {};
  mended.emplace_back("numbers that were given would have been given again");
  core.note_upkeep();
  return {};
}

}  // namespace

Result<std::vector<std::string>> mend_counts(Core& core) {
  std::vector<std::string> mended;
  // What is written to a damaged tree may be lost, or damage more.
  std::vector<std::string> damage;
  PENSTOCK_TRY(check_tree(core, damage));
  if (!damage.empty()) return mended;
  for (const Mend& mend : kMends) {
    const uint64_t count = PENSTOCK_TRY(core.db().run(mend.sql));
    if (count == 0) continue;
    mended.push_back(fmt::format(fmt::runtime(mend.text), count));
    core.note_change();
  }
  PENSTOCK_TRY(mend_counters(core, mended));
  PENSTOCK_TRY(mend_totals(core, mended));
  return mended;
}

}  // namespace penstock::meta
