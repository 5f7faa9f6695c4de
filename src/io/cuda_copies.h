// Copies from the memory of CUDA devices.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>

#include "io/cuda_driver.h"
#include "penstock/result.h"

namespace penstock::io {

// Threads: one, the same for all calls.
class CudaCopies {
 public:
  // kUnsupported where there is no device.
  static Result<std::unique_ptr<CudaCopies>> create();
  ~CudaCopies();
  CudaCopies(const CudaCopies&) = delete;
  CudaCopies& operator=(const CudaCopies&) = delete;

  // Starts one. `data` is in the memory of that device, and nothing writes to it any more. Fast where
  // `into` is pinned.
  Result<void> to_host(int device, const std::byte* data, std::span<std::byte> into);
  // Until all that were started are done.
  Result<void> wait();

 private:
  explicit CudaCopies(CudaDriver& driver) : driver_(driver) {}

  CudaDriver& driver_;
  std::map<int, CudaDriver::Stream> streams_;
};

}  // namespace penstock::io
