// What a thread waits for, so that another one can say it: a program that hangs should not leave
// people guessing.
//
//   const WaitingFor wait("an answer of the store");   // until the end of the block
//
// Costs a nanosecond or two.
#pragma once

#include <atomic>

namespace penstock {

// Texts that live as long as the process. Null: it does not wait, or not for anything known.
using WaitBoard = std::atomic<const char*>;

namespace detail {
inline thread_local WaitBoard* wait_board = nullptr;
}

// What the calling thread waits for is shown here from now on. It outlives the thread, or the next
// call. Null: nowhere.
inline void show_waits_on(WaitBoard* board) {
  detail::wait_board = board;
}

// Inner ones hide outer ones.
class WaitingFor {
 public:
  explicit WaitingFor(const char* what) : board_(detail::wait_board) {
    if (board_ == nullptr) return;
    before_ = board_->load(std::memory_order_relaxed);  // Nobody else writes to it.
    board_->store(what, std::memory_order_relaxed);
  }
  ~WaitingFor() {
    if (board_ != nullptr) board_->store(before_, std::memory_order_relaxed);
  }
  WaitingFor(const WaitingFor&) = delete;
  WaitingFor& operator=(const WaitingFor&) = delete;

 private:
  WaitBoard* const board_;
  const char* before_ = nullptr;
};

}  // namespace penstock
