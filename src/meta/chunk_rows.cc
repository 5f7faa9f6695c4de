#include "meta/chunk_rows.h"

#include <fmt/core.h>

namespace penstock::meta {

namespace {

#define OBJECT_COLUMNS "session, number, kind, state, bytes, live_bytes, changed"

Object object_of(const Query& row) {
  Object object;
  object.id = {row.small(0), row.small(1)};
  object.kind = static_cast<ObjectKind>(row.integer(2));
  object.state = static_cast<ObjectState>(row.integer(3));
  object.bytes = row.number(4);
  object.live_bytes = row.number(5);
  object.changed = row.number(6);
  return object;
}

Error object_error(ErrorCode code, ObjectId id, std::string_view what) {
  return make_error(code, fmt::format("object {}-{} {}", id.session, id.number, what));
}

Result<std::optional<Place>> find_place(Core& core, ChunkId chunk) {
  Query query = core.db().query("SELECT " PENSTOCK_PLACE_COLUMNS " FROM chunk WHERE id = ?", chunk);
  if (!PENSTOCK_TRY(query.next())) return std::optional<Place>();
  return std::optional(place_of(query, 0));
}

}  // namespace

Place place_of(const Query& row, int first) {
  Place place;
  place.object = {row.small(first), row.small(first + 1)};
  place.offset = row.number(first + 2);
  place.stored = row.number(first + 3);
  place.raw = row.number(first + 4);
  place.codec = static_cast<codec::Codec>(row.integer(first + 5));
  place.checksum = row.number(first + 6);
  return place;
}

Result<Place> load_place(Core& core, ChunkId chunk) {
  const std::optional<Place> place = PENSTOCK_TRY(find_place(core, chunk));
  if (!place) return missing_chunk(chunk);
  return *place;
}

Error missing_chunk(ChunkId chunk) {
  return make_error(ErrorCode::kCorrupt, fmt::format("chunk {} is missing", chunk));
}

Result<void> check_places(Core& core, std::span<const Place> places) {
  std::optional<Object> object;
  for (const Place& place : places) {
    if (place.raw == 0 || place.raw > kChunkBytesMax || place.stored == 0)
      return make_error(ErrorCode::kInvalid, "a chunk has 1 byte to 16 MiB");
    // Mostly they are all in one.
    if (!object || object->id != place.object)
      object = PENSTOCK_TRY(find_object(core, place.object));
    if (!object || object->state != ObjectState::kStored)
      return object_error(ErrorCode::kInvalid, place.object, "is not live: no chunk can lie there");
    if (place.offset > object->bytes || place.stored > object->bytes - place.offset)
      return object_error(ErrorCode::kInvalid, place.object, "ends before the chunk does");
  }
  return {};
}

namespace {

// The triggers see no chunk that is born with a reference.
Result<void> add_live_bytes(Core& core, ObjectId object, uint64_t bytes) {
  PENSTOCK_TRY(core.db().run(
      "UPDATE object SET live_bytes = live_bytes + ? WHERE session = ? AND number = ?", bytes,
      object.session, object.number));
  return {};
}

}  // namespace

Result<ChunkId> add_chunks(Core& core, std::span<const Place> places) {
  const ChunkId first = core.counters().chunk;
  uint64_t bytes = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    const Place& place = places[i];
    PENSTOCK_TRY(
        core.db().run("INSERT INTO chunk(id, session, number, offset, stored, raw, codec, "
                      "checksum, refs) VALUES(?, ?, ?, ?, ?, ?, ?, ?, 1)",
                      core.next_chunk(), place.object.session, place.object.number, place.offset,
                      place.stored, place.raw, static_cast<int>(place.codec), place.checksum));
    bytes += place.stored;
    if (i + 1 < places.size() && places[i + 1].object == place.object) continue;
    PENSTOCK_TRY(add_live_bytes(core, place.object, std::exchange(bytes, 0)));
  }
  return first;
}

Result<void> refer_to(Core& core, ChunkId chunk) {
  PENSTOCK_TRY(core.db().run("UPDATE chunk SET refs = refs + 1 WHERE id = ?", chunk));
  return {};
}

Result<std::optional<Object>> find_object(Core& core, ObjectId id) {
  Query query = core.db().query("SELECT " OBJECT_COLUMNS
                                " FROM object "
                                "WHERE session = ? AND number = ?",
                                id.session, id.number);
  if (!PENSTOCK_TRY(query.next())) return std::optional<Object>();
  return std::optional(object_of(query));
}

Result<Object> load_object(Core& core, ObjectId id) {
  const std::optional<Object> object = PENSTOCK_TRY(find_object(core, id));
  if (!object) return object_error(ErrorCode::kNotFound, id, "is not known");
  return *object;
}

