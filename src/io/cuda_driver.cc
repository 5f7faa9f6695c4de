#include "io/cuda_driver.h"

#include <dlfcn.h>
#include <fmt/core.h>

namespace penstock::io {

namespace {

// Values of the driver's ABI (cuda.h), which is stable.
constexpr int kCudaSuccess = 0;
constexpr unsigned kHostRegisterPortable = 0x01;
constexpr unsigned kStreamNonBlocking = 0x01;  // Does not wait for the default stream.

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
                     find(library, "cuStreamCreate", driver->stream_create_) &&
                     find(library, "cuStreamDestroy_v2", driver->stream_destroy_) &&
                     find(library, "cuStreamSynchronize", driver->stream_synchronize_) &&
                     find(library, "cuMemcpyDtoHAsync_v2", driver->copy_to_host_) &&
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

Result<void> CudaDriver::checked(int status, const char* call) const {
  if (status == kCudaSuccess) return {};
  return make_error(ErrorCode::kIo, fmt::format("{}: {}", call, error_text(status)));
}

Result<CudaDriver::Stream> CudaDriver::make_stream(int device) {
  Stream stream;
  int number = 0;
  PENSTOCK_TRY(checked(device_get_(&number, device), "cuDeviceGet"));
  // Kept for good: whoever has tensors there has it too.
  PENSTOCK_TRY(
      checked(primary_context_retain_(&stream.context, number), "cuDevicePrimaryCtxRetain"));
  PENSTOCK_TRY(checked(context_set_current_(stream.context), "cuCtxSetCurrent"));
  PENSTOCK_TRY(checked(stream_create_(&stream.handle, kStreamNonBlocking), "cuStreamCreate"));
  return stream;
}

void CudaDriver::destroy(const Stream& stream) {
  (void)context_set_current_(stream.context);
  (void)stream_destroy_(stream.handle);
}

Result<void> CudaDriver::copy_to_host(const Stream& stream, const std::byte* data,
                                      std::span<std::byte> into) {
  PENSTOCK_TRY(checked(context_set_current_(stream.context), "cuCtxSetCurrent"));
  const auto address = reinterpret_cast<unsigned long long>(data);
  return checked(copy_to_host_(into.data(), address, into.size(), stream.handle),
                 "cuMemcpyDtoHAsync");
}

Result<void> CudaDriver::wait(const Stream& stream) {
  PENSTOCK_TRY(checked(context_set_current_(stream.context), "cuCtxSetCurrent"));
  return checked(stream_synchronize_(stream.handle), "cuStreamSynchronize");
}

}  // namespace penstock::io
