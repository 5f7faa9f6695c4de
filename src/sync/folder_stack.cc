#include "sync/folder_stack.h"

namespace penstock::sync {

void FolderStack::push(std::unique_ptr<FolderTask> task) {
  {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

std::unique_ptr<FolderTask> FolderStack::pop() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, stop_, [this] { return !tasks_.empty() || at_work_ == 0; });
  if (stop_.stop_requested() || tasks_.empty()) return nullptr;
  std::unique_ptr<FolderTask> task = std::move(tasks_.back());
  tasks_.pop_back();
  ++at_work_;
  return task;
}

void FolderStack::done() {
  std::lock_guard lock(mutex_);
  if (--at_work_ == 0) changed_.notify_all();
}

}  // namespace penstock::sync
