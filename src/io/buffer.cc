// Invariants of the provider, under its mutex:
//   held = sum of the sizes of slabs, those being made included, <= budget.
//   Small buffers (up to 1 MiB, powers of two) are blocks of shared slabs of 2 MiB, all sizes mixed.
//   Larger ones are slabs of their own, kept for reuse in `spare_` when free.
//   Waiters are served strictly in order: nobody takes memory while an earlier one waits.
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
constexpr size_t kHugePageBytes = 2 * kMiB;
constexpr size_t kSmallBytesMax = kMiB;
constexpr size_t kSmallSlabBytes = 2 * kMiB;
constexpr int kSlabOrder = 9;  // A slab is 2^9 pages.

// What is free in a slab: a binary tree whose leaves are pages. Each node says how large the largest
// free block below it is, as 1 + its order (a block of order n is 2^n pages), or 0 for none.
class BuddyTree {
 public:
  BuddyTree() {
    for (size_t node = 1; node < nodes_.size(); ++node) nodes_[node] = full(order_of(node));
  }

  bool fits(int order) const { return nodes_[1] >= full(order); }

  // The first page of a block. Requires fits(order).
  size_t allocate(int order) {
    size_t node = 1;
    for (int at = kSlabOrder; at > order; --at) {
      const uint8_t left = nodes_[2 * node];
      const uint8_t right = nodes_[2 * node + 1];
      // The tighter of the two, so that large blocks stay whole.
      const bool go_left = left >= full(order) && (right < full(order) || left <= right);
      node = 2 * node + (go_left ? 0 : 1);
    }
    nodes_[node] = 0;
    update_above(node);
    return (node << order) - kPages;
  }

  void release(size_t page, int order) {
    const size_t node = (page + kPages) >> order;
    nodes_[node] = full(order);
    update_above(node);
  }

 private:
  static constexpr size_t kPages = size_t{1} << kSlabOrder;
  static uint8_t full(int order) { return static_cast<uint8_t>(order + 1); }
  static int order_of(size_t node) {
    return kSlabOrder - (static_cast<int>(std::bit_width(node)) - 1);
  }

  void update_above(size_t node) {
    while (node > 1) {
      node /= 2;
      const uint8_t left = nodes_[2 * node];
      const uint8_t right = nodes_[2 * node + 1];
      const uint8_t half = full(order_of(node) - 1);
      nodes_[node] = left == half && right == half ? full(order_of(node)) : std::max(left, right);
    }
  }

  std::array<uint8_t, 2 * kPages> nodes_{};
};

struct Slab {
  std::byte* data = nullptr;
  size_t bytes = 0;
  uint32_t region = 0;
  bool pinned = false;
  bool shared = false;  // Among small buffers.
  BuddyTree blocks;
  size_t used_bytes = 0;
  bool empty() const { return used_bytes == 0; }
};

// A shared slab that somebody is clearing, and how much of it nobody counts on yet.
struct SlabToBe {
  size_t left_bytes = 0;
  bool done = false;
};

size_t round_size(size_t size) {
  if (size <= kSmallBytesMax) return std::max(kPageBytes, std::bit_ceil(size));
  // Drives take one huge page in one piece, and as many small ones in pieces: up to three times slower.
  if (size < kHugePageBytes) return kHugePageBytes;
  return (size + kPageBytes - 1) / kPageBytes * kPageBytes;
}

bool is_small(size_t rounded) {
  return rounded <= kSmallBytesMax;
}

int order_of_size(size_t rounded) {
  return std::countr_zero(rounded / kPageBytes);
}

class SlabProvider final : public BufferProvider {
 public:
  SlabProvider(const BufferOptions& options, CudaDriver* cuda) : options_(options), cuda_(cuda) {}

