#include "volume/packer.h"

namespace penstock::volume {

namespace {

bool is_gone(const Error& error) {
  return error.code == ErrorCode::kNotFound || error.code == ErrorCode::kChanged;
}

}  // namespace

Packer::Pack Packer::begin() {
  Pack pack{{database_.session(), next_number_++}, {}, {}};
  const std::lock_guard lock(spare_mutex_);
  if (spare_.empty()) return pack;
  pack.bytes = std::move(spare_.back());
  spare_.pop_back();
  return pack;
}

void Packer::end(Pack pack) {
  pack.bytes.clear();
  const std::lock_guard lock(spare_mutex_);
  spare_.push_back(std::move(pack.bytes));
}

void Packer::let_go_of_memory() {
  const std::lock_guard lock(spare_mutex_);
  spare_.clear();
}

Result<void> Packer::move(std::vector<meta::Chunk> chunks, Nanoseconds io_timeout,
                          const std::stop_token& cancel) {
  filling_.acquire();
  Pack pack = begin();
  const Result<std::vector<meta::Chunk>> packed = fill(pack, std::move(chunks));
  filling_.release();
  if (!packed.ok()) return packed.error();
  if (packed->empty()) return {};
  PENSTOCK_TRY(store_pack(pack, {.deadline = deadline_in(io_timeout), .cancel = cancel}));
  const Result<void> moved = move_rows(pack, *packed);
  end(std::move(pack));
  return moved;
}

Result<std::vector<meta::Chunk>> Packer::fill(Pack& pack, std::vector<meta::Chunk> chunks) {
  uint64_t bytes = 0;
  for (const meta::Chunk& chunk : chunks) {
    bytes += codec::frames_bound(chunk.place.raw, kFrameBytes);
  }
  pack.bytes.reserve(bytes);
  std::vector<meta::Chunk> packed;
  std::vector<std::byte> raw;
  for (meta::Chunk& chunk : chunks) {
    raw.resize(chunk.place.raw);
    const Result<void> read = reader_.read_chunk(chunk.place, raw);
    // It went meanwhile: what it belonged to was deleted.
    if (!read.ok() && is_gone(read.error())) continue;
    if (!read.ok()) return read.error();
    PENSTOCK_TRY(add(pack, raw));
    packed.push_back(std::move(chunk));
  }
  return packed;
}

Result<void> Packer::add(Pack& pack, std::span<const std::byte> raw) {
  pack.places.push_back(
      PENSTOCK_TRY(append_chunk(pack.bytes, options_.space, pack.id, raw, codec_.load())));
  return {};
}

Result<void> Packer::store_pack(const Pack& pack, const store::CallOptions& call) {
  PENSTOCK_TRY(database_.add_object({.id = pack.id,
                                     .kind = meta::ObjectKind::kData,
                                     .state = meta::ObjectState::kPending,
                                     .bytes = pack.bytes.size()}));
  const auto begun = std::chrono::steady_clock::now();
  const Result<void> stored = upload(pack, call);
  if (!stored.ok()) {
    metrics_.upload_failures.add();
    return stored;
  }
  metrics_.upload_seconds.record(std::chrono::steady_clock::now() - begun);
  metrics_.upload_bytes.add(pack.bytes.size());
  return database_.set_object(pack.id, meta::ObjectState::kStored, pack.bytes.size());
}

Result<void> Packer::upload(const Pack& pack, const store::CallOptions& call) {
  PENSTOCK_TRY(store_.put(object_key(options_.space, pack.id), pack.bytes, {call}));
  return store_.flush(call);
}

Result<void> Packer::move_rows(const Pack& pack, const std::vector<meta::Chunk>& chunks) {
  for (size_t i = 0; i < chunks.size(); ++i) {
    const meta::Chunk& chunk = chunks[i];
    const Result<void> moved = database_.move_chunk(chunk.id, chunk.place, pack.places[i]);
    // Where nobody refers to it any more, its bytes in the object are garbage from the beginning.
    if (!moved.ok() && !is_gone(moved.error())) return moved;
  }
  return {};
}

}  // namespace penstock::volume
