// Brings the bytes of a piece together from the tensors it is made of.
#pragma once

#include <memory>
#include <span>

#include "checkpoint/plan.h"
#include "io/cuda_copies.h"
#include "penstock/result.h"

namespace penstock::checkpoint {

// Threads: one, the same for all calls.
class PieceCopier {
 public:
  // Into memory as large as the piece, or larger: zeros after it. What comes from a device is there
  // after wait().
  Result<void> copy(const FilePlan& file, const Piece& piece, std::span<std::byte> into);
  Result<void> wait();

 private:
  std::unique_ptr<io::CudaCopies> from_devices_;  // Once there is something to copy from one.
};

}  // namespace penstock::checkpoint