  ~SlabProvider() override {
    // Every buffer keeps its provider alive: by now all slabs are empty.
    for (Slab* slab : shared_) release(slab);
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
  // A slab with room for `rounded` bytes, or null when the budget has no room for it now; an error when the
  // system refuses.
  Result<Slab*> find_slab(Lock& held, size_t rounded);
  Result<Slab*> find_shared(Lock& held, size_t rounded);
  // One that is there already, or null.
  Slab* shared_with_room(Lock& held, size_t rounded) const;
  // Waits for one that somebody else makes; false when none has room to spare.
  bool wait_for_shared(Lock& held, size_t rounded);
  Result<Slab*> make_shared_slab(Lock& held, size_t rounded);
  Result<Slab*> new_slab(Lock& held, size_t bytes);
  Result<std::unique_ptr<Slab>> make_slab(size_t bytes) const;
  bool make_room(Lock& held, size_t bytes);
  Buffer cut(Lock& held, Slab* slab, size_t size);
  void release(Slab* slab);

  const BufferOptions options_;
  CudaDriver* const cuda_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Slab*> shared_;
  std::vector<std::shared_ptr<SlabToBe>> shared_to_be_;
  std::condition_variable shared_made_;
  std::vector<Slab*> spare_;
  std::list<const void*> waiting_;  // Tickets, first come first.
  uint64_t held_bytes_ = 0;
  uint64_t peak_bytes_ = 0;
  uint64_t in_use_bytes_ = 0;
};

Result<void> SlabProvider::check(size_t size) const {
  if (size == 0) return make_error(ErrorCode::kInvalid, "a buffer of 0 bytes was asked for");
  // The size first: rounding one near the end of the address space up would wrap around.
  if (size <= options_.budget_bytes && round_size(size) <= options_.budget_bytes) return {};
  return make_error(ErrorCode::kInvalid,
                    fmt::format("a buffer of {} can never fit the memory budget of {}",
                                format_size(size), format_size(options_.budget_bytes)));
}

Result<Slab*> SlabProvider::find_slab(Lock& held, size_t rounded) {
  if (is_small(rounded)) return find_shared(held, rounded);
  // The one that was used last: more of it may still be in the processor's cache.
  const auto same = std::find_if(spare_.rbegin(), spare_.rend(),
                                 [&](Slab* slab) { return slab->bytes == rounded; });
  if (same != spare_.rend()) {
    Slab* slab = *same;
    spare_.erase(std::next(same).base());
    return slab;
  }
  if (!make_room(held, rounded)) return static_cast<Slab*>(nullptr);
  return new_slab(held, rounded);
}

Result<Slab*> SlabProvider::find_shared(Lock& held, size_t rounded) {
  while (true) {
    if (Slab* slab = shared_with_room(held, rounded)) return slab;
    if (!wait_for_shared(held, rounded)) return make_shared_slab(held, rounded);
  }
}

// A slab in use rather than an empty one, which can be given up for other sizes.
Slab* SlabProvider::shared_with_room(Lock&, size_t rounded) const {
  Slab* unused = nullptr;
  for (Slab* slab : shared_) {
    if (!slab->blocks.fits(order_of_size(rounded))) continue;
    if (!slab->empty()) return slab;
    unused = slab;
  }
  return unused;
}

// Were every thread that comes meanwhile to make one of its own, a few of them would fill the budget with
// slabs of which they use little, and the next be told that there is no memory.
bool SlabProvider::wait_for_shared(Lock& held, size_t rounded) {
  const auto found = std::ranges::find_if(
      shared_to_be_, [&](const auto& to_be) { return to_be->left_bytes >= rounded; });
  if (found == shared_to_be_.end()) return false;
  const std::shared_ptr<SlabToBe> to_be = *found;
  to_be->left_bytes -= rounded;
  shared_made_.wait(held, [&] { return to_be->done; });
  return true;
}

Result<Slab*> SlabProvider::make_shared_slab(Lock& held, size_t rounded) {
  if (!make_room(held, kSmallSlabBytes)) return static_cast<Slab*>(nullptr);
  const auto to_be = std::make_shared<SlabToBe>();
  to_be->left_bytes = kSmallSlabBytes - rounded;
  shared_to_be_.push_back(to_be);
  Result<Slab*> slab = new_slab(held, kSmallSlabBytes);
  std::erase(shared_to_be_, to_be);
  to_be->done = true;
  shared_made_.notify_all();
  if (!slab.ok()) return slab;
  (*slab)->shared = true;
  shared_.push_back(*slab);
  return slab;
}

// Gives unused slabs back to the system until `bytes` more fit. False when even that is not enough;
// then nothing changes.
bool SlabProvider::make_room(Lock&, size_t bytes) {
  uint64_t unused = 0;
  for (const Slab* slab : spare_) unused += slab->bytes;
  for (const Slab* slab : shared_) unused += slab->empty() ? slab->bytes : 0;
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
  drop(shared_);
  return true;
}

// Huge pages where the system has them: a device takes a transfer in one piece, and not in one for
// every 4 KiB, which is three times slower on some.
Result<std::byte*> map_memory(size_t bytes) {
  const size_t spare = bytes >= kHugePageBytes ? kHugePageBytes : 0;
  void* mapped =
      ::mmap(nullptr, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED)
    return errno_error(errno, fmt::format("mmap {} for a buffer", format_size(bytes)));
  auto* memory = static_cast<std::byte*>(mapped);
  if (spare > 0) {
    const size_t before = -reinterpret_cast<uintptr_t>(memory) % kHugePageBytes;
    if (before > 0) ::munmap(memory, before);
    memory += before;
    if (spare > before) ::munmap(memory + bytes, spare - before);
    ::madvise(memory, bytes, MADV_HUGEPAGE);  // A wish.
  }
  // The page faults happen here, once, and not in the middle of a timed read.
  // (EINVAL: before Linux 5.14.)
  if (::madvise(memory, bytes, MADV_POPULATE_WRITE) != 0 && errno == EINVAL) {
    for (size_t at = 0; at < bytes; at += kPageBytes) memory[at] = std::byte{0};
  }
  return memory;
}

// Lets go of the lock while the system clears the memory, which takes as long as reading it would: others
// go on with what there is.
Result<Slab*> SlabProvider::new_slab(Lock& held, size_t bytes) {
  held_bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, held_bytes_);
  held.unlock();
  Result<std::unique_ptr<Slab>> slab = make_slab(bytes);
  held.lock();
  if (slab.ok()) return slab->release();
  held_bytes_ -= bytes;
  return std::move(slab).error();
}

