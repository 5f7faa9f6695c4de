#include "volume/pending_age.h"

namespace penstock::volume {

namespace {

constexpr size_t kChunksLookedAt = 256;

// The first that somebody refers to: records lie in the order of their making.
Result<std::optional<meta::Chunk>> first_chunk(meta::Database& database, meta::ObjectId segment) {
  uint64_t from = 0;
  while (true) {
    const auto chunks = PENSTOCK_TRY(database.chunks_of(segment, from, kChunksLookedAt));
    for (const meta::Chunk& chunk : chunks) {
      if (chunk.references > 0) return std::optional(chunk);
    }
    if (chunks.size() < kChunksLookedAt) return std::optional<meta::Chunk>();
    from = chunks.back().place.offset + 1;
  }
}

}  // namespace

Result<meta::Time> oldest_content(meta::Database& database, Journal& journal) {
  for (const meta::Object& segment : PENSTOCK_TRY(database.segments())) {
    if (segment.live_bytes == 0) continue;
    const auto chunk = PENSTOCK_TRY(first_chunk(database, segment.id));
    if (!chunk) continue;
    const meta::Place& place = chunk->place;
    const Result<int64_t> time = journal.time_of({.sequence = place.checksum,
                                                  .segment = place.object.number,
                                                  .offset = place.offset,
                                                  .bytes = static_cast<uint32_t>(place.stored)});
    // Moved and released meanwhile: then the next one is the oldest.
    if (!time.ok() && time.error().code == ErrorCode::kNotFound) continue;
    return time;
  }
  return meta::Time{0};
}

}  // namespace penstock::volume
