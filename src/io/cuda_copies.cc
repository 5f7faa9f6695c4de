#include "io/cuda_copies.h"

namespace penstock::io {

Result<std::unique_ptr<CudaCopies>> CudaCopies::create() {
  CudaDriver* const driver = PENSTOCK_TRY(CudaDriver::get());
  return std::unique_ptr<CudaCopies>(new CudaCopies(*driver));
}

CudaCopies::~CudaCopies() {
  for (const auto& [device, stream] : streams_) driver_.destroy(stream);
}

Result<void> CudaCopies::to_host(int device, const std::byte* data, std::span<std::byte> into) {
  auto found = streams_.find(device);
  if (found == streams_.end()) {
    const CudaDriver::Stream stream = PENSTOCK_TRY(driver_.make_stream(device));
    found = streams_.emplace(device, stream).first;
  }
  return driver_.copy_to_host(found->second, data, into);
}

Result<void> CudaCopies::wait() {
  for (const auto& [device, stream] : streams_) PENSTOCK_TRY(driver_.wait(stream));
  return {};
}

}  // namespace penstock::io
