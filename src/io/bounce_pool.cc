#include "io/bounce_pool.h"

#include <cstdlib>
#include <future>
#include <new>

#include "io/transfer.h"

namespace penstock::io {

namespace {
constexpr size_t kBouncePageBytes = 4096;
}

BouncePool::~BouncePool() {
  for (std::byte* buffer : free_) std::free(buffer);
}

std::byte* BouncePool::make() {
  void* memory = std::aligned_alloc(kBouncePageBytes, kBounceBytes);
  if (memory == nullptr)
    throw std::bad_alloc();  // Ends the process, as any other failed small allocation does.
  ++made_;
  return static_cast<std::byte*>(memory);
}

std::byte* BouncePool::take() {
  std::promise<std::byte*> promise;
  take_async([&promise](std::byte* buffer) { promise.set_value(buffer); });
  return promise.get_future().get();
}

void BouncePool::take_async(std::function<void(std::byte*)> ready) {
  std::byte* buffer = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      buffer = free_.back();
      free_.pop_back();
    } else if (made_ < kBuffers) {
      buffer = make();
    } else {
      waiters_.push_back(std::move(ready));
      return;
    }
  }
  ready(buffer);
}

void BouncePool::give_back(std::byte* buffer) {
  std::function<void(std::byte*)> next;
  {
    std::lock_guard lock(mutex_);
    if (waiters_.empty()) {
      free_.push_back(buffer);
      return;
    }
    next = std::move(waiters_.front());
    waiters_.pop_front();
  }
  next(buffer);
}

}  // namespace penstock::io
