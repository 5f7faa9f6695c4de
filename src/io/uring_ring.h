#pragma once

#include <liburing.h>

#include <array>
#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "io/engine.h"
#include "penstock/result.h"

namespace penstock::io {

// The memory that rings may register, by region id. Rings pick entries up when they first meet an
// id, so that adding memory never waits for a ring.
// Threads: any.
class RegionTable {
 public:
  static constexpr uint32_t kRegions = 1024;

  struct Entry {
    iovec memory{};
    uint64_t generation = 0;  // Changes whenever the id gets other memory.
  };

  // An id from 1 to kRegions, or 0 when all are taken.
  uint32_t add(std::span<std::byte> memory);
  uint64_t remove(uint32_t region);  // The generation that it had.
  Entry get(uint32_t region) const;

 private:
  mutable std::mutex mutex_;
  std::array<Entry, kRegions> entries_{};
  uint64_t generation_ = 0;
};

// One io_uring and the thread that owns it: nobody else touches the ring.
//
// Others hand operations over through an inbox and wake the thread by an eventfd that the ring
// itself reads. Operations submitted from a completion stay on this thread: no lock, no wake-up.
class Ring {
 public:
  Ring(size_t index, const LocalOptions& options, RegionTable& regions);
  ~Ring();  // Finishes what was submitted.

  // Starts the thread and makes the ring on it. kUnsupported when io_uring is refused.
  Result<void> start();

  // Waits while the inbox is full.
  void submit(RawOpList& ops);
  // Runs `action` on the ring's thread; does not wait, unless the future is waited for.
  std::future<void> post(std::function<void()> action);

  // The ring whose thread this is, or null.
  static Ring* current();
  // From this ring's thread only: never waits.
  void submit_here(RawOpList& ops);
  void forget_here(FixedFile& file);
  // Nothing when the ring has a later generation of the region already.
  void drop_region_here(uint32_t region, uint64_t generation);

 private:
  void run(std::promise<Result<void>>& started);
  Result<void> set_up();
  void loop();
  void prepare_local();
  bool refill();            // Moves operations to the ring; false when stopping and done.
  void prepare(RawOp& op);  // Requires a free submission entry.
  void prepare_transfer(io_uring_sqe* sqe, RawOp& op);
  bool region_ready(uint32_t region);
  void use_fixed_file(io_uring_sqe* sqe, RawOp& op);
  void reap();
  void arm_wake();
  void wake();

  const size_t index_;
  const uint32_t depth_;
  const uint32_t pending_limit_;
  RegionTable& regions_;

  io_uring ring_{};
  int wake_fd_ = -1;
  uint64_t wake_value_ = 0;
  bool wake_armed_ = false;
  uint32_t in_flight_ = 0;
  RawOpList local_;  // From completions on this thread.
  bool fixed_buffers_ = false;
  std::vector<uint64_t> registered_generation_;  // By region id; 0: not registered.
  std::vector<int32_t> free_slots_;              // Of the table of registered files.

  std::mutex mutex_;
  std::condition_variable room_;
  RawOpList inbox_;
  std::vector<std::packaged_task<void()>> actions_;
  bool awake_ = true;  // The thread will look at the inbox before it sleeps.
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace penstock::io
