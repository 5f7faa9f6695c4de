// Takes the copy of a state that save() returns after.
#pragma once

#include <memory>

#include "base/thread_pool.h"
#include "checkpoint/job.h"
#include "penstock/buffer.h"
#include "penstock/result.h"

namespace penstock::checkpoint {

// Threads: one at a time.
class Stager {
 public:
  // `arena_bytes` as in CheckpointerOptions, `threads` too.
  Stager(uint64_t arena_bytes, uint32_t threads, io::PinPolicy pin);

  // How much of `bytes` can be staged without waiting for the disk; with room for all of it the pieces
  // of a job can be kept. Waits, by `wait_for_earlier`, where a larger arena must be made.
  template <typename Wait>
  Result<bool> make_room(uint64_t bytes, const Wait& wait_for_earlier) {
    if (!is_large_enough(bytes)) {
      // Buffers of the old one go back to it, and it goes with the last of them.
      PENSTOCK_TRY(wait_for_earlier());
      PENSTOCK_TRY(make_arena(bytes));
    }
    return bytes <= arena_->stats().budget_bytes;
  }
  // Copies all pieces of the job. An error where it failed before all were copied.
  Result<void> stage(const std::shared_ptr<Job>& job);
  void stop() { copiers_.stop(); }

 private:
  uint64_t wanted(uint64_t bytes) const;
  bool is_large_enough(uint64_t bytes) const;
  Result<void> make_arena(uint64_t bytes);

  const uint64_t arena_bytes_;
  const io::PinPolicy pin_;
  ThreadPool copiers_;
  std::shared_ptr<io::BufferProvider> arena_;
};

}  // namespace penstock::checkpoint
