#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

namespace penstock::io {

// The bounce buffers of a file system's unaligned direct transfers: at most kBuffers of
// kBounceBytes, made when first needed. Threads: any. Waiters are served in order. Everything is
// back before it is destroyed.
class BouncePool {
 public:
  static constexpr size_t kBuffers = 64;

  ~BouncePool();

  // Waits for one.
  std::byte* take();
  // Calls `ready` with one: now, or from the give_back() that frees it.
  void take_async(std::function<void(std::byte*)> ready);
  void give_back(std::byte* buffer);

 private:
  std::byte* make();

  std::mutex mutex_;
  std::vector<std::byte*> free_;
  size_t made_ = 0;
  std::deque<std::function<void(std::byte*)>> waiters_;
};

}  // namespace penstock::io
