#include "tune/bench_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

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

}  // namespace penstock::tune
