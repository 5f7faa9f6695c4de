// Reads through a memory mapping, and what the kernel tells of a file's pages. The one place that
// does not go through io::FileSystem: a mapping is what is measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "penstock/result.h"

namespace penstock::tune {

// A part of a file, from its beginning, mapped for reading. While one lives, SIGBUS is handled: a
// file that shrinks or a device that fails is an error of the copy, not the end of the process.
// Threads: copy() from any.
class BenchMapping {
 public:
  static Result<std::unique_ptr<BenchMapping>> open(const std::string& path, size_t length,
                                                    bool random);
  ~BenchMapping();
  BenchMapping(const BenchMapping&) = delete;
  BenchMapping& operator=(const BenchMapping&) = delete;

  // Fills `into` from `offset` on; both end within the mapping. EIO when the pages cannot be had.
  Result<void> copy(size_t offset, std::span<std::byte> into) const;

 private:
  BenchMapping(std::string path, const std::byte* data, size_t length);

  const std::string path_;
  const std::byte* const data_;
  const size_t length_;
};

// Which part of the first `length` bytes of the file is in the page cache, from 0 to 1; of a very
// long range only the beginning is looked at. Nothing where the kernel does not tell: it keeps that
// to those who own the file or may write to it.
std::optional<double> cached_share(const std::string& path, uint64_t length);

// On a file system whose files are page cache and nothing else.
bool is_kept_in_memory(const std::string& path);

}  // namespace penstock::tune
