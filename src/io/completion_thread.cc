#include "io/completion_thread.h"

#include "base/thread_pool.h"

namespace penstock::io {

namespace {

constexpr size_t kQueueLimit = 8192;

}  // namespace

CompletionThread::~CompletionThread() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void CompletionThread::post(Item item) {
  {
    std::unique_lock lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    if (std::this_thread::get_id() != thread_.get_id()) {
      changed_.wait(lock, [this] { return items_.size() < kQueueLimit; });
    }
    items_.push_back(std::move(item));
  }
  changed_.notify_all();
}

void CompletionThread::run() {
  set_thread_name("ps-done");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !items_.empty(); });
    if (items_.empty()) return;
    Item item = std::move(items_.front());
    items_.pop_front();
    lock.unlock();
    changed_.notify_all();
    if (item.before) item.before();
    if (item.done) item.done(std::move(item.answer));
    item.pass = Gate::Pass();
    item.done = nullptr;  // After the pass: what it captured may own the file, which then closes.
    lock.lock();
  }
}

}  // namespace penstock::io
