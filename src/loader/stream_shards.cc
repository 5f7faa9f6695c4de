#include "loader/stream_shards.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

namespace penstock::loader {

Result<void> StreamShards::read(uint32_t shard, uint64_t offset, std::span<std::byte> into) {
  while (!into.empty()) {
    const Chunk chunk = PENSTOCK_TRY(chunk_of({shard, offset / kChunk}));
    const uint64_t inside = offset % kChunk;
    if (inside >= chunk->size()) {
      return make_error(ErrorCode::kCorrupt,
                        fmt::format("{} ends before byte {}, decompressed",
                                    dataset_.shards()[shard].name, offset + into.size()));
    }
    const size_t bytes = std::min<uint64_t>(into.size(), chunk->size() - inside);
    std::memcpy(into.data(), chunk->data() + inside, bytes);
    into = into.subspan(bytes);
    offset += bytes;
  }
  return {};
}

uint64_t StreamShards::begun() const {
  const std::lock_guard lock(mutex_);
  return begun_;
}

StreamShards::Chunk StreamShards::find(Id id) {
  const std::lock_guard lock(mutex_);
  const auto found = chunks_.find(id);
  if (found == chunks_.end()) return nullptr;
  used_.splice(used_.begin(), used_, found->second.second);
  return found->second.first;
}

void StreamShards::keep(Id id, Chunk chunk) {
  const std::lock_guard lock(mutex_);
  if (chunks_.contains(id)) return;
  used_.push_front(id);
  chunks_[id] = {std::move(chunk), used_.begin()};
  while (chunks_.size() > chunks_max_) {
    chunks_.erase(used_.back());
    used_.pop_back();
  }
}

StreamShards::Stream& StreamShards::stream_of(uint32_t shard) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Stream>& stream = streams_[shard];
  if (stream == nullptr) stream = std::make_unique<Stream>();
  return *stream;
}

// Those in front of it are kept on the way: they are wanted as well, or were.
Result<StreamShards::Chunk> StreamShards::chunk_of(Id id) {
  if (Chunk chunk = find(id)) return chunk;
  Stream& stream = stream_of(id.shard);
  const std::lock_guard reading(stream.mutex);
  if (Chunk chunk = find(id)) return chunk;  // While waiting for our turn.
  if (stream.reader == nullptr || stream.reader->offset() > id.chunk * kChunk) {
    stream.reader = PENSTOCK_TRY(dataset_.read_in_order(id.shard));
    const std::lock_guard lock(mutex_);
    ++begun_;
  }
  while (true) {
    const uint64_t number = stream.reader->offset() / kChunk;
    auto bytes = std::make_shared<std::vector<std::byte>>(kChunk);
    const Result<size_t> got = stream.reader->read(*bytes);
    if (!got.ok()) {
      stream.reader.reset();
      return got.error();
    }
    bytes->resize(*got);
    const bool ended = *got < kChunk;
    if (ended) stream.reader.reset();
    const Chunk chunk = std::move(bytes);
    keep({id.shard, number}, chunk);
    if (number == id.chunk || ended)
      return number == id.chunk ? chunk : std::make_shared<const std::vector<std::byte>>();
  }
}

}  // namespace penstock::loader
