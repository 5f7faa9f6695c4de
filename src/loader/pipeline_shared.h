#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

#include "loader/pipeline.h"

namespace penstock::loader {

// Units whose turn has come, and what workers, completions and waiters tell each other.
struct Pipeline::Shared {
  struct Turn {
    WorkRef batch;
    uint32_t unit = 0;
  };

  void push(Turn turn);
  bool pop(Turn& turn);  // Waits; false when stopping.
  void stop();
  void unit_done(BatchWork& batch);
  // Until all units of it are done. kTimeout at the deadline, kClosed when stopping.
  Result<void> wait_for(const BatchWork& batch, Deadline deadline);
  void read_begins();
  // One of the reads of a unit ended. Takes the reference to the batch, and has let go of it before
  // wait_for_reads() goes on: a dataset must not end on a thread of its own.
  void read_ends(WorkRef batch, uint32_t unit, uint32_t piece, const Result<void>& outcome);
  // All reads of a unit were begun.
  void begun(WorkRef batch, uint32_t unit);
  void wait_for_reads();
  std::shared_ptr<Stats> stats() const;

  // Whether files of the page cache must be asked for ahead: they need not while they come at the
  // speed of memory.
  void note_read(uint64_t bytes, Clock::duration took);
  void note_tokens(uint64_t bytes, Clock::duration took);
  bool advise() const { return cold_.load(std::memory_order_relaxed) > 0; }

  mutable std::mutex mutex;
  std::condition_variable filled;
  std::condition_variable done;
  std::deque<Turn> turns;
  bool stopping = false;
  uint64_t reads = 0;                  // Under way.
  const BatchWork* awaited = nullptr;  // By the last that came to Pipeline::wait(),
  uint32_t waiting = 0;                // of so many.
  std::shared_ptr<Stats> current = std::make_shared<Stats>();

 private:
  static constexpr int kCold = 64;  // Fast reads in a row before it counts as warm.
  std::atomic<int> cold_ = kCold;
  std::atomic<int> slow_tokens_ = 0;
};

}  // namespace penstock::loader
