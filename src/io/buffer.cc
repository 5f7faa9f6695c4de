// Invariants of the provider, under its mutex:
//   held = sum of the slabs' sizes <= budget.
//   A slab of a small class is in `partial_[class]` exactly when it has a free slot.
//   Small sizes (up to 1 MiB, powers of two) are slots of 2 MiB slabs of one class. Larger ones are
//   slabs of one slot, kept for reuse in `spare_` when free. Waiters are served strictly in order:
//   nobody takes memory while an earlier one waits.
#include "penstock/buffer.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <condition_variable>
#include <list>
#include <mutex>
#include <vector>

#include "io/cuda_driver.h"

namespace penstock::io {

namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kSmallBytesMax = kMiB;
constexpr size_t kSmallSlabBytes = 2 * kMiB;
constexpr size_t kClasses = 9;  // 4 KiB, 8 KiB, ... 1 MiB.

struct Slab {
  std::byte* data = nullptr;
  size_t bytes = 0;
  size_t slot_bytes = 0;
  uint32_t region = 0;
  bool pinned = false;
  std::vector<uint32_t> free_slots;
  size_t used_slots = 0;
  bool empty() const { return used_slots == 0; }
};

size_t round_size(size_t size) {
  if (size <= kSmallBytesMax) return std::max(kPageBytes, std::bit_ceil(size));
  return (size + kPageBytes - 1) / kPageBytes * kPageBytes;
}

bool is_small(size_t rounded) {
  return rounded <= kSmallBytesMax;
}

size_t class_of(size_t rounded) {
  return static_cast<size_t>(std::countr_zero(rounded)) - 12;
}

class SlabProvider final : public BufferProvider {
 public:
  SlabProvider(const BufferOptions& options, CudaDriver* cuda) : options_(options), cuda_(cuda) {}

  ~SlabProvider() override {
    // Every buffer keeps its provider alive: by now all slabs are empty.
    for (auto& slabs : partial_) {
      for (Slab* slab : slabs) release(slab);
    }
    for (Slab* slab : spare_) release(slab);
  }

  Result<Buffer> take(size_t size, Deadline deadline, std::stop_token stop) override;
  Result<Buffer> try_take(size_t size) override;
  BufferStats stats() const override;

 protected:
  void give_back(Buffer& buffer) override;

 private:
  using Lock = std::unique_lock<std::mutex>;

  Result<void> check(size_t size) const;
  // A slot of `rounded` bytes, or null when the budget has no room for it now; an error when the
  // system refuses.
  Result<Slab*> find_slab(Lock& held, size_t rounded);
  Result<Slab*> new_slab(Lock& held, size_t bytes, size_t slot_bytes);
  bool make_room(Lock& held, size_t bytes);
  Buffer cut(Lock& held, Slab* slab, size_t size);
  void release(Slab* slab);

