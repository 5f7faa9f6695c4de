// Decoded frames in memory, the least recently used ones given up first, and each loaded once for
// all who want it.
// Threads: all calls from any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "penstock/buffer.h"
#include "penstock/meta.h"
#include "volume/volume_metrics.h"

namespace penstock::volume {

// A frame of a chunk that lies in an object.
struct FrameKey {
  meta::ObjectId object;
  uint64_t chunk_offset = 0;  // Of the chunk, in the object.
  uint32_t index = 0;         // Of the frame, in the chunk.
  bool operator==(const FrameKey&) const = default;
};
struct FrameKeyHash {
  size_t operator()(const FrameKey& key) const;
};

// Verified bytes. Whoever holds one keeps its memory from being given to another.
struct Frame {
  std::shared_ptr<const io::Buffer> memory;  // Of several, where they were stored as they are.
  size_t offset = 0;
  size_t size = 0;
  std::span<const std::byte> bytes() const { return memory->bytes().subspan(offset, size); }
};
using FrameRef = std::shared_ptr<const Frame>;

class FrameCache {
 public:
  // The ceiling is that of `memory`.
  explicit FrameCache(std::shared_ptr<io::BufferProvider> memory) : memory_(std::move(memory)) {}

  // Those of `keys` that are neither here nor being loaded, in their order: the caller loads them,
  // and calls put() or fail() for every one. `ahead`: nobody has asked for them yet.
  std::vector<FrameKey> claim(std::span<const FrameKey> keys, bool ahead);
  void put(const FrameKey& key, FrameRef frame);
  void fail(const FrameKey& key, const Error& error);
  // Memory for a frame; gives up old ones for it, and waits where all are held.
  Result<io::Buffer> take(size_t bytes);

  // What is here now, or null.
  FrameRef find(const FrameKey& key);
  // Waits while it is being loaded. Nothing when nobody does (any more): claim it. Whoever waits
  // should hold no frame, or all might wait for memory that they hold together.
  std::optional<Result<FrameRef>> wait(const FrameKey& key);

  struct Stats {
    uint64_t frames = 0;
    uint64_t hits = 0;
    uint64_t misses = 0;
    uint64_t held_bytes = 0;
  };
  Stats stats() const;

 private:
  struct Slot {
    FrameRef frame;                      // Null while it is being loaded.
    std::shared_ptr<const Error> error;  // It could not be; until the last waiter has seen it.
    uint32_t waiters = 0;
    bool ahead = false;                  // Nobody has asked for it yet.
    std::list<FrameKey>::iterator turn;  // Only with a frame.
  };

  bool give_up_oldest();
  void note_use(Slot& slot);

  const std::shared_ptr<io::BufferProvider> memory_;
  mutable std::mutex mutex_;
  std::condition_variable loaded_;
  std::unordered_map<FrameKey, Slot, FrameKeyHash> slots_;
  std::list<FrameKey> turns_;  // Least recently used first.
  uint64_t hits_ = 0;
  uint64_t misses_ = 0;
  VolumeMetrics& metrics_ = VolumeMetrics::global();
};

}  // namespace penstock::volume