Result<void> add_object_row(Core& core, const Object& object) {
  if (object.id == ObjectId{})
    return object_error(ErrorCode::kInvalid, object.id, "cannot be: numbers begin with 1");
  const std::optional<Object> there = PENSTOCK_TRY(find_object(core, object.id));
  if (there) return object_error(ErrorCode::kExists, object.id, "is known already");
  if (object.bytes > kFileBytesMax)
    return object_error(ErrorCode::kInvalid, object.id, "would be too large");
  if (object.state == ObjectState::kCondemned)
    return object_error(ErrorCode::kInvalid, object.id, "would be condemned from the beginning");
  core.note_change();
  PENSTOCK_TRY(core.db().run("INSERT INTO object VALUES(?, ?, ?, ?, ?, 0, ?)", object.id.session,
                             object.id.number, static_cast<int>(object.kind),
                             static_cast<int>(object.state), object.bytes, core.current()));
  return {};
}

Result<void> set_object_row(Core& core, ObjectId id, ObjectState state, uint64_t bytes) {
  const Object object = PENSTOCK_TRY(load_object(core, id));
  if (state < object.state)
    return object_error(ErrorCode::kInvalid, id, "cannot go back to an earlier state");
  if (bytes > kFileBytesMax) return object_error(ErrorCode::kInvalid, id, "would be too large");
  if (state == ObjectState::kStored && object.state == state && bytes < object.bytes)
    return object_error(ErrorCode::kInvalid, id, "cannot become shorter");
  if (state == ObjectState::kCondemned) {
    if (object.live_bytes != 0)
      return object_error(ErrorCode::kInvalid, id, "has chunks that something refers to");
    // Of those that nothing refers to none is to be found in an object that is gone.
    PENSTOCK_TRY(
        core.db().run("DELETE FROM chunk WHERE session = ? AND number = ?", id.session, id.number));
  }
  core.note_change();
  const Version changed = state == object.state ? object.changed : core.current();
  PENSTOCK_TRY(core.db().run(
      "UPDATE object SET state = ?, bytes = ?, changed = ? WHERE session = ? AND number = ?",
      static_cast<int>(state), bytes, changed, id.session, id.number));
  return {};
}

Result<void> drop_object_row(Core& core, ObjectId id) {
  const Object object = PENSTOCK_TRY(load_object(core, id));
  if (object.state == ObjectState::kStored)
    return object_error(ErrorCode::kInvalid, id, "is live: condemn it first");
  core.note_change();
  PENSTOCK_TRY(
      core.db().run("DELETE FROM object WHERE session = ? AND number = ?", id.session, id.number));
  return {};
}

Result<std::vector<Object>> list_objects(Core& core, ObjectId after, size_t count) {
  std::vector<Object> objects;
  Query query = core.db().query("SELECT " OBJECT_COLUMNS
                                " FROM object "
                                "WHERE (session, number) > (?, ?) ORDER BY session, number LIMIT ?",
                                after.session, after.number, std::min<size_t>(count, INT32_MAX));
  while (PENSTOCK_TRY(query.next())) objects.push_back(object_of(query));
  return objects;
}

Result<std::vector<Object>> list_segments(Core& core) {
  std::vector<Object> objects;
  Query query = core.db().query("SELECT " OBJECT_COLUMNS
                                " FROM object INDEXED BY object_journal "
                                "WHERE kind = 1 ORDER BY session, number");
  while (PENSTOCK_TRY(query.next())) objects.push_back(object_of(query));
  return objects;
}

Result<std::vector<Chunk>> list_chunks(Core& core, ObjectId object, uint64_t from_offset,
                                       size_t count) {
  std::vector<Chunk> chunks;
  Query query =
      core.db().query("SELECT id, refs, " PENSTOCK_PLACE_COLUMNS
                      " FROM chunk INDEXED BY chunk_place "
                      "WHERE session = ? AND number = ? AND offset >= ? "
                      "ORDER BY offset LIMIT ?",
                      object.session, object.number, std::min<uint64_t>(from_offset, INT64_MAX),
                      std::min<size_t>(count, INT32_MAX));
  while (PENSTOCK_TRY(query.next()))
    chunks.push_back({query.number(0), place_of(query, 2), query.number(1)});
  return chunks;
}

Result<void> move_chunk_row(Core& core, ChunkId chunk, const Place& from, const Place& to) {
  const std::optional<Place> place = PENSTOCK_TRY(find_place(core, chunk));
  if (!place || *place != from)
    return make_error(ErrorCode::kChanged,
                      fmt::format("chunk {} does not lie where it was thought to", chunk));
  if (to.raw != from.raw)
    return make_error(ErrorCode::kInvalid, "a chunk keeps its bytes, wherever it lies");
  PENSTOCK_TRY(check_places(core, {&to, 1}));
  core.note_change();
  PENSTOCK_TRY(
      core.db().run("UPDATE chunk SET session = ?, number = ?, offset = ?, stored = ?, "
                    "codec = ?, checksum = ? WHERE id = ?",
                    to.object.session, to.object.number, to.offset, to.stored,
                    static_cast<int>(to.codec), to.checksum, chunk));
  return {};
}

}  // namespace penstock::meta
