#include <algorithm>

#include "meta/upkeep.h"

namespace penstock::meta {

Result<std::optional<Version>> newest_version(Core& core, Time time) {
  // Times never go back, so the newest in time is the newest.
  Query query = core.db().query(
      "SELECT id FROM version WHERE time <= ? ORDER BY time DESC, id DESC LIMIT 1", time);
  if (!PENSTOCK_TRY(query.next())) return std::optional<Version>();
  return std::optional(query.number(0));
}

namespace {

// What is left of the work that was asked for.
class Purging {
 public:
  Purging(Core& core, uint64_t rows) : core_(core), left_(std::min<uint64_t>(rows, INT32_MAX)) {}

  template <typename... Args>
  Result<uint64_t> run(const char* sql, const Args&... args) {
    if (left_ == 0) {
      purged_.more = true;
      return uint64_t{0};
    }
    // The limit is each statement's first parameter.
    const uint64_t gone = PENSTOCK_TRY(core_.db().run(sql, left_, args...));
    if (gone != 0) core_.note_upkeep();
    if (gone >= left_) purged_.more = true;
    left_ -= std::min(gone, left_);
    return gone;
  }
  template <typename... Args>
  Result<void> rows(const char* sql, const Args&... args) {
    purged_.rows += PENSTOCK_TRY(run(sql, args...));
    return {};
  }

  Purged& purged() { return purged_; }

 private:
  Core& core_;
  uint64_t left_;
  Purged purged_;
};

// How far versions of a volume may go: what its retention, its snapshots and pins leave.
Result<Version> horizon_of(Core& core, const Volume& volume, Time now) {
  if (!volume.settings.retention) return volume.horizon;
  const int64_t retention = volume.settings.retention->count();
  if (now < INT64_MIN + retention) return volume.horizon;
  const auto oldest = PENSTOCK_TRY(newest_version(core, now - retention));
  if (!oldest) return volume.horizon;
  Version horizon = *oldest;
  {
    Query query = core.db().query("SELECT min(version) FROM snapshot WHERE volume = ?", volume.id);
    PENSTOCK_TRY(query.next());
    if (!query.null(0)) horizon = std::min(horizon, query.number(0));
  }
  const std::shared_ptr<Pins> pins = core.pins();
  std::lock_guard lock(pins->mutex);
  if (!pins->versions.empty()) horizon = std::min(horizon, *pins->versions.begin());
  return std::max(horizon, volume.horizon);
}

Result<void> purge_history(Core& core, const Volume& volume, Version horizon, Purging& purging) {
  if (horizon > volume.horizon) {
    PENSTOCK_TRY(core.db().run("UPDATE volume SET horizon = ? WHERE id = ?", horizon, volume.id));
    core.note_upkeep();
  }
  PENSTOCK_TRY(
      purging.rows("DELETE FROM extent WHERE (volume, ino, died, offset) IN "
                   "(SELECT volume, ino, died, offset FROM extent INDEXED BY extent_dead "
                   "WHERE volume = ?2 AND died <= ?3 AND died < " PENSTOCK_LIVE " LIMIT ?1)",
                   volume.id, horizon));
  PENSTOCK_TRY(
      purging.rows("DELETE FROM inode WHERE (volume, ino, died) IN "
                   "(SELECT volume, ino, died FROM inode INDEXED BY inode_dead "
                   "WHERE volume = ?2 AND died <= ?3 AND died < " PENSTOCK_LIVE " LIMIT ?1)",
                   volume.id, horizon));
  PENSTOCK_TRY(
      purging.rows("DELETE FROM entry WHERE (volume, parent, name, died) IN "
                   "(SELECT volume, parent, name, died FROM entry INDEXED BY entry_dead "
                   "WHERE volume = ?2 AND died <= ?3 AND died < " PENSTOCK_LIVE " LIMIT ?1)",
                   volume.id, horizon));
  PENSTOCK_TRY(
      purging.rows("DELETE FROM xattr WHERE id IN "
                   "(SELECT id FROM xattr INDEXED BY xattr_dead "
                   "WHERE volume = ?2 AND died <= ?3 AND died < " PENSTOCK_LIVE " LIMIT ?1)",
                   volume.id, horizon));
  // The newest totals that are not younger than the horizon stay.
  return purging.rows(
      "DELETE FROM usage WHERE (volume, version) IN "
      "(SELECT volume, version FROM usage WHERE volume = ?2 AND version < "
      "(SELECT max(version) FROM usage WHERE volume = ?2 AND version <= ?3) LIMIT ?1)",
      volume.id, horizon);
}

// True when nothing of it is left.
Result<bool> purge_volume(Core& core, const Volume& volume, Purging& purging) {
  PENSTOCK_TRY(
      purging.rows("DELETE FROM extent WHERE (volume, ino, died, offset) IN "
                   "(SELECT volume, ino, died, offset FROM extent WHERE volume = ?2 LIMIT ?1)",
                   volume.id));
  PENSTOCK_TRY(
      purging.rows("DELETE FROM inode WHERE (volume, ino, died) IN "
                   "(SELECT volume, ino, died FROM inode WHERE volume = ?2 LIMIT ?1)",
                   volume.id));
  PENSTOCK_TRY(
      purging.rows("DELETE FROM entry WHERE (volume, parent, name, died) IN "
                   "(SELECT volume, parent, name, died FROM entry WHERE volume = ?2 LIMIT ?1)",
                   volume.id));
  PENSTOCK_TRY(purging.rows(
      "DELETE FROM xattr WHERE id IN (SELECT id FROM xattr WHERE volume = ?2 LIMIT ?1)",
      volume.id));
  PENSTOCK_TRY(
      purging.rows("DELETE FROM usage WHERE (volume, version) IN "
                   "(SELECT volume, version FROM usage WHERE volume = ?2 LIMIT ?1)",
                   volume.id));
  PENSTOCK_TRY(
      purging.rows("DELETE FROM snapshot WHERE (volume, name) IN "
                   "(SELECT volume, name FROM snapshot WHERE volume = ?2 LIMIT ?1)",
                   volume.id));
  if (purging.purged().more) return false;
  PENSTOCK_TRY(core.db().run("DELETE FROM volume WHERE id = ?", volume.id));
  core.note_upkeep();
  return true;
}

}  // namespace

Result<Purged> purge_rows(Core& core, Time now, uint64_t rows) {
  Purging purging(core, rows);
  std::vector<VolumeId> gone;
  std::map<VolumeId, Version> horizons;
  Version oldest = core.last();
  for (const auto& [id, volume] : core.volumes()) {
    if (volume->removed) {
      if (PENSTOCK_TRY(purge_volume(core, *volume, purging))) gone.push_back(id);
      continue;
    }
    const Version horizon = PENSTOCK_TRY(horizon_of(core, *volume, now));
    PENSTOCK_TRY(purge_history(core, *volume, horizon, purging));
    horizons[id] = horizon;
    oldest = std::min(oldest, horizon);
  }
  purging.purged().chunks = PENSTOCK_TRY(
      purging.run("DELETE FROM chunk WHERE id IN "
                  "(SELECT id FROM chunk INDEXED BY chunk_free WHERE refs = 0 LIMIT ?1)"));
  PENSTOCK_TRY(purging.rows(
      "DELETE FROM version WHERE id IN (SELECT id FROM version WHERE id < ?2 LIMIT ?1)", oldest));
  // Only now, when nothing can undo it any more.
  for (const auto& [id, horizon] : horizons) core.volumes()[id]->horizon = horizon;
  for (const VolumeId id : gone) core.volumes().erase(id);
  return purging.purged();
}

}  // namespace penstock::meta
