#include "cache/memory_windows.h"

namespace penstock::cache {

MemoryWindows::Joined MemoryWindows::join(const EntryId& id, Waiter waiter, WindowBytes* ready) {
  std::lock_guard lock(mutex_);
  const auto [at, is_new] = windows_.try_emplace(id);
  Window& window = at->second;
  if (window.ready) {
    turns_.splice(turns_.end(), turns_, window.turn);
    if (ready != nullptr) *ready = window.bytes;
    return Joined::kReady;
  }
  if (waiter) window.waiters.push_back(std::move(waiter));
  return is_new ? Joined::kStarted : Joined::kWaiting;
}

bool MemoryWindows::join_existing(const EntryId& id, const Waiter& waiter, WindowBytes* ready,
                                  bool* is_ready) {
  std::lock_guard lock(mutex_);
  const auto at = windows_.find(id);
  if (at == windows_.end()) return false;
  *is_ready = at->second.ready;
  if (at->second.ready) {
    turns_.splice(turns_.end(), turns_, at->second.turn);
    *ready = at->second.bytes;
  } else {
    at->second.waiters.push_back(waiter);
  }
  return true;
}

bool MemoryWindows::contains(const EntryId& id) {
  std::lock_guard lock(mutex_);
  return windows_.contains(id);
}

void MemoryWindows::drop_ready(Table::iterator at, std::vector<WindowBytes>& gone) {
  kept_bytes_ -= at->second.bytes.data.size();
  gone.push_back(std::move(at->second.bytes));
  turns_.erase(at->second.turn);
  windows_.erase(at);
}

void MemoryWindows::finish(const EntryId& id, Result<WindowBytes> outcome) {
  std::vector<Waiter> waiters;
  std::vector<WindowBytes> gone;
  {
    std::lock_guard lock(mutex_);
    const auto at = windows_.find(id);
    Window& window = at->second;
    waiters = std::move(window.waiters);
    if (!outcome.ok() || window.forgotten) {
      windows_.erase(at);
    } else {
      window.ready = true;
      window.bytes = *outcome;
      window.bytes.hashes = nullptr;
      window.turn = turns_.insert(turns_.end(), id);
      kept_bytes_ += window.bytes.data.size();
      while (kept_bytes_ > kept_bytes_max_) drop_ready(windows_.find(turns_.front()), gone);
    }
  }
  for (const Waiter& waiter : waiters) waiter(outcome);
}

void MemoryWindows::forget(const EntryId& id) {
  std::vector<WindowBytes> gone;
  std::lock_guard lock(mutex_);
  const auto at = windows_.find(id);
  if (at == windows_.end()) return;
  if (at->second.ready) {
    drop_ready(at, gone);
  } else {
    at->second.forgotten = true;
  }
}

bool MemoryWindows::forget_oldest() {
  std::vector<WindowBytes> gone;
  std::lock_guard lock(mutex_);
  if (turns_.empty()) return false;
  drop_ready(windows_.find(turns_.front()), gone);
  return true;
}

}  // namespace penstock::cache
