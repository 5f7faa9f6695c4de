// Copies checkpoints to their second places, in the background.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "checkpoint/job.h"
#include "checkpoint/replica.h"

namespace penstock::checkpoint {

// So many saves may wait to be written, or copied; the arena is full long before.
inline constexpr size_t kJobsMax = 4096;

// A second place, and what stays in it.
struct Copies {
  std::unique_ptr<Replica> replica;
  Retention keep;
};

// Threads: all calls from any thread.
class Replicator {
 public:
  // `retire` is called after each step that is in all places.
  Replicator(io::FileSystem& fs, const CheckpointerOptions& options, std::vector<Copies> places,
             std::function<void(uint64_t step)> retire);
  ~Replicator();

  // When it is durable here.
  void add(std::shared_ptr<Job> job);
  // Finishes what was added, and lets go of the places: nobody else may have a volume until then.
  void stop();

 private:
  void catch_up();
  Result<void> replicate(uint64_t step);
  Result<void> replicate_to(const Copies& place, uint64_t step);

  io::FileSystem& fs_;
  const std::string directory_;
  std::vector<Copies> places_;
  const bool incremental_;
  const std::function<void(uint64_t)> retire_;
  RateLimiter limiter_;

  ThreadPool thread_{"ckpt-copy-to", 1, kJobsMax};  // Last: uses the others.
};

}  // namespace penstock::checkpoint
