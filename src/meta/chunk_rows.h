// Rows of chunks and of the objects they lie in. Triggers keep object.live_bytes as chunk.refs change,
// and chunk.refs as extents go; whoever adds an extent says so here.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "meta/core.h"

namespace penstock::meta {

// kCorrupt: something refers to a chunk that is not there.
Error missing_chunk(ChunkId chunk);
Result<Place> load_place(Core& core, ChunkId chunk);
// Columns of a chunk as place_of() reads them, from `first` on.
#define PENSTOCK_PLACE_COLUMNS                                                        \
  "chunk.session, chunk.number, chunk.offset, chunk.stored, chunk.raw, chunk.codec, " \
  "chunk.checksum"
Place place_of(const Query& row, int first);

// kInvalid unless bytes can lie there: each in an object that is live, inside of it.
Result<void> check_places(Core& core, std::span<const Place> places);
// Chunks with one reference each, the extents that will be added for them. The first one's number:
// the others follow it.
Result<ChunkId> add_chunks(Core& core, std::span<const Place> places);
// One extent more has this chunk.
Result<void> refer_to(Core& core, ChunkId chunk);

Result<std::optional<Object>> find_object(Core& core, ObjectId id);
// kNotFound where there is none.
Result<Object> load_object(Core& core, ObjectId id);

Result<void> add_object_row(Core& core, const Object& object);
Result<void> set_object_row(Core& core, ObjectId id, ObjectState state, uint64_t bytes);
Result<void> drop_object_row(Core& core, ObjectId id);
// Of kind kJournal, all.
Result<std::vector<Object>> list_segments(Core& core);
Result<std::vector<Object>> list_objects(Core& core, ObjectId after, size_t count);
Result<std::vector<Chunk>> list_chunks(Core& core, ObjectId object, uint64_t from_offset,
                                       size_t count);
Result<void> move_chunk_row(Core& core, ChunkId chunk, const Place& from, const Place& to);

}  // namespace penstock::meta
