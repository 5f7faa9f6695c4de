#include "cache/workers.h"

#include <fmt/core.h>

#include "base/thread_pool.h"

namespace penstock::cache {

namespace {

thread_local const Workers* current_workers = nullptr;

}  // namespace

Workers::Workers(size_t threads, size_t queue_limit)
    : queue_limit_(queue_limit), long_limit_(threads > 2 ? threads - 2 : 1) {
  threads_.reserve(threads);
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this, i] { run(i); });
}

Workers::~Workers() {
  stop();
}

bool Workers::try_post(Task& task) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || short_.size() >= queue_limit_) return false;
    short_.push_back(std::move(task));
  }
  filled_.notify_one();
  return true;
}

bool Workers::try_post_long(Task& task) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || long_.size() >= queue_limit_) return false;
    long_.push_back(std::move(task));
  }
  filled_.notify_one();
  return true;
}

void Workers::post(Task task) {
  {
    std::lock_guard lock(mutex_);
    if (!stopping_) {
      short_.push_back(std::move(task));
      task = nullptr;
    }
  }
  if (task) return task();
  filled_.notify_one();
}

void Workers::dispose(Task destroy) {
  if (current_workers == this) return destroy();
  post(std::move(destroy));
}

void Workers::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  filled_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Workers::run(size_t index) noexcept {
  set_thread_name(fmt::format("cache-{}", index));
  current_workers = this;
  Task task;
  bool is_long = false;
  while (take(task, is_long)) {
    task();
    task = nullptr;
  }
}

bool Workers::long_ready() const {
  return !long_.empty() && (stopping_ || long_running_ < long_limit_);
}

// Called with the outcome of the last take().
bool Workers::take(Task& task, bool& is_long) {
  std::unique_lock lock(mutex_);
  if (is_long) --long_running_;
  filled_.wait(lock, [this] { return stopping_ || !short_.empty() || long_ready(); });
  // One thread works on long ones at any rate: short ones may never end.
  is_long = long_ready() && (short_.empty() || long_running_ == 0);
  if (short_.empty() && !is_long) return false;
  std::deque<Task>& queue = is_long ? long_ : short_;
  task = std::move(queue.front());
  queue.pop_front();
  if (is_long) ++long_running_;
  return true;
}

}  // namespace penstock::cache
