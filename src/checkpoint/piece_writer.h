// Writes the pieces of one save and computes their checksums on the way.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "base/rate_limiter.h"
#include "checkpoint/file_check.h"
#include "checkpoint/job.h"
#include "checkpoint/sha256.h"

namespace penstock::checkpoint {

// Threads: one.
class PieceWriter {
 public:
  PieceWriter(Job& job, RateLimiter& limiter, bool sha256);
  // Waits for what is under way.
  ~PieceWriter();
  PieceWriter(const PieceWriter&) = delete;
  PieceWriter& operator=(const PieceWriter&) = delete;

  // In the order in which they are staged.
  Result<void> write_all();
  // File by file: one that is as in `before`, the checkpoint at `path`, becomes a link to it. Requires
  // that pieces are kept.
  Result<void> write_changed(const Manifest& before, const std::string& path);

 private:
  Result<void> submit(size_t index);
  Result<void> hash(size_t index);
  Result<bool> link_unchanged(size_t file, const Manifest& before, const std::string& path);
  Result<void> enter();
  void leave(const Result<size_t>& result);
  Result<void> wait();
  void finish_sums();

  Job& job_;
  RateLimiter& limiter_;
  std::vector<TensorHashes> hashes_;
  std::vector<Sha256> sums_;  // Empty where nobody asked.

  std::mutex mutex_;
  std::condition_variable less_;
  size_t in_flight_ = 0;
  Result<void> first_;  // Error of a write.
};

}  // namespace penstock::checkpoint
