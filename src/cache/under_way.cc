#include "cache/under_way.h"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "base/thread_pool.h"

namespace penstock::cache {

namespace {

constexpr int kTicks = 8;  // In slow_after.

}  // namespace

UnderWay::UnderWay(Nanoseconds slow_after, Hooks hooks)
    : period_(std::max<Nanoseconds>(slow_after / kTicks, std::chrono::milliseconds(1))),
      hooks_(std::move(hooks)),
      watchdog_([this] { run(); }) {}

UnderWay::~UnderWay() {
  {
    std::lock_guard lock(mutex_);
    assert(first_ == nullptr);
    stopping_ = true;
  }
  stop_.notify_all();
  watchdog_.join();
}

bool UnderWay::enter(Item& item, bool waits) {
  std::lock_guard lock(mutex_);
  if (closed_) return false;
  item.started_ = !waits;
  item.start_tick_ = now_;
  item.next_ = first_;
  if (first_ != nullptr) first_->previous_ = &item;
  first_ = &item;
  return true;
}

void UnderWay::start(Item& item) {
  std::lock_guard lock(mutex_);
  item.started_ = true;
  item.start_tick_ = now_;
}

// Notifies under the lock: the closer may destroy this as soon as it can take the lock.
void UnderWay::leave(Item& item) {
  std::lock_guard lock(mutex_);
  (item.previous_ == nullptr ? first_ : item.previous_->next_) = item.next_;
  if (item.next_ != nullptr) item.next_->previous_ = item.previous_;
  if (first_ == nullptr && closed_) empty_.notify_all();
}

void UnderWay::close() {
  std::unique_lock lock(mutex_);
  closed_ = true;
  empty_.wait(lock, [this] { return first_ == nullptr && !answering_; });
}

void UnderWay::run() {
  set_thread_name("cache-watch");
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (stop_.wait_for(lock, period_, [this] { return stopping_; })) return;
    }
    tick();
  }
}

void UnderWay::tick() {
  std::vector<std::function<void()>> answers;
  bool slow = false;
  {
    const bool on = hooks_.is_on();
    std::lock_guard lock(mutex_);
    ++now_;
    for (Item* item = first_; item != nullptr; item = item->next_) {
      const bool late = item->started_ && now_ - item->start_tick_ > kTicks;
      const bool hopeless = !item->started_ && !on;
      // An item leaves only under the lock, so that one claimed here is still there to be asked.
      if ((!late && !hopeless) || !item->claim()) continue;
      slow = slow || late;
      answers.push_back(item->give_up());
    }
    answering_ = !answers.empty();
  }
  if (answers.empty()) return;
  if (slow) hooks_.on_slow();
  for (const std::function<void()>& answer : answers) answer();
  answers.clear();
  std::lock_guard lock(mutex_);
  answering_ = false;
  empty_.notify_all();
}

}  // namespace penstock::cache
