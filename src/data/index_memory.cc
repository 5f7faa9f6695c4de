#include "data/index_memory.h"

#include <thread>

#include "base/log.h"

namespace penstock::data {

IndexMemory::~IndexMemory() {
  for (Slot& slot : slots_) delete slot.index.load();
}

IndexMemory::Ref IndexMemory::find(uint32_t shard) {
  Slot& slot = slots_[shard];
  // In this order, all of them sequentially consistent: see take_away().
  slot.readers.fetch_add(1);
  const Ref* const index = slot.index.load();
  Ref found = index == nullptr ? nullptr : *index;
  slot.readers.fetch_sub(1);
  if (found && !slot.used.load(std::memory_order_relaxed)) {
    slot.used.store(true, std::memory_order_relaxed);
  }
  return found;
}

IndexMemory::Ref IndexMemory::add(uint32_t shard, Ref index, bool stays) {
  Slot& slot = slots_[shard];
  std::unique_lock lock(mutex_);
  if (const Ref* const there = slot.index.load()) return *there;
  if (!stays) bytes_ += index->memory_bytes();
  slot.stays = stays;
  slot.used = true;
  slot.index = new Ref(index);
  make_room(lock, slot);
  return index;
}

void IndexMemory::make_room(std::unique_lock<std::mutex>&, const Slot& keep) {
  // Twice round: the first time only tells who was used since.
  for (size_t steps = 2 * slots_.size(); bytes_ > limit_bytes_ && steps > 0; --steps) {
    Slot& slot = slots_[hand_];
    hand_ = (hand_ + 1) % slots_.size();
    if (&slot == &keep || slot.stays || slot.index.load() == nullptr) continue;
    if (slot.used.exchange(false)) continue;
    take_away(slot);
  }
}

void IndexMemory::take_away(Slot& slot) {
  log_once(LogLevel::kInfo, "data-index-limit",
           "not all indexes of a dataset fit in index_memory_bytes: some are read again and again",
           {{"limit", limit_bytes_}});
  const Ref* const index = slot.index.exchange(nullptr);
  // Whoever saw it counts as a reader by now; those who come later see nothing.
  while (slot.readers.load() != 0) std::this_thread::yield();
  bytes_ -= (*index)->memory_bytes();
  delete index;
}

uint64_t IndexMemory::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace penstock::data
