#include "sync/copy_queue.h"

namespace penstock::sync {

CopyQueue::CopyQueue(size_t capacity, size_t jobs, std::stop_token stop)
    : capacity_(capacity), jobs_(jobs), stop_(std::move(stop)) {}

bool CopyQueue::push(CopyItem item) {
  std::unique_lock lock(mutex_);
  // Who has to wait comes back for many at once, not for one.
  if (items_.size() >= capacity_) {
    room_.wait(lock, stop_, [this] { return items_.size() <= capacity_ / 2; });
  }
  if (stop_.stop_requested()) return false;
  items_.push_back(std::move(item));
  work_.notify_one();
  return true;
}

void CopyQueue::push_again(CopyItem item) {
  std::lock_guard lock(mutex_);
  again_.push_back(std::move(item));
  --open_;
  work_.notify_one();
}

std::optional<CopyItem> CopyQueue::pop() {
  std::unique_lock lock(mutex_);
  const auto has_work = [this] {
    return slots_taken_ < jobs_ && (!again_.empty() || !items_.empty());
  };
  const auto is_over = [this] { return closed_ && open_ == 0 && again_.empty() && items_.empty(); };
  work_.wait(lock, stop_, [&] { return has_work() || is_over(); });
  if (stop_.stop_requested()) {
    // Those under way end soon by themselves; the rest is not begun.
    work_.wait(lock, [this] { return open_ == 0; });
    return std::nullopt;
  }
  if (!has_work()) return std::nullopt;
  std::deque<CopyItem>& from = again_.empty() ? items_ : again_;
  std::optional<CopyItem> item(std::move(from.front()));
  from.pop_front();
  ++slots_taken_;
  ++open_;
  if (items_.size() == capacity_ / 2) room_.notify_all();
  return item;
}

bool CopyQueue::take_slot() {
  std::unique_lock lock(mutex_);
  work_.wait(lock, stop_, [this] { return slots_taken_ < jobs_; });
  if (stop_.stop_requested()) return false;
  ++slots_taken_;
  return true;
}

void CopyQueue::release_slot() {
  std::lock_guard lock(mutex_);
  --slots_taken_;
  work_.notify_one();
}

void CopyQueue::close_item() {
  std::lock_guard lock(mutex_);
  --open_;
  work_.notify_one();
}

void CopyQueue::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  work_.notify_one();
}

}  // namespace penstock::sync
