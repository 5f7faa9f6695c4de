#include "tune/bench_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <memory>

#include "penstock/units.h"

namespace penstock::tune {

Result<std::unique_ptr<BenchMapping>> BenchMapping::open(const std::string& path, size_t length,
                                                         bool random) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno_error(errno, "open " + path);
  void* const address = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, 0);
  const int map_errno = errno;
  ::close(fd);  // The mapping keeps the file open.
  if (address == MAP_FAILED) return errno_error(map_errno, "mmap " + path);
  ::madvise(address, length, random ? MADV_RANDOM : MADV_SEQUENTIAL);
  return std::unique_ptr<BenchMapping>(
      new BenchMapping(static_cast<const std::byte*>(address), length));
}

BenchMapping::~BenchMapping() {
  ::munmap(const_cast<std::byte*>(data_), length_);
}

void touch_free_memory(uint64_t bytes) {
  void* const address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return;
  auto* const memory = static_cast<volatile char*>(address);
  for (uint64_t i = 0; i < bytes; i += 4096) memory[i] = 1;
  ::munmap(address, bytes);
}

uint64_t available_memory_bytes() {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/proc/meminfo", "re"), &std::fclose);
  char line[256];
  while (file != nullptr && std::fgets(line, sizeof(line), file.get()) != nullptr) {
    unsigned long long kib = 0;
    if (std::sscanf(line, "MemAvailable: %llu kB", &kib) == 1) return kib * kKiB;
  }
  return kGiB;
}

}  // namespace penstock::tune
