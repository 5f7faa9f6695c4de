// Memory for I/O. Loader batches, checkpoint staging, caches and transfers take memory from here
// only, so that one byte budget is the ceiling, and so that the same memory can be registered with
// io_uring and pinned for the GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "penstock/io.h"
#include "penstock/result.h"
#include "penstock/units.h"

namespace penstock::io {

// Somebody who wants to know of memory before it is used for I/O.
// Threads: any.
class MemoryRegistrar {
 public:
  virtual ~MemoryRegistrar() = default;
  // An id above 0 for MemorySlice::region, or 0 when there is no room for more (the memory works
  // all the same).
  virtual uint32_t add_region(std::span<std::byte> memory) = 0;
  // With an id that add_region gave, after the last request that uses the region completed.
  virtual void remove_region(uint32_t region) = 0;
};

enum class PinPolicy : uint8_t {
  kNever,
  kIfGpu,   // Pinned for the GPU where a CUDA driver and device are found, plain memory otherwise.
  kAlways,  // kUnsupported where there is none.
};

struct BufferOptions {
  // The ceiling on all memory held, in use or kept for reuse. At least 2 MiB.
  uint64_t budget_bytes = kGiB;
  MemoryRegistrar* registrar = nullptr;  // Outlives the provider. Null: not registered.
  PinPolicy pin = PinPolicy::kNever;
};

class BufferProvider;

// Page-aligned memory that goes back to its provider when destroyed. Contents are unspecified:
// memory is reused. Move-only. Keeps its provider alive.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  std::span<std::byte> bytes() const { return {data_, size_}; }
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }  // As asked for.
  bool pinned() const { return pinned_; }
  explicit operator bool() const { return data_ != nullptr; }

  // A part of it for a transfer. Requires offset + length <= size().
  MemorySlice slice(size_t offset, size_t length) const;
  MemorySlice slice() const { return slice(0, size_); }

 private:
  friend class BufferProvider;
  std::shared_ptr<BufferProvider> provider_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  uint32_t region_ = 0;
  bool pinned_ = false;
  void* slab_ = nullptr;
};

struct BufferStats {
  uint64_t budget_bytes = 0;
  uint64_t in_use_bytes = 0;  // Handed out, rounded up as they are held.
  // From the operating system, in use or kept for reuse. Never above the budget.
  uint64_t held_bytes = 0;
  uint64_t peak_held_bytes = 0;
  bool registered = false;  // A registrar was given; it may still have had no room for some.
  bool pinned = false;
};

// Threads: all calls from any thread. Stays alive while any of its buffers does.
// Sizes are rounded up: to powers of two from 4 KiB to 1 MiB, which share slabs of 2 MiB, and to
// whole pages above. A slab is free for other sizes once all its buffers are. Freed memory is kept
// for reuse and given back to the operating system when another size needs the budget.
// A thread that holds buffers and waits for more can wait for ever: take what a step of work needs
// at once, or give back first.
class BufferProvider : public std::enable_shared_from_this<BufferProvider> {
 public:
  static Result<std::shared_ptr<BufferProvider>> create(const BufferOptions& options);
  virtual ~BufferProvider() = default;

  // Waits while the budget has no room for it. kInvalid when `size` is 0 or can never fit, kTimeout
  // at the deadline, kCancelled on stop. Waiters are served in order, so that a large request is
  // not starved by small ones. Deadline and stop matter only to who has to wait.
  virtual Result<Buffer> take(size_t size, Deadline deadline = kNoDeadline,
                              std::stop_token stop = {}) = 0;
  // kBusy where take() would wait.
  virtual Result<Buffer> try_take(size_t size) = 0;

  virtual BufferStats stats() const = 0;

 protected:
  friend class Buffer;
  static Buffer make_buffer(std::shared_ptr<BufferProvider> owner, std::byte* data, size_t size,
                            uint32_t region, bool pinned, void* slab);
  static void* slab_of(const Buffer& buffer) { return buffer.slab_; }
  virtual void give_back(Buffer& buffer) = 0;
};

// Memory that somebody else made and that is about to be read into: where nothing was written yet, pages
// come huge if the system has such, and a device transfers them in few pieces. A wish; nothing fails.
void prefer_huge_pages(std::span<std::byte> memory);

}  // namespace penstock::io
