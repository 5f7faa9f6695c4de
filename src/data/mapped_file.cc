#include "data/mapped_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace penstock::data {

namespace {

constexpr uint64_t kChunkBytes = 64 * 1024;
constexpr uint64_t kBits = 64;
constexpr uint32_t kViewsPerCheck = 16;

}  // namespace

MappedFile::MappedFile(std::string path, int fd, std::byte* data, uint64_t bytes)
    : path_(std::move(path)),
      fd_(fd),
      data_(data),
      bytes_(bytes),
      populated_(std::make_unique<std::atomic<uint64_t>[]>(bytes / kChunkBytes / kBits + 1)) {}

Result<std::unique_ptr<MappedFile>> MappedFile::open(const std::string& path, uint64_t bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno_error(errno, path);
  void* const data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {  // NOLINT
    const int why = errno;
    ::close(fd);
    return errno_error(why, path);
  }
  std::unique_ptr<MappedFile> file(new MappedFile(path, fd, static_cast<std::byte*>(data), bytes));
  PENSTOCK_TRY(file->check_length());
  if (::madvise(data, 0, MADV_POPULATE_READ) != 0)
    return make_error(ErrorCode::kUnsupported, fmt::format("{}: Linux is older than 5.14", path));
  return file;
}

MappedFile::~MappedFile() {
  ::munmap(data_, bytes_);
  ::close(fd_);
}

Result<void> MappedFile::check_length() const {
  struct stat info = {};
  if (::fstat(fd_, &info) != 0) return errno_error(errno, path_);
  if (static_cast<uint64_t>(info.st_size) == bytes_) return {};
  return make_error(ErrorCode::kChanged,
                    fmt::format("{}: had {} bytes and now has {}", path_, bytes_, info.st_size));
}

Result<void> MappedFile::populate(uint64_t chunk) {
  std::atomic<uint64_t>& word = populated_[chunk / kBits];
  const uint64_t bit = uint64_t{1} << (chunk % kBits);
  if ((word.load(std::memory_order_relaxed) & bit) != 0) return {};
  const uint64_t begin = chunk * kChunkBytes;
  const uint64_t length = std::min(kChunkBytes, bytes_ - begin);
  if (::madvise(data_ + begin, length, MADV_POPULATE_READ) != 0) {
    const int why = errno;
    return make_error(ErrorCode::kIo,
                      fmt::format("{}: {} bytes at {} cannot be read ({}): is the drive bad?",
                                  path_, length, begin, errno_error(why, path_).detail));
  }
  word.fetch_or(bit, std::memory_order_relaxed);
  return {};
}

Result<std::span<const std::byte>> MappedFile::view(uint64_t offset, uint64_t size) {
  if (views_.fetch_add(1, std::memory_order_relaxed) % kViewsPerCheck == 0)
    PENSTOCK_TRY(check_length());
  if (size == 0) return std::span<const std::byte>();
  for (uint64_t chunk = offset / kChunkBytes; chunk <= (offset + size - 1) / kChunkBytes; ++chunk)
    PENSTOCK_TRY(populate(chunk));
  return std::span<const std::byte>(data_ + offset, size);
}

}  // namespace penstock::data
