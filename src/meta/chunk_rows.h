// Rows of chunks and of the objects they lie in. Triggers keep chunk.refs and object.live_bytes.
#pragma once

#include <optional>
#include <vector>

#include "meta/core.h"

namespace penstock::meta {

// kCorrupt where a chunk that something refers to is not there.
Result<Place> load_place(Core& core, ChunkId chunk);
// kInvalid unless bytes can lie there: in an object that is live, inside of it.
Result<void> check_place(Core& core, const Place& place);
// A chunk that nothing refers to yet.
Result<ChunkId> add_chunk(Core& core, const Place& place);

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
