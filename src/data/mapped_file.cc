#include "data/mapped_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace penstock::data {

namespace {

constexpr uint64_t kMappedPageBytes = 4096;

}  // namespace

Result<std::unique_ptr<MappedFile>> MappedFile::open(const std::string& path, uint64_t bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno_error(errno, path);
  struct stat info = {};
  const bool told = ::fstat(fd, &info) == 0;
  const bool same = told && static_cast<uint64_t>(info.st_size) == bytes;
  void* const data =
      same ? ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;  // NOLINT
  const int why = errno;
  ::close(fd);
  if (told && !same)
    return make_error(ErrorCode::kChanged,
                      fmt::format("{}: not of {} bytes any more", path, bytes));
  if (data == MAP_FAILED) return errno_error(why, path);
  auto file =
      std::unique_ptr<MappedFile>(new MappedFile(path, static_cast<const std::byte*>(data), bytes));
  if (::madvise(data, 0, MADV_POPULATE_READ) != 0)
    return make_error(ErrorCode::kUnsupported, fmt::format("{}: Linux is older than 5.14", path));
  return file;
}

MappedFile::~MappedFile() {
  ::munmap(const_cast<std::byte*>(data_), bytes_);  // NOLINT
}

Result<std::span<const std::byte>> MappedFile::view(uint64_t offset, uint64_t size) const {
  const uint64_t begin = offset / kMappedPageBytes * kMappedPageBytes;
  const uint64_t length = offset + size - begin;
  auto* const pages = const_cast<std::byte*>(data_) + begin;  // NOLINT
  if (::madvise(pages, length, MADV_POPULATE_READ) != 0) {
    const int why = errno;
    return make_error(
        ErrorCode::kIo,
        fmt::format("{}: {} bytes at {} cannot be read ({}): a bad drive, or the file "
                    "became shorter",
                    path_, size, offset, errno_error(why, path_).detail));
  }
  return std::span(data_ + offset, size);
}

}  // namespace penstock::data
