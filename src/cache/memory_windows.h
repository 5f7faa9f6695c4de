#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "cache/entry.h"
#include "penstock/result.h"

namespace penstock::cache {

// Verified bytes of a window, and what keeps them in memory.
struct WindowBytes {
  std::shared_ptr<const void> holder;
  std::span<const std::byte> data;
  bool from_source = false;  // Not from a drive.
  // Then: how many of its bytes nobody has asked for yet. The first time they are, it is a miss.
  std::shared_ptr<std::atomic<uint64_t>> unread = {};
  // And for the waiter that copies all of it first, until finish() returns.
  std::shared_ptr<BlockHashes> hashes = {};
};

// Windows in memory: those being loaded, once for all who want them, and those last loaded.
// Threads: all calls from any thread.
class MemoryWindows {
 public:
  using Waiter = std::function<void(const Result<WindowBytes>&)>;
  enum class Joined {
    kReady,    // `ready` is set; the waiter is not called.
    kWaiting,  // Somebody loads it; the waiter will be called.
    kStarted,  // The caller must load it and call finish(); the waiter will be called then.
  };

  explicit MemoryWindows(uint64_t kept_bytes_max) : kept_bytes_max_(kept_bytes_max) {}

  // `waiter` may be empty.
  Joined join(const EntryId& id, Waiter waiter, WindowBytes* ready);
  // As join, but starts nothing: false when it is neither there nor being loaded.
  bool join_existing(const EntryId& id, const Waiter& waiter, WindowBytes* ready, bool* is_ready);
  bool contains(const EntryId& id);
  // Calls the waiters, on this thread. What could be loaded is kept for those who come later.
  void finish(const EntryId& id, Result<WindowBytes> outcome);
  // Is not kept any longer; one being loaded is not kept when it comes.
  void forget(const EntryId& id);
  // Lets go of the one that was unused for longest; false when there is none.
  bool forget_oldest();

 private:
  struct Window {
    bool ready = false;
    bool forgotten = false;
    WindowBytes bytes;
    std::vector<Waiter> waiters;
    std::list<EntryId>::iterator turn;
  };
  using Table = std::unordered_map<EntryId, Window, EntryIdHash>;

  // Under the mutex. What is let go of is put into `gone`, to be freed outside it.
  void drop_ready(Table::iterator at, std::vector<WindowBytes>& gone);

  const uint64_t kept_bytes_max_;
  std::mutex mutex_;
  Table windows_;
  std::list<EntryId> turns_;  // Of the ready ones, least recently used first.
  uint64_t kept_bytes_ = 0;
};

}  // namespace penstock::cache
