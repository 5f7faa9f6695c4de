// A file of this machine, seen where it lies in the page cache.
//
// Plain mappings end the process (SIGBUS) when a page cannot be read or the file became shorter. Here
// the kernel is asked for the pages first, which fails instead.
#pragma once

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

  // Those bytes, valid as long as the file is not made shorter meanwhile. kIo when they cannot be
  // read. Requires that they lie in the file. Threads: any.
  Result<std::span<const std::byte>> view(uint64_t offset, uint64_t size) const;

 private:
  MappedFile(std::string path, const std::byte* data, uint64_t bytes)
      : path_(std::move(path)), data_(data), bytes_(bytes) {}

  const std::string path_;
  const std::byte* const data_;
  const uint64_t bytes_;
};

}  // namespace penstock::data