Result<std::unique_ptr<Slab>> SlabProvider::make_slab(size_t bytes) const {
  std::byte* const memory = PENSTOCK_TRY(map_memory(bytes));
  auto slab = std::make_unique<Slab>();
  slab->data = memory;
  slab->bytes = bytes;
  const std::span<std::byte> all(slab->data, bytes);
  if (cuda_ != nullptr) {
    if (Result<void> pinned = cuda_->pin(all); !pinned.ok()) {
      ::munmap(memory, bytes);
      return std::move(pinned).error();
    }
    slab->pinned = true;
  }
  if (options_.registrar != nullptr) slab->region = options_.registrar->add_region(all);
  return slab;
}

void SlabProvider::release(Slab* slab) {
  const std::unique_ptr<Slab> owned(slab);
  if (slab->region != 0) options_.registrar->remove_region(slab->region);
  if (slab->pinned) cuda_->unpin({slab->data, slab->bytes});
  ::munmap(slab->data, slab->bytes);
  held_bytes_ -= slab->bytes;
}

Buffer SlabProvider::cut(Lock&, Slab* slab, size_t size) {
  const size_t rounded = round_size(size);
  const size_t page = slab->shared ? slab->blocks.allocate(order_of_size(rounded)) : 0;
  slab->used_bytes += rounded;
  in_use_bytes_ += rounded;
  return make_buffer(shared_from_this(), slab->data + page * kPageBytes, size, slab->region,
                     slab->pinned, slab);
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
  const size_t rounded = round_size(buffer.size());
  slab->used_bytes -= rounded;
  in_use_bytes_ -= rounded;
  if (slab->shared) {
    const auto page = static_cast<size_t>(buffer.data() - slab->data) / kPageBytes;
    slab->blocks.release(page, order_of_size(rounded));
  } else {
    spare_.push_back(slab);
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

void prefer_huge_pages(std::span<std::byte> memory) {
  const auto begin = reinterpret_cast<uintptr_t>(memory.data());
  const uintptr_t first = (begin + kPageBytes - 1) / kPageBytes * kPageBytes;
  const uintptr_t last = (begin + memory.size()) / kPageBytes * kPageBytes;
  if (first + kHugePageBytes > last) return;
  (void)::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

}  // namespace penstock::io
