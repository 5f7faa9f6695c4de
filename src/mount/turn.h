// Which of the threads that serve a mount waits for the next request: one at a time.
//
// It keeps its turn while it answers. Most answers take microseconds, and to wake another thread
// takes longer than that; where more requests wait already, it passes the turn on instead. From
// whoever is still at it after a millisecond or two the turn is taken away: answers may wait for a
// store, or for one another. Whoever watches that also sees how many turns there are, and keeps processors
// awake for them (wakefulness.h).
// Threads: all calls from those that serve. They may be cancelled in take().
#pragma once

#include <semaphore.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "mount/wakefulness.h"

namespace penstock::mount {

class Turn {
 public:
  explicit Turn(bool stay_awake);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  void take();     // Waits until it is this thread's.
  void keep();     // It is, and stays so until the next take(), unless that takes too long.
  void pass_on();  // It is, and becomes another's.

 private:
  void count();
  void watch();

  sem_t free_;
  uint64_t last_ = 0;                  // Of whose turn it is.
  std::atomic<uint64_t> turns_ = 0;    // Changed only by whose turn it is.
  std::atomic<uint64_t> kept_ = 0;     // The number of the answer it is kept over; 0: none.
  std::atomic<bool> resting_ = false;  // The watcher, since there was nothing to watch for a while.
  std::atomic<bool> stopping_ = false;
  Wakefulness wakefulness_;  // The watcher's.
  std::thread watcher_;
};

}  // namespace penstock::mount
