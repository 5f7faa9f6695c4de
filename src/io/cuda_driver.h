#pragma once

#include <span>
#include <string>

#include "penstock/result.h"

namespace penstock::io {

// The CUDA driver, found at run time: one build runs with and without a GPU. Only what pinning
// memory and copying to it takes.
// Threads: any. Lives until the process ends: the driver cannot be unloaded safely.
class CudaDriver {
 public:
  // The driver with at least one device, or kUnsupported with the reason. Asked once per process.
  static Result<CudaDriver*> get();

  // Page-locks memory, which must be page-aligned, for fast and asynchronous copies by any device.
  Result<void> pin(std::span<std::byte> memory);
  void unpin(std::span<std::byte> memory);

  int device_count() const { return device_count_; }

  // An order of copies on one device, beside those of others.
  struct Stream {
    void* context = nullptr;
    void* handle = nullptr;
  };
  Result<Stream> make_stream(int device);
  void destroy(const Stream& stream);
  Result<void> copy_to_host(const Stream& stream, const std::byte* data, std::span<std::byte> into);
  Result<void> wait(const Stream& stream);

 private:
  CudaDriver() = default;
  static Result<CudaDriver*> load();
  std::string error_text(int code) const;
  Result<void> checked(int status, const char* call) const;
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
  Status (*stream_create_)(void**, unsigned) = nullptr;
  Status (*stream_destroy_)(void*) = nullptr;
  Status (*stream_synchronize_)(void*) = nullptr;
  Status (*copy_to_host_)(void*, unsigned long long, size_t, void*) = nullptr;
  Status (*get_error_string_)(Status, const char**) = nullptr;
  void* context_ = nullptr;
  int device_count_ = 0;
};

}  // namespace penstock::io
