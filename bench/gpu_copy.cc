// How fast the GPU takes memory from the buffer provider: pinned, and plain. Prints JSON; needs a CUDA driver and device.
#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "penstock/buffer.h"

namespace {

using namespace penstock;

constexpr size_t kBytes = 256 * kMiB;
constexpr int kRounds = 9;

// The few calls of the driver that a copy takes (cuda.h).
struct Driver {
  using Status = int;
  Status (*init)(unsigned) = nullptr;
  Status (*retain)(void**, int) = nullptr;
  Status (*set_current)(void*) = nullptr;
  Status (*allocate)(uint64_t*, size_t) = nullptr;
  Status (*to_device)(uint64_t, const void*, size_t) = nullptr;
  Status (*to_host)(void*, uint64_t, size_t) = nullptr;
};

Result<Driver> load() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return make_error(ErrorCode::kUnsupported, "libcuda.so.1 is not there");
  Driver driver;
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(library, name));
    return function != nullptr;
  };
  const bool found =
      find("cuInit", driver.init) && find("cuDevicePrimaryCtxRetain", driver.retain) &&
      find("cuCtxSetCurrent", driver.set_current) && find("cuMemAlloc_v2", driver.allocate) &&
      find("cuMemcpyHtoD_v2", driver.to_device) && find("cuMemcpyDtoH_v2", driver.to_host);
  void* context = nullptr;
  if (!found || driver.init(0) != 0 || driver.retain(&context, 0) != 0 ||
      driver.set_current(context) != 0) {
    return make_error(ErrorCode::kUnsupported, "the CUDA driver does not start");
  }
  return driver;
}

// The median rate of a copy, in GB/s.
template <typename Copy>
double rate(Copy copy) {
  std::vector<double> rates;
  for (int i = 0; i < kRounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (copy() != 0) return 0;
    const auto taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - start);
    rates.push_back(static_cast<double>(kBytes) / taken.count() / 1e9);
  }
  std::nth_element(rates.begin(), rates.begin() + kRounds / 2, rates.end());
  return rates[kRounds / 2];
}

Result<void> measure(const Driver& driver, io::PinPolicy policy, uint64_t device) {
  const auto provider = PENSTOCK_TRY(io::BufferProvider::create({.pin = policy}));
  const io::Buffer buffer = PENSTOCK_TRY(provider->take(kBytes));
  std::memset(buffer.data(), 1, buffer.size());
  const double in = rate([&] { return driver.to_device(device, buffer.data(), kBytes); });
  const double out = rate([&] { return driver.to_host(buffer.data(), device, kBytes); });
  fmt::print("{{\"pinned\": {}, \"to_device_gb_s\": {:.1f}, \"to_host_gb_s\": {:.1f}}}\n",
             buffer.pinned(), in, out);
  return {};
}

Result<void> run() {
  const Driver driver = PENSTOCK_TRY(load());
  uint64_t device = 0;
  if (driver.allocate(&device, kBytes) != 0)
    return make_error(ErrorCode::kNoMemory, "no memory on the device");
  PENSTOCK_TRY(measure(driver, io::PinPolicy::kAlways, device));
  return measure(driver, io::PinPolicy::kNever, device);
}

}  // namespace

int main() {
  const Result<void> ran = run();
  if (!ran.ok()) fmt::print(stderr, "gpu_copy: {}\n", ran.error().to_string());
  return ran.ok() ? 0 : 1;
}
