#include "checkpoint/staged.h"

namespace penstock::checkpoint {

void StagedPieces::put(size_t index, io::Buffer buffer) {
  std::lock_guard lock(mutex_);
  if (failure_) return;  // Nobody waits for it any more.
  pieces_[index] = std::move(buffer);
  came_.notify_all();
}

void StagedPieces::fail(const Error& error) {
  std::lock_guard lock(mutex_);
  if (!failure_) failure_ = error;
  came_.notify_all();
}

std::optional<Error> StagedPieces::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

Result<io::MemorySlice> StagedPieces::wait(size_t index) {
  std::unique_lock lock(mutex_);
  came_.wait(lock, [&] { return failure_ || pieces_[index]; });
  if (failure_) return *failure_;
  return pieces_[index].slice();
}

void StagedPieces::written(size_t index) {
  if (keep_) return;
  std::lock_guard lock(mutex_);
  pieces_[index] = {};
}

void StagedPieces::drop() {
  std::lock_guard lock(mutex_);
  for (io::Buffer& piece : pieces_) piece = {};
}

}  // namespace penstock::checkpoint
