// A file of this machine, seen where it lies in the page cache.
//
// Plain mappings end the process (SIGBUS) when a page cannot be read or the file became shorter. Here
// the kernel is asked for pages before they are first looked at, which fails instead, and for the
// length of the file again and again. What remains: a file that is cut in that very moment, or a page
// that the kernel dropped meanwhile and then cannot read again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "penstock/result.h"

namespace penstock::data {

class MappedFile {
 public:
  // Of `bytes` bytes; kChanged when it has others. kUnsupported where the kernel cannot do it (Linux
  // before 5.14).
  static Result<std::unique_ptr<MappedFile>> open(const std::string& path, uint64_t bytes);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // Those bytes, for as long as this lives. kIo when they cannot be read, kChanged when the file has
  // another length now. Requires that they lie in the file. Threads: any.
  Result<std::span<const std::byte>> view(uint64_t offset, uint64_t size);

 private:
  MappedFile(std::string path, int fd, std::byte* data, uint64_t bytes);
  Result<void> check_length() const;
  // Has the pages of a chunk brought in.
  Result<void> populate(uint64_t chunk);

  const std::string path_;
  const int fd_;
  std::byte* const data_;
  const uint64_t bytes_;
  std::atomic<uint32_t> views_ = 0;
  const std::unique_ptr<std::atomic<uint64_t>[]> populated_;  // A bit for each chunk.
};

}  // namespace penstock::data
