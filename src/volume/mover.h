// Moves content from segments of the journal into objects of the store, oldest first, when it is
// old enough, or much, or somebody waits for room.
// Threads: all calls from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/thread_pool.h"
#include "penstock/meta.h"
#include "penstock/volume.h"
#include "volume/packer.h"
#include "volume/store_health.h"

namespace penstock::volume {

struct MoverOptions {
  WritebackOptions writeback;
  bool when_settled = false;  // Also what fills an object, once nothing comes any more.
  Nanoseconds io_timeout = std::chrono::seconds(60);
  std::function<meta::Time()> now;
  // Since when something waits to be moved; 0: nothing does.
  std::function<Result<meta::Time>()> oldest;
  std::function<void()> commit;  // Called when segments may be released for it.
  // Called before content is moved, so that less is: brings small pieces together (merger.h), and
  // says how many bytes it did.
  std::function<Result<uint64_t>(Deadline)> merge = nullptr;
  Gauge* failing = nullptr;  // 1 while content cannot be moved. Not null; outlives the mover.
};

// How long somebody wants content to be moved.
struct MoveOptions {
  Deadline begin_until =
      kNoDeadline;              // What is on its way by then may take MoverOptions::io_timeout.
  std::stop_token cancel = {};  // What is on its way is given up.
  std::function<void()> moved = {};  // Called after each object, on any thread, one at a time.
};

class Mover {
 public:
  // All outlive it.
  Mover(meta::Database& database, Packer& packer, const MoverOptions& options);
  ~Mover() { stop(); }

  void start();
  void stop();
  // Somebody waits for room in the journal.
  void hurry();
  // What is in the journal now.
  Result<void> move_all(const MoveOptions& options);

 private:
  using Clock = std::chrono::steady_clock;

  // What is moved now, by several threads.
  struct Batch {
    explicit Batch(std::vector<meta::Object> segments_in) : segments(std::move(segments_in)) {}
    const std::vector<meta::Object> segments;
    std::mutex mutex;
    // Up to where somebody has taken it.
    size_t segment = 0;
    uint64_t from = 0;
    bool taken = false;  // Anything.
    Result<void> result;
    Clock::time_point begun{};  // What failed.
  };

  // In the background: false when it failed, which is said in the log.
  bool move_due(uint64_t waiting);
  Result<void> move_now(const MoveOptions& options);
  Result<void> merge_all(const MoveOptions& options);
  // False: there was nothing to take.
  Result<bool> move_waiting(uint64_t bytes, const MoveOptions& options);
  // False: there is nothing left to take, or it failed.
  bool move_one(Batch& batch, const MoveOptions& options);
  // Nothing more is to be begun.
  bool is_over(const MoveOptions& options);
  Result<std::vector<meta::Chunk>> gather(Batch& batch);
  Result<uint64_t> waiting_bytes();
  bool is_due(uint64_t bytes);
  void run();

  meta::Database& database_;
  Packer& packer_;
  const MoverOptions options_;
  StoreHealth health_;
  std::mutex moving_;          // One moves.
  Clock::time_point begun_{};  // Under it: what failed, when the last one that moved did.

  std::mutex mutex_;
  std::condition_variable wake_;
  bool hurry_ = false;
  bool stopping_ = false;
  uint64_t last_waiting_ = 0;  // When it was looked at last.
  std::thread thread_;
  ThreadPool pool_;  // Those that move. Last: its tasks use the others.
};

}  // namespace penstock::volume
