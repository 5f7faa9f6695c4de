#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "penstock/units.h"

namespace penstock {

// A queue that holds at most `capacity` items: pushing to a full one waits, so that a fast producer
// cannot fill memory.
// Threads: all calls from any thread.
// Order: first in, first out.
// Closing: close() refuses new items; what is inside is still handed out, then pop() returns
// nothing.
// Lifetime: close() and let every waiter return before destroying it. Notifications are sent under the
// lock, so that whoever got the last item may destroy the queue while its push() is still returning.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // Waits for room. False when closed or the deadline passed first; the item is then dropped.
  bool push(T item, Deadline deadline = kNoDeadline) {
    std::unique_lock lock(mutex_);
    const auto ready = [this] { return closed_ || items_.size() < capacity_; };
    if (!wait(room_, lock, deadline, ready) || closed_) return false;
    items_.push_back(std::move(item));
    filled_.notify_one();
    return true;
  }

  // Never waits. False, leaving `item` as it was, when full or closed.
  bool try_push(T& item) {
    std::lock_guard lock(mutex_);
    if (closed_ || items_.size() >= capacity_) return false;
    items_.push_back(std::move(item));
    filled_.notify_one();
    return true;
  }

  // Waits for an item. Nothing when closed and empty, or when the deadline passed first.
  std::optional<T> pop(Deadline deadline = kNoDeadline) {
    std::unique_lock lock(mutex_);
    const auto ready = [this] { return closed_ || !items_.empty(); };
    if (!wait(filled_, lock, deadline, ready) || items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    room_.notify_one();
    return item;
  }

  void close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    room_.notify_all();
    filled_.notify_all();
  }

  size_t size() const {
    std::lock_guard lock(mutex_);
    return items_.size();
  }
  size_t capacity() const { return capacity_; }

 private:
  template <typename Ready>
  static bool wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                   Deadline deadline, Ready ready) {
    // wait_until(max) overflows in some standard libraries, so "no deadline" is a wait of its own.
    if (deadline == kNoDeadline) return changed.wait(lock, ready), true;
    return changed.wait_until(lock, deadline, ready);
  }

  const size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable filled_;
  std::deque<T> items_;
  bool closed_ = false;
};

}  // namespace penstock