  const BufferOptions options_;
  CudaDriver* const cuda_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::array<std::vector<Slab*>, kClasses> partial_;
  std::vector<Slab*> spare_;
  std::list<const void*> waiting_;  // Tickets, first come first.
  uint64_t held_bytes_ = 0;
  uint64_t peak_bytes_ = 0;
  uint64_t in_use_bytes_ = 0;
};

Result<void> SlabProvider::check(size_t size) const {
  if (size == 0) return make_error(ErrorCode::kInvalid, "a buffer of 0 bytes was asked for");
  const size_t rounded = round_size(size);
  const size_t needed = is_small(rounded) ? kSmallSlabBytes : rounded;
  if (needed <= options_.budget_bytes) return {};
  return make_error(ErrorCode::kInvalid,
                    fmt::format("a buffer of {} can never fit the memory budget of {}",
                                format_size(size), format_size(options_.budget_bytes)));
}

Result<Slab*> SlabProvider::find_slab(Lock& held, size_t rounded) {
  if (is_small(rounded)) {
    auto& slabs = partial_[class_of(rounded)];
    if (!slabs.empty()) return slabs.back();
    if (!make_room(held, kSmallSlabBytes)) return static_cast<Slab*>(nullptr);
    Slab* slab = PENSTOCK_TRY(new_slab(held, kSmallSlabBytes, rounded));
    slabs.push_back(slab);
    return slab;
  }
  const auto same = std::find_if(spare_.begin(), spare_.end(),
                                 [&](Slab* slab) { return slab->bytes == rounded; });
  if (same != spare_.end()) {
    Slab* slab = *same;
    spare_.erase(same);
    return slab;
  }
  if (!make_room(held, rounded)) return static_cast<Slab*>(nullptr);
  return new_slab(held, rounded, rounded);
}

// Gives unused slabs back to the system until `bytes` more fit. False when even that is not enough;
// then nothing changes.
bool SlabProvider::make_room(Lock&, size_t bytes) {
  uint64_t unused = 0;
  for (const Slab* slab : spare_) unused += slab->bytes;
  for (const auto& slabs : partial_) {
    for (const Slab* slab : slabs) unused += slab->empty() ? slab->bytes : 0;
  }
  if (held_bytes_ - unused + bytes > options_.budget_bytes) return false;
  const auto fits = [&] { return held_bytes_ + bytes <= options_.budget_bytes; };
  const auto drop = [&](std::vector<Slab*>& slabs) {
    for (auto it = slabs.begin(); it != slabs.end() && !fits();) {
      if (!(*it)->empty()) {
        ++it;
        continue;
      }
      release(*it);
      it = slabs.erase(it);
    }
  };
  drop(spare_);
  for (auto& slabs : partial_) drop(slabs);
  return true;
}

Result<Slab*> SlabProvider::new_slab(Lock&, size_t bytes, size_t slot_bytes) {
  // MAP_POPULATE: the page faults happen here, once, and not in the middle of a timed read.
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED)
    return errno_error(errno, fmt::format("mmap {} for a buffer", format_size(bytes)));
  auto slab = std::make_unique<Slab>();
  slab->data = static_cast<std::byte*>(memory);
  slab->bytes = bytes;
  slab->slot_bytes = slot_bytes;
  for (size_t i = bytes / slot_bytes; i > 0; --i)
    slab->free_slots.push_back(static_cast<uint32_t>(i - 1));
  const std::span<std::byte> all(slab->data, bytes);
  if (cuda_ != nullptr) {
    if (Result<void> pinned = cuda_->pin(all); !pinned.ok()) {
      ::munmap(memory, bytes);
      return std::move(pinned).error();
    }
    slab->pinned = true;
  }
  if (options_.registrar != nullptr) slab->region = options_.registrar->add_region(all);
  held_bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, held_bytes_);
  return slab.release();
}

void SlabProvider::release(Slab* slab) {
  const std::unique_ptr<Slab> owned(slab);
  if (slab->region != 0) options_.registrar->remove_region(slab->region);
  if (slab->pinned) cuda_->unpin({slab->data, slab->bytes});
  ::munmap(slab->data, slab->bytes);
  held_bytes_ -= slab->bytes;
}

Buffer SlabProvider::cut(Lock&, Slab* slab, size_t size) {
  const uint32_t slot = slab->free_slots.back();
  slab->free_slots.pop_back();
  ++slab->used_slots;
  in_use_bytes_ += slab->slot_bytes;
  if (is_small(slab->slot_bytes) && slab->free_slots.empty())
    std::erase(partial_[class_of(slab->slot_bytes)], slab);
  return make_buffer(shared_from_this(), slab->data + size_t{slot} * slab->slot_bytes, size,
                     slab->region, slab->pinned, slab);
}

Result<Buffer> SlabProvider::try_take(size_t size) {
  PENSTOCK_TRY(check(size));
  Lock lock(mutex_);
  Slab* slab = waiting_.empty() ? PENSTOCK_TRY(find_slab(lock, round_size(size))) : nullptr;
  if (slab != nullptr) return cut(lock, slab, size);
  return make_error(
      ErrorCode::kBusy,
      fmt::format("the memory budget of {} is in use", format_size(options_.budget_bytes)), true);
}

