#include "volume/packer.h"

namespace penstock::volume {

namespace {

bool is_gone(const Error& error) {
  return error.code == ErrorCode::kNotFound || error.code == ErrorCode::kChanged;
}

}  // namespace

Result<void> Packer::move(std::vector<meta::Chunk> chunks, Deadline deadline) {
  const Pack pack = PENSTOCK_TRY(fill(std::move(chunks)));
  if (pack.places.empty()) return {};
  PENSTOCK_TRY(store_pack(pack, deadline));
  return move_rows(pack);
}

Result<Packer::Pack> Packer::fill(std::vector<meta::Chunk> chunks) {
  Pack pack;
  pack.id = {database_.session(), next_number_++};
  std::vector<std::byte> raw;
  for (meta::Chunk& chunk : chunks) {
    raw.resize(chunk.place.raw);
    const Result<void> read = reader_.read_chunk(chunk.place, raw);
    // It went meanwhile: what it belonged to was deleted.
    if (!read.ok() && is_gone(read.error())) continue;
    if (!read.ok()) return read.error();
    pack.places.push_back(
        PENSTOCK_TRY(append_chunk(pack.bytes, options_.space, pack.id, raw, codec_.load())));
    pack.chunks.push_back(std::move(chunk));
  }
  return pack;
}

Result<void> Packer::store_pack(const Pack& pack, Deadline deadline) {
  PENSTOCK_TRY(database_.add_object({.id = pack.id,
                                     .kind = meta::ObjectKind::kData,
                                     .state = meta::ObjectState::kPending,
                                     .bytes = pack.bytes.size()}));
  store::PutOptions options;
  options.deadline = deadline;
  PENSTOCK_TRY(store_.put(object_key(options_.space, pack.id), pack.bytes, options));
  PENSTOCK_TRY(store_.flush({.deadline = deadline}));
  return database_.set_object(pack.id, meta::ObjectState::kStored, pack.bytes.size());
}

Result<void> Packer::move_rows(const Pack& pack) {
  for (size_t i = 0; i < pack.chunks.size(); ++i) {
    const meta::Chunk& chunk = pack.chunks[i];
    const Result<void> moved = database_.move_chunk(chunk.id, chunk.place, pack.places[i]);
    // Where nobody refers to it any more, its bytes in the object are garbage from the beginning.
    if (!moved.ok() && !is_gone(moved.error())) return moved;
  }
  return {};
}

}  // namespace penstock::volume
