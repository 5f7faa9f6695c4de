#include "meta/extent_rows.h"

#include <algorithm>

#include "meta/chunk_rows.h"

namespace penstock::meta {

namespace {

#define EXTENT_COLUMNS "offset, length, chunk, chunk_offset, born"

ExtentRow extent_of(const Query& row) {
  return {row.number(0), row.number(1), row.number(2), row.number(3), row.number(4)};
}

// Those of now that were there at `version`, last first. Since they do not overlap, none that
// begins before one that ends in front of the range can touch it.
Result<void> collect_live(Core& core, VolumeId volume, Ino ino, Version version, Range range,
                          std::vector<ExtentRow>& rows) {
  Query query = core.db().query("SELECT " EXTENT_COLUMNS
                                " FROM extent WHERE volume = ? AND ino = ? "
                                "AND died = " PENSTOCK_LIVE " AND offset < ? ORDER BY offset DESC",
                                volume, ino, range.end);
  while (PENSTOCK_TRY(query.next())) {
    const ExtentRow row = extent_of(query);
    if (row.end() <= range.begin) break;
    if (row.born <= version) rows.push_back(row);
  }
  return {};
}

// Those that died since.
Result<void> collect_dead(Core& core, VolumeId volume, Ino ino, Version version, Range range,
                          std::vector<ExtentRow>& rows) {
  const int64_t before = static_cast<int64_t>(range.begin) - static_cast<int64_t>(kChunkBytesMax);
  {
    Query query = core.db().query("SELECT " EXTENT_COLUMNS
                                  " FROM extent INDEXED BY extent_past "
                                  "WHERE volume = ?1 AND ino = ?2 AND offset > ?4 AND offset < ?5 "
                                  "AND died < " PENSTOCK_LIVE " AND died > ?3 AND born <= ?3",
                                  volume, ino, version, before, range.end);
    while (PENSTOCK_TRY(query.next())) {
      const ExtentRow row = extent_of(query);
      if (row.end() > range.begin) rows.push_back(row);
    }
  }
  Query query = core.db().query("SELECT " EXTENT_COLUMNS
                                " FROM extent INDEXED BY extent_zeros "
                                "WHERE volume = ?1 AND ino = ?2 AND died > ?3 "
                                "AND died < " PENSTOCK_LIVE
                                " AND chunk = 0 AND born <= ?3 AND offset <= ?4 "
                                "AND offset + length > ?5",
                                volume, ino, version, before, range.begin);
  while (PENSTOCK_TRY(query.next())) rows.push_back(extent_of(query));
  return {};
}

// As collect_live, with the places.
Result<std::vector<Extent>> read_live(Core& core, VolumeId volume, Ino ino, Range range) {
  std::vector<Extent> extents;
  if (range.begin >= range.end) return extents;
  Query query = core.db().query(
      "SELECT extent.offset, extent.length, extent.chunk, extent.chunk_offset, "
      "chunk.id, " PENSTOCK_PLACE_COLUMNS
      " FROM extent LEFT JOIN chunk ON chunk.id = extent.chunk "
      "WHERE extent.volume = ? AND extent.ino = ? AND extent.died = " PENSTOCK_LIVE
      " AND extent.offset < ? ORDER BY extent.offset DESC",
      volume, ino, range.end);
  while (PENSTOCK_TRY(query.next())) {
    Extent extent{query.number(0), query.number(1), query.number(2), query.number(3), {}};
    if (extent.offset + extent.length <= range.begin) break;
    if (extent.chunk != kZeros && query.null(4)) return missing_chunk(extent.chunk);
    if (extent.chunk != kZeros) extent.place = place_of(query, 5);
    extents.push_back(extent);
  }
  std::ranges::reverse(extents);
  return extents;
}

Result<void> end_extent(Core& core, VolumeId volume, Ino ino, const ExtentRow& row) {
  core.note_change();
  if (row.born == core.current()) {
    PENSTOCK_TRY(
        core.db().run("DELETE FROM extent WHERE volume = ? AND ino = ? "
                      "AND died = " PENSTOCK_LIVE " AND offset = ?",
                      volume, ino, row.offset));
  } else {
    PENSTOCK_TRY(
        core.db().run("UPDATE extent SET died = ? WHERE volume = ? AND ino = ? "
                      "AND died = " PENSTOCK_LIVE " AND offset = ?",
                      core.current(), volume, ino, row.offset));
  }
  return {};
}

}  // namespace

Result<std::vector<ExtentRow>> find_extents(Core& core, VolumeId volume, Ino ino, Version version,
                                            Range range) {
  std::vector<ExtentRow> rows;
  if (range.begin >= range.end) return rows;
  PENSTOCK_TRY(collect_live(core, volume, ino, version, range, rows));
  if (version != kLive) PENSTOCK_TRY(collect_dead(core, volume, ino, version, range, rows));
  std::ranges::sort(rows, {}, &ExtentRow::offset);
  return rows;
}

Result<std::vector<Extent>> read_extents(Core& core, VolumeId volume, Ino ino, Version version,
                                         Range range) {
  if (version == kLive) return read_live(core, volume, ino, range);
  std::vector<Extent> extents;
  for (const ExtentRow& row : PENSTOCK_TRY(find_extents(core, volume, ino, version, range))) {
    Extent extent{row.offset, row.length, row.chunk, row.chunk_offset, {}};
    if (row.chunk != kZeros) extent.place = PENSTOCK_TRY(load_place(core, row.chunk));
    extents.push_back(extent);
  }
  return extents;
}

Result<void> add_part(Core& core, VolumeId volume, Ino ino, const ExtentRow& row) {
  if (row.chunk != kZeros) PENSTOCK_TRY(refer_to(core, row.chunk));
  return add_extent(core, volume, ino, row);
}

Result<void> add_extent(Core& core, VolumeId volume, Ino ino, const ExtentRow& row) {
  core.note_change();
  PENSTOCK_TRY(core.db().run(
      "INSERT INTO extent(volume, ino, died, offset, length, chunk, chunk_offset, born) "
      "VALUES(?, ?, " PENSTOCK_LIVE ", ?, ?, ?, ?, ?)",
      volume, ino, row.offset, row.length, row.chunk, row.chunk_offset, core.current()));
  return {};
}

std::vector<ExtentRow> clip(std::span<const ExtentRow> rows, Range range) {
  std::vector<ExtentRow> parts;
  for (const ExtentRow& row : rows) {
    ExtentRow part = row;
    part.offset = std::max(row.offset, range.begin);
    const uint64_t end = std::min(row.end(), range.end);
    if (part.offset >= end) continue;
    part.length = end - part.offset;
    if (row.chunk != kZeros) part.chunk_offset += part.offset - row.offset;
    parts.push_back(part);
  }
  return parts;
}

Result<uint64_t> cut_extents(Core& core, VolumeId volume, Ino ino, Range range) {
  uint64_t bytes = 0;
  const std::vector<ExtentRow> touched =
      PENSTOCK_TRY(find_extents(core, volume, ino, kLive, range));
  for (const ExtentRow& row : touched) {
    PENSTOCK_TRY(end_extent(core, volume, ino, row));
    const std::span one(&row, 1);
    for (const Range& rest : {Range{row.offset, range.begin}, Range{range.end, row.end()}}) {
      for (const ExtentRow& part : clip(one, rest)) PENSTOCK_TRY(add_part(core, volume, ino, part));
    }
    bytes += std::min(row.end(), range.end) - std::max(row.offset, range.begin);
  }
  return bytes;
}

Result<uint64_t> fill_holes(Core& core, VolumeId volume, Ino ino, Range range) {
  uint64_t bytes = 0;
  std::vector<ExtentRow> rows = PENSTOCK_TRY(find_extents(core, volume, ino, kLive, range));
  rows.push_back({.offset = range.end});
  uint64_t at = range.begin;
  for (const ExtentRow& row : rows) {
    if (row.offset > at) {
      const uint64_t length = row.offset - at;
      PENSTOCK_TRY(add_extent(core, volume, ino, {.offset = at, .length = length}));
      bytes += length;
    }
    at = row.end();
  }
  return bytes;
}

Result<void> end_all_extents(Core& core, VolumeId volume, Ino ino) {
  core.note_change();
  PENSTOCK_TRY(
      core.db().run("DELETE FROM extent WHERE volume = ? AND ino = ? "
                    "AND died = " PENSTOCK_LIVE " AND born = ?",
                    volume, ino, core.current()));
  PENSTOCK_TRY(
      core.db().run("UPDATE extent SET died = ? WHERE volume = ? AND ino = ? "
                    "AND died = " PENSTOCK_LIVE,
                    core.current(), volume, ino));
  return {};
}

}  // namespace penstock::meta
