#pragma once

#include <span>
#include <string>

#include "penstock/result.h"

namespace penstock::io {

// The CUDA driver, found at run time: one build runs with and without a GPU. Only what pinning
// memory takes. Threads: any. Lives until the process ends: the driver cannot be unloaded safely.
class CudaDriver {
 public:
  // The driver with at least one device, or kUnsupported with the reason. Asked once per process.
  static Result<CudaDriver*> get();

  // Page-locks memory, which must be page-aligned, for fast and asynchronous copies by any device.
  Result<void> pin(std::span<std::byte> memory);
  void unpin(std::span<std::byte> memory);

  int device_count() const { return device_count_; }

 private:
  CudaDriver() = default;
  static Result<CudaDriver*> load();
  std::string error_text(int code) const;
  // A context must be current on the calling thread for the calls above.
  Result<void> enter();

  using Status = int;
  Status (*init_)(unsigned) = nullptr;
  Status (*device_get_count_)(int*) = nullptr;
  Status (*device_get_)(int*, int) = nullptr;
  Status (*primary_context_retain_)(void**, int) = nullptr;
  Status (*context_set_current_)(void*) = nullptr;
  Status (*context_get_current_)(void**) = nullptr;
  Status (*mem_host_register_)(void*, size_t, unsigned) = nullptr;
  Status (*mem_host_unregister_)(void*) = nullptr;
  Status (*get_error_string_)(Status, const char**) = nullptr;
  void* context_ = nullptr;
  int device_count_ = 0;
};

}  // namespace penstock::io
