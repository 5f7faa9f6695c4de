// Compressed shards, read by place as if they were not: each is decompressed from front to back once,
// as long as reads do not go back by more than what is kept.
// Threads: all calls from any thread. Blocking.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "penstock/data.h"

namespace penstock::loader {

class StreamShards {
 public:
  static constexpr uint64_t kChunk = 1024 * 1024;

  // Keeps up to `keep_bytes` of what was decompressed. `dataset` outlives it.
  StreamShards(data::Dataset& dataset, uint64_t keep_bytes)
      : dataset_(dataset), chunks_max_(std::max<uint64_t>(4, keep_bytes / kChunk)) {}

  // Fills `into` with bytes of the decompressed shard; kCorrupt when it has fewer.
  Result<void> read(uint32_t shard, uint64_t offset, std::span<std::byte> into);
  // How often a shard was begun anew: once each is as good as it gets.
  uint64_t begun() const;

 private:
  struct Stream {
    std::mutex mutex;  // Held while it is read from.
    std::unique_ptr<data::SequentialReader> reader;
  };
  using Chunk = std::shared_ptr<const std::vector<std::byte>>;
  struct Id {
    uint32_t shard = 0;
    uint64_t chunk = 0;
    auto operator<=>(const Id&) const = default;
  };

  Result<Chunk> chunk_of(Id id);
  Chunk find(Id id);
  void keep(Id id, Chunk chunk);
  Stream& stream_of(uint32_t shard);

  data::Dataset& dataset_;
  const uint64_t chunks_max_;
  mutable std::mutex mutex_;
  std::map<uint32_t, std::unique_ptr<Stream>> streams_;
  std::list<Id> used_;  // Last used first.
  std::map<Id, std::pair<Chunk, std::list<Id>::iterator>> chunks_;
  uint64_t begun_ = 0;
};

}  // namespace penstock::loader
