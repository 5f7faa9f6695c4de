#include "volume/frame_cache.h"

#include <utility>

#include "base/waiting.h"

namespace penstock::volume {

namespace {

// How often it is looked again whether memory came back, should all of it be held by readers.
constexpr Nanoseconds kMemoryRetry = std::chrono::milliseconds(5);

}  // namespace

size_t FrameKeyHash::operator()(const FrameKey& key) const {
  const uint64_t object = uint64_t{key.object.session} << 32 | key.object.number;
  uint64_t mixed = (object ^ key.chunk_offset) * 0x9e3779b97f4a7c15 + key.index;
  mixed ^= mixed >> 29;
  return mixed * 0xbf58476d1ce4e5b9;
}

std::vector<FrameKey> FrameCache::claim(std::span<const FrameKey> keys, bool ahead) {
  std::vector<FrameKey> claimed;
  {
    const std::lock_guard lock(mutex_);
    for (const FrameKey& key : keys) {
      const auto [at, is_new] = slots_.try_emplace(key);
      if (!is_new) continue;
      at->second.ahead = ahead;
      claimed.push_back(key);
    }
    if (!ahead) {
      hits_ += keys.size() - claimed.size();
      misses_ += claimed.size();
    }
  }
  if (ahead) {
    metrics_.ahead_frames.add(claimed.size());
  } else {
    metrics_.frame_hits.add(keys.size() - claimed.size());
    metrics_.frame_misses.add(claimed.size());
  }
  return claimed;
}

void FrameCache::note_use(Slot& slot) {
  turns_.splice(turns_.end(), turns_, slot.turn);
  if (std::exchange(slot.ahead, false)) metrics_.ahead_used.add();
}

void FrameCache::put(const FrameKey& key, FrameRef frame) {
  {
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_[key];
    slot.frame = std::move(frame);
    slot.turn = turns_.insert(turns_.end(), key);
  }
  loaded_.notify_all();
}

void FrameCache::fail(const FrameKey& key, const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    const auto at = slots_.find(key);
    if (at->second.waiters == 0) {
      slots_.erase(at);
    } else {
      at->second.error = std::make_shared<const Error>(error);
    }
  }
  loaded_.notify_all();
}

FrameRef FrameCache::find(const FrameKey& key) {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.find(key);
  if (found == slots_.end() || found->second.frame == nullptr) return nullptr;
  note_use(found->second);
  return found->second.frame;
}

std::optional<Result<FrameRef>> FrameCache::wait(const FrameKey& key) {
  std::unique_lock lock(mutex_);
  const auto found = slots_.find(key);
  if (found == slots_.end() || found->second.error) return std::nullopt;
  Slot& slot = found->second;  // Stays where it is, and while it has waiters.
  ++slot.waiters;
  const WaitingFor wait("content that is on its way from the store");
  loaded_.wait(lock, [&] { return slot.frame != nullptr || slot.error != nullptr; });
  --slot.waiters;
  if (slot.frame != nullptr) {
    note_use(slot);
    return slot.frame;
  }
  Result<FrameRef> failed = *slot.error;
  if (slot.waiters == 0) slots_.erase(key);
  return failed;
}

// Not those that are waited for: they were just loaded.
bool FrameCache::give_up_oldest() {
  FrameRef gone;
  const std::lock_guard lock(mutex_);
  for (auto turn = turns_.begin(); turn != turns_.end(); ++turn) {
    const auto at = slots_.find(*turn);
    if (at->second.waiters > 0 || at->second.frame.use_count() > 1) continue;
    gone = std::move(at->second.frame);
    turns_.erase(turn);
    slots_.erase(at);
    metrics_.frame_evictions.add();
    return true;
  }
  return false;
}

Result<io::Buffer> FrameCache::take(size_t bytes) {
  while (true) {
    Result<io::Buffer> buffer = memory_->try_take(bytes);
    if (buffer.ok() || buffer.error().code != ErrorCode::kBusy) return buffer;
    if (give_up_oldest()) continue;
    const WaitingFor wait("memory for content (--memory)");
    buffer = memory_->take(bytes, deadline_in(kMemoryRetry));
    if (buffer.ok() || buffer.error().code != ErrorCode::kTimeout) return buffer;
  }
}

FrameCache::Stats FrameCache::stats() const {
  const uint64_t held = memory_->stats().held_bytes;
  const std::lock_guard lock(mutex_);
  return {.frames = turns_.size(), .hits = hits_, .misses = misses_, .held_bytes = held};
}

}  // namespace penstock::volume
