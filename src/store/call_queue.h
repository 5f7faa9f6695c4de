#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace penstock::store {

// Runs a store's calls on threads of its own, which are made when first needed.
// Threads: start() from any thread. It waits while too many calls are queued, except from inside a
// call: there the queue grows instead, by as much as completed calls start, because a `done` must
// not block. (This is why it is not a ThreadPool.)
// Stopping: finish() runs everything queued, and what that starts, then ends the threads. The
// destructor does the same. No start() from outside after that.
class CallQueue {
 public:
  using Call = std::function<void()>;

  CallQueue(std::string name, size_t threads_max);
  ~CallQueue() { finish(); }
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  void start(Call call);
  void finish();

 private:
  void run() noexcept;

  const std::string name_;
  const size_t threads_max_;
  std::mutex mutex_;
  std::condition_variable filled_;
  std::condition_variable room_;
  std::deque<Call> calls_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
  bool finishing_ = false;
};

}  // namespace penstock::store
