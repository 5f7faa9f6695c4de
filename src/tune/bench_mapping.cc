#include "tune/bench_mapping.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <vector>

#include "penstock/units.h"
#include "tune/text.h"

namespace penstock::tune {

namespace {

// Where a SIGBUS of this thread's copy goes; null while it copies nothing.
thread_local sigjmp_buf* volatile escape = nullptr;

std::mutex handler_mutex;
size_t handler_users = 0;
struct sigaction action_before;

// What is not ours goes where it went before: the faulting instruction runs again and meets the old
// action; a signal that somebody sent is sent again.
void on_bus_error(int signal, siginfo_t* info, void*) {
  if (escape != nullptr) siglongjmp(*escape, 1);
  ::sigaction(signal, &action_before, nullptr);
  if (info->si_code <= 0) ::raise(signal);
}

void take_bus_errors() {
  std::lock_guard lock(handler_mutex);
  if (handler_users++ != 0) return;
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  // The jump out of the handler restores no mask, which would cost a system call for each copy.
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigaction(SIGBUS, &action, &action_before);
}

void release_bus_errors() {
  std::lock_guard lock(handler_mutex);
  if (--handler_users == 0) ::sigaction(SIGBUS, &action_before, nullptr);
}

// A handler may run with its signal blocked whatever it asked for (ThreadSanitizer's does), and the
// jump out of it leaves that so: the next fault would then end the process.
void unblock_bus_errors() {
  sigset_t bus;
  sigemptyset(&bus);
  sigaddset(&bus, SIGBUS);
  ::pthread_sigmask(SIG_UNBLOCK, &bus, nullptr);
}

// Nothing with a destructor lives here: the jump would skip it.
bool copy_or_escape(std::byte* into, const std::byte* from, size_t length) {
  sigjmp_buf here;
  if (sigsetjmp(here, 0) != 0) {
    escape = nullptr;
    unblock_bus_errors();
    return false;
  }
  escape = &here;
  std::memcpy(into, from, length);
  escape = nullptr;
  return true;
}

size_t page_bytes() {
  return static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

// The kernel calls every page cached when the asker has no right to know.
bool may_know_pages(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return false;
  return status.st_uid == ::geteuid() || ::access(path.c_str(), W_OK) == 0;
}

// Some sandboxes call every page cached; a page that was never touched shows it.
bool mincore_tells() {
  const size_t length = page_bytes();
  void* const page =
      ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  unsigned char state = 1;
  const bool told = ::mincore(page, length, &state) == 0 && (state & 1) == 0;
  ::munmap(page, length);
  return told;
}

std::optional<double> mapped_share(void* address, uint64_t length) {
  std::vector<unsigned char> states((length + page_bytes() - 1) / page_bytes());
  if (::mincore(address, length, states.data()) != 0) return std::nullopt;
  const auto cached = std::count_if(states.begin(), states.end(),
                                    [](unsigned char state) { return (state & 1) != 0; });
  return static_cast<double>(cached) / static_cast<double>(states.size());
}

std::optional<double> open_file_share(int fd, uint64_t length) {
  void* const address = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return std::nullopt;
  const auto share = mapped_share(address, length);
  ::munmap(address, length);
  return share;
}

}  // namespace

Result<std::unique_ptr<BenchMapping>> BenchMapping::open(const std::string& path, size_t length,
                                                         bool random) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno_error(errno, "open " + doctor::printable(path));
  void* const address = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, 0);
  const int map_errno = errno;
  ::close(fd);  // The mapping keeps the file open.
  if (address == MAP_FAILED) return errno_error(map_errno, "mmap " + doctor::printable(path));
  ::madvise(address, length, random ? MADV_RANDOM : MADV_SEQUENTIAL);
  return std::unique_ptr<BenchMapping>(
      new BenchMapping(path, static_cast<const std::byte*>(address), length));
}

BenchMapping::BenchMapping(std::string path, const std::byte* data, size_t length)
    : path_(std::move(path)), data_(data), length_(length) {
  take_bus_errors();
}

BenchMapping::~BenchMapping() {
  release_bus_errors();
  ::munmap(const_cast<std::byte*>(data_), length_);
}

Result<void> BenchMapping::copy(size_t offset, std::span<std::byte> into) const {
  assert(offset <= length_ && into.size() <= length_ - offset);
  if (copy_or_escape(into.data(), data_ + offset, into.size())) return {};
  return errno_error(EIO, "read the mapping of " + doctor::printable(path_) +
                              " (it became shorter, or its device failed)");
}

std::optional<double> cached_share(const std::string& path, uint64_t length) {
  constexpr uint64_t kLookedAtMost = 4 * kGiB;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::optional<double> share;
  if (length != 0 && may_know_pages(fd, path) && mincore_tells()) {
    share = open_file_share(fd, std::min(length, kLookedAtMost));
  }
  ::close(fd);
  return share;
}

bool is_kept_in_memory(const std::string& path) {
  struct statfs status {};
  if (::statfs(path.c_str(), &status) != 0) return false;
  return status.f_type == TMPFS_MAGIC || status.f_type == RAMFS_MAGIC;
}

}  // namespace penstock::tune
