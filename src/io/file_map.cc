// A mapped file that becomes shorter ends the process that reads it: the kernel sends SIGBUS. Here a
// handler puts a page of zeros in the place of the one that is gone and takes note of it, so that the
// reader goes on, and finds out when it asks.
#include "io/file_map.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>

namespace penstock::io {

namespace {

constexpr uintptr_t kPage = 4096;
constexpr uint64_t kHugePage = 2 * kMiB;

// What the handler knows. It may run at any moment, on any thread, so it takes no lock.
struct Region {
  std::atomic<uintptr_t> begin = 0;  // 0: free.
  std::atomic<uintptr_t> end = 0;
  std::atomic<bool> lost = false;
};
constexpr size_t kRegions = 4096;
std::array<Region, kRegions> regions;
std::mutex regions_mutex;  // Of those who add regions.
struct sigaction previous;

// By the system call itself: what stands before mmap() in a process (a sanitizer, a profiler) need not
// be fit for a signal handler, and would take other readers of this page for a race.
bool map_zeros(uintptr_t page) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  return syscall(SYS_mmap, page, kPage, PROT_READ, flags, -1, 0) != -1;
}

bool replace_page(uintptr_t address) {
  for (Region& region : regions) {
    const uintptr_t begin = region.begin.load(std::memory_order_acquire);
    if (begin == 0 || address < begin || address >= region.end.load()) continue;
    if (!map_zeros(address / kPage * kPage)) return false;
    region.lost = true;
    return true;
  }
  return false;
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  const bool is_fault = info->si_code > 0;
  const bool replaced = is_fault && replace_page(reinterpret_cast<uintptr_t>(info->si_addr));
  errno = saved;
  if (replaced) return;
  if ((previous.sa_flags & SA_SIGINFO) != 0) return previous.sa_sigaction(signal, info, context);
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
    return previous.sa_handler(signal);
  // Not ours, nor anybody's.
  sigaction(signal, &previous, nullptr);
  raise(signal);
}

void install_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previous);
  });
}

Region* take_region(uintptr_t begin, uintptr_t end) {
  std::lock_guard lock(regions_mutex);
  for (Region& region : regions) {
    if (region.begin != 0) continue;
    region.lost = false;
    region.end = end;
    region.begin.store(begin, std::memory_order_release);
    return &region;
  }
  return nullptr;
}

// At an address where huge pages can be mapped as such.
void* map_aligned(int fd, uint64_t bytes) {
  void* const room =
      mmap(nullptr, bytes + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return MAP_FAILED;
  const auto begin = reinterpret_cast<uintptr_t>(room);
  const uintptr_t aligned = (begin + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t end = (aligned + bytes + kPage - 1) / kPage * kPage;
  const uintptr_t room_end = begin + (bytes + kHugePage + kPage - 1) / kPage * kPage;
  if (aligned > begin) munmap(room, aligned - begin);
  if (room_end > end) munmap(reinterpret_cast<void*>(end), room_end - end);
  void* const memory =
      mmap(reinterpret_cast<void*>(aligned), bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
  if (memory == MAP_FAILED) munmap(reinterpret_cast<void*>(aligned), bytes);
  return memory;
}

class GuardedMap final : public FileMap {
 public:
  GuardedMap(std::span<const std::byte> bytes, Region& region) : bytes_(bytes), region_(region) {}
  ~GuardedMap() override {
    region_.begin = 0;
    munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
  std::span<const std::byte> bytes() const override { return bytes_; }
  bool lost() const override { return region_.lost.load(std::memory_order_relaxed); }
  void expect_all() override {
    auto* const memory = const_cast<std::byte*>(bytes_.data());
    (void)madvise(memory, bytes_.size(), MADV_HUGEPAGE);
    (void)madvise(memory, bytes_.size(), MADV_RANDOM);
  }

 private:
  const std::span<const std::byte> bytes_;
  Region& region_;
};

}  // namespace

Result<std::unique_ptr<FileMap>> map_file(int fd, uint64_t bytes) {
  if (bytes == 0) return make_error(ErrorCode::kUnsupported, "an empty file cannot be mapped");
  install_handler();
  void* const memory = map_aligned(fd, bytes);
  if (memory == MAP_FAILED)
    return make_error(ErrorCode::kUnsupported, "this file cannot be mapped");
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  Region* const region = take_region(begin, begin + bytes);
  if (region == nullptr) {
    munmap(memory, bytes);
    return make_error(ErrorCode::kUnsupported, "too many files are mapped");
  }
  const std::span seen(static_cast<const std::byte*>(memory), bytes);
  return std::unique_ptr<FileMap>(std::make_unique<GuardedMap>(seen, *region));
}

// Faults of a mapping that wants huge pages read as many at once and, told that reads are random, no
// more. Plain reads and fadvise() leave pages of 4 KiB.
bool fill_page_cache(int fd, uint64_t offset, uint64_t length) {
#if defined(MADV_POPULATE_READ)
  if (length == 0) return true;
  const uint64_t begin = offset / kHugePage * kHugePage;
  const uint64_t end = (offset + length + kHugePage - 1) / kHugePage * kHugePage;
  const uint64_t bytes = end - begin;
  void* const memory = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(begin));
  if (memory == MAP_FAILED) return false;
  (void)madvise(memory, bytes, MADV_HUGEPAGE);
  (void)madvise(memory, bytes, MADV_RANDOM);
  // Beyond the end of the file it fails, after all that is there.
  const bool filled = madvise(memory, bytes, MADV_POPULATE_READ) == 0 || errno != EINVAL;
  munmap(memory, bytes);
  return filled;
#else
  return false;
#endif
}

}  // namespace penstock::io
