#include "store/call_queue.h"

#include <fmt/core.h>

#include "base/thread_pool.h"

namespace penstock::store {

namespace {

constexpr size_t kQueuedMax = 4096;

// The queue whose call this thread is running.
thread_local const CallQueue* running_queue = nullptr;

}  // namespace

CallQueue::CallQueue(std::string name, size_t threads_max)
    : name_(std::move(name)), threads_max_(threads_max) {}

void CallQueue::start(Call call) {
  std::unique_lock lock(mutex_);
  if (running_queue != this) room_.wait(lock, [this] { return calls_.size() < kQueuedMax; });
  calls_.push_back(std::move(call));
  if (calls_.size() > idle_ && threads_.size() < threads_max_ && !finishing_) {
    threads_.emplace_back([this, label = fmt::format("{}-{}", name_, threads_.size())] {
      set_thread_name(label);
      run();
    });
  }
  filled_.notify_one();  // Under the lock: once the call has run, all this may be gone.
}

void CallQueue::finish() {
  {
    std::lock_guard lock(mutex_);
    finishing_ = true;
  }
  filled_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void CallQueue::run() noexcept {
  running_queue = this;
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    filled_.wait(lock, [this] { return finishing_ || !calls_.empty(); });
    --idle_;
    if (calls_.empty()) return;
    Call call = std::move(calls_.front());
    calls_.pop_front();
    lock.unlock();
    room_.notify_one();
    call();
    call = nullptr;  // What it holds goes before the next wait.
    lock.lock();
  }
}

}  // namespace penstock::store