Result<Buffer> SlabProvider::take(size_t size, Deadline deadline, std::stop_token stop) {
  PENSTOCK_TRY(check(size));
  Lock lock(mutex_);
  const auto ticket = waiting_.insert(waiting_.end(), &lock);
  Result<Slab*> found = static_cast<Slab*>(nullptr);
  const auto ready = [&] {
    if (waiting_.begin() != ticket) return false;
    found = find_slab(lock, round_size(size));
    return !found.ok() || *found != nullptr;
  };
  bool got = false;
  if (deadline == kNoDeadline) {
    got = changed_.wait(lock, stop, ready);
  } else {
    got = changed_.wait_until(lock, stop, deadline, ready);
  }
  waiting_.erase(ticket);
  changed_.notify_all();  // The next in line may find room in what is left.
  if (got && !found.ok()) return std::move(found).error();
  if (got) return cut(lock, *found, size);
  if (stop.stop_requested())
    return make_error(ErrorCode::kCancelled, "stopped while waiting for memory");
  return make_error(
      ErrorCode::kTimeout,
      fmt::format("no {} came free within the memory budget of {} before the deadline",
                  format_size(size), format_size(options_.budget_bytes)),
      true);
}

void SlabProvider::give_back(Buffer& buffer) {
  Lock lock(mutex_);
  auto* slab = static_cast<Slab*>(slab_of(buffer));
  const bool was_full = slab->free_slots.empty();
  slab->free_slots.push_back(
      static_cast<uint32_t>(static_cast<size_t>(buffer.data() - slab->data) / slab->slot_bytes));
  --slab->used_slots;
  in_use_bytes_ -= slab->slot_bytes;
  if (!is_small(slab->slot_bytes)) {
    spare_.push_back(slab);
  } else if (was_full) {
    partial_[class_of(slab->slot_bytes)].push_back(slab);
  }
  if (!waiting_.empty()) changed_.notify_all();
}

BufferStats SlabProvider::stats() const {
  std::lock_guard lock(mutex_);
  return {.budget_bytes = options_.budget_bytes,
          .in_use_bytes = in_use_bytes_,
          .held_bytes = held_bytes_,
          .peak_held_bytes = peak_bytes_,
          .registered = options_.registrar != nullptr,
          .pinned = cuda_ != nullptr};
}

}  // namespace

Buffer::Buffer(Buffer&& other) noexcept {
  *this = std::move(other);
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  if (provider_ != nullptr) provider_->give_back(*this);
  provider_ = std::move(other.provider_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  region_ = std::exchange(other.region_, 0);
  pinned_ = std::exchange(other.pinned_, false);
  slab_ = std::exchange(other.slab_, nullptr);
  return *this;
}

Buffer::~Buffer() {
  if (provider_ != nullptr) provider_->give_back(*this);
}

MemorySlice Buffer::slice(size_t offset, size_t length) const {
  assert(offset <= size_ && length <= size_ - offset);
  return {data_ + offset, length, region_};
}

Buffer BufferProvider::make_buffer(std::shared_ptr<BufferProvider> owner, std::byte* data,
                                   size_t size, uint32_t region, bool pinned, void* slab) {
  Buffer buffer;
  buffer.provider_ = std::move(owner);
  buffer.data_ = data;
  buffer.size_ = size;
  buffer.region_ = region;
  buffer.pinned_ = pinned;
  buffer.slab_ = slab;
  return buffer;
}

Result<std::shared_ptr<BufferProvider>> BufferProvider::create(const BufferOptions& options) {
  if (options.budget_bytes < kSmallSlabBytes) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("a memory budget of {} is too small: expected at least {}",
                                  format_size(options.budget_bytes), format_size(kSmallSlabBytes)));
  }
  CudaDriver* cuda = nullptr;
  if (options.pin != PinPolicy::kNever) {
    const Result<CudaDriver*> driver = CudaDriver::get();
    if (!driver.ok() && options.pin == PinPolicy::kAlways) return driver.error();
    if (driver.ok()) cuda = *driver;
  }
  return std::shared_ptr<BufferProvider>(std::make_shared<SlabProvider>(options, cuda));
}

}  // namespace penstock::io
