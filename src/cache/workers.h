#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace penstock::cache {

// The threads of a tier that may be held up by its drive: they open, close, publish and drop.
// Threads: all calls from any thread.
// Stopping: stop() refuses new tasks, runs those queued, joins. What is disposed of afterwards is
// destroyed where it is.
class Workers {
 public:
  using Task = std::function<void()>;

  // `queue_limit`: of short and of long tasks, each.
  Workers(size_t threads, size_t queue_limit);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Somebody waits for it. False, leaving `task` as it was, when the queue is full or stopped.
  bool try_post(Task& task);
  // Takes long, and goes after the others: one thread at least works on such while there are any,
  // and two never do.
  bool try_post_long(Task& task);
  // Always accepted, also beyond the limit: for what is bounded by others. Runs inside the call
  // once stopped.
  void post(Task task);

  // As std::make_shared, save that it is destroyed on a worker, whoever lets go of it last: for
  // what may wait for the drive, or must not be destroyed on an engine thread.
  template <typename T>
  static std::shared_ptr<T> share(const std::shared_ptr<Workers>& workers,
                                  std::unique_ptr<T> what) {
    return std::shared_ptr<T>(what.release(),
                              [workers](T* last) { workers->dispose([last] { delete last; }); });
  }

  void stop();

 private:
  void dispose(Task destroy);  // On a worker: at once.
  void run(size_t index) noexcept;
  bool take(Task& task, bool& is_long);
  bool long_ready() const;

  const size_t queue_limit_;
  const size_t long_limit_;
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<Task> short_;
  std::deque<Task> long_;
  size_t long_running_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace penstock::cache
