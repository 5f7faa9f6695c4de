#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "base/gate.h"
#include "penstock/io.h"

namespace penstock::io {

// Calls `done` functions one after the other on a thread of its own: the engine thread of file
// systems that have their answers at once. The thread starts with the first post(), so that one
// never used costs nothing. Threads: post() from any thread. Stopping: the destructor delivers what
// was posted, then joins; nobody may post meanwhile, save completions themselves.
class CompletionThread {
 public:
  struct Item {
    IoDone done;
    Result<size_t> answer = size_t{0};
    std::function<void()> before = nullptr;  // Called before `done`, when set.
    Gate::Pass pass;                         // Keeps the file open until `done` has returned.
  };

  CompletionThread() = default;
  ~CompletionThread();

  // Waits while the queue is full, but not on the completion thread itself.
  void post(Item item);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace penstock::io
