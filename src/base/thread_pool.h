#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/bounded_queue.h"

namespace penstock {

// Names the calling thread for ps, top, gdb and perf: at most 15 bytes are kept.
void set_thread_name(const std::string& name);

// Cores this process may use: the affinity mask, lowered by the cgroup's CPU quota. At least 1.
size_t available_cores();

// A fixed set of named threads ("NAME-0", "NAME-1", ...) that run tasks from one bounded queue.
// Threads: submit() from any thread; from a task only with try_submit(), or a full queue waits for
// itself.
// Stopping: stop() refuses new tasks, runs those queued, joins. The destructor stops.
// Failure: a task must not throw; one that does ends the process. Where not all threads can be
// started it goes on with those that were, and says so; without any, the constructor throws
// std::system_error.
class ThreadPool {
 public:
  using Task = std::function<void()>;

  ThreadPool(std::string name, size_t threads, size_t queue_capacity);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Waits while the queue is full. False after stop().
  bool submit(Task task);
  // False when the queue is full or the pool stopped; `task` is then untouched.
  bool try_submit(Task& task);

  void stop();
  size_t threads() const { return threads_.size(); }

 private:
  bool start(const std::string& label);
  void run() noexcept;

  BoundedQueue<Task> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace penstock
