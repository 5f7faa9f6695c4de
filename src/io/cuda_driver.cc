#include "io/cuda_driver.h"

#include <dlfcn.h>
#include <fmt/core.h>

namespace penstock::io {

namespace {

// Values of the driver's ABI (cuda.h), which is stable.
constexpr int kCudaSuccess = 0;
constexpr unsigned kHostRegisterPortable = 0x01;

Error unsupported(std::string why) {
  return make_error(ErrorCode::kUnsupported, "no CUDA driver: " + std::move(why));
}

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

Result<CudaDriver*> CudaDriver::get() {
  static const Result<CudaDriver*> driver = load();
  return driver;
}

Result<CudaDriver*> CudaDriver::load() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return unsupported("libcuda.so.1 is not there");
  auto* driver = new CudaDriver;  // Never freed: see the header.
  const bool found = find(library, "cuInit", driver->init_) &&
                     find(library, "cuDeviceGetCount", driver->device_get_count_) &&
                     find(library, "cuDeviceGet", driver->device_get_) &&
                     find(library, "cuDevicePrimaryCtxRetain", driver->primary_context_retain_) &&
                     find(library, "cuCtxSetCurrent", driver->context_set_current_) &&
                     find(library, "cuCtxGetCurrent", driver->context_get_current_) &&
                     find(library, "cuMemHostRegister_v2", driver->mem_host_register_) &&
                     find(library, "cuMemHostUnregister", driver->mem_host_unregister_) &&
                     find(library, "cuGetErrorString", driver->get_error_string_);
  if (!found) return unsupported("libcuda.so.1 lacks a function we need");
  if (const Status status = driver->init_(0); status != kCudaSuccess)
    return unsupported(driver->error_text(status));
  if (driver->device_get_count_(&driver->device_count_) != kCudaSuccess ||
      driver->device_count_ == 0) {
    return unsupported("it sees no device");
  }
  int device = 0;
  Status status = driver->device_get_(&device, 0);
  if (status == kCudaSuccess) status = driver->primary_context_retain_(&driver->context_, device);
  if (status != kCudaSuccess) return unsupported(driver->error_text(status));
  return driver;
}

std::string CudaDriver::error_text(int code) const {
  const char* text = nullptr;
  if (get_error_string_(code, &text) != kCudaSuccess || text == nullptr)
    return fmt::format("CUDA error {}", code);
  return fmt::format("{} (CUDA error {})", text, code);
}

Result<void> CudaDriver::enter() {
  void* current = nullptr;
  if (context_get_current_(&current) == kCudaSuccess && current != nullptr) return {};
  const Status status = context_set_current_(context_);
  if (status != kCudaSuccess)
    return make_error(ErrorCode::kIo, "cuCtxSetCurrent: " + error_text(status));
  return {};
}

Result<void> CudaDriver::pin(std::span<std::byte> memory) {
  PENSTOCK_TRY(enter());
  const Status status = mem_host_register_(memory.data(), memory.size(), kHostRegisterPortable);
  if (status == kCudaSuccess) return {};
  return make_error(ErrorCode::kNoMemory, fmt::format("cuMemHostRegister of {} bytes: {}",
                                                      memory.size(), error_text(status)));
}

void CudaDriver::unpin(std::span<std::byte> memory) {
  if (enter().ok()) mem_host_unregister_(memory.data());
}

}  // namespace penstock::io
