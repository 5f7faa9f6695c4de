// The bytes of a save between the tensors and the disk.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "penstock/buffer.h"
#include "penstock/result.h"

namespace penstock::checkpoint {

// Pieces, handed from those who copy to the one who writes.
// Threads: all calls from any thread.
class StagedPieces {
 public:
  // `keep`: pieces stay until all are dropped, so that they can be written again.
  StagedPieces(size_t count, bool keep) : keep_(keep), pieces_(count) {}

  bool keeps() const { return keep_; }
  void put(size_t index, io::Buffer buffer);
  // No more will come, because of this.
  void fail(const Error& error);
  std::optional<Error> failure() const;
  // Waits for it to come. Stays valid until written() or drop().
  Result<io::MemorySlice> wait(size_t index);
  void written(size_t index);
  void drop();

 private:
  const bool keep_;
  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::vector<io::Buffer> pieces_;
  std::optional<Error> failure_;
};

}  // namespace penstock::checkpoint
