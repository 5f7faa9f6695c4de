// Memory that ends where a page without access begins. The compressors are libraries that
// AddressSanitizer did not instrument; here a step too far crashes all the same. For tests and
// fuzzing.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <span>

namespace penstock::codec {

class GuardedMemory {
 public:
  explicit GuardedMemory(size_t capacity) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    usable_ = (capacity + page - 1) / page * page;
    mapped_ = usable_ + page;
    void* memory =
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    begin_ = static_cast<std::byte*>(memory);
    if (mprotect(begin_ + usable_, page, PROT_NONE) != 0) std::abort();
  }
  ~GuardedMemory() { munmap(begin_, mapped_); }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  // The last `size` bytes before the guard; the same memory in every call.
  std::span<std::byte> tail(size_t size) {
    if (size > usable_) std::abort();
    return {begin_ + usable_ - size, size};
  }

  // A copy of `bytes` that ends at the guard.
  std::span<const std::byte> hold(std::span<const std::byte> bytes) {
    std::ranges::copy(bytes, tail(bytes.size()).begin());
    return tail(bytes.size());
  }

 private:
  std::byte* begin_ = nullptr;
  size_t usable_ = 0;
  size_t mapped_ = 0;
};

}  // namespace penstock::codec
