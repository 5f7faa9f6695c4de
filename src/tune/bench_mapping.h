// Reads through a memory mapping. The one place that does not go through io::FileSystem: a mapping
// is what is measured.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "penstock/result.h"

namespace penstock::tune {

// A part of a file, from its beginning, mapped for reading. A file that shrinks while mapped ends
// the process (SIGBUS), as it does any user of mmap.
class BenchMapping {
 public:
  static Result<std::unique_ptr<BenchMapping>> open(const std::string& path, size_t length,
                                                    bool random);
  ~BenchMapping();
  BenchMapping(const BenchMapping&) = delete;
  BenchMapping& operator=(const BenchMapping&) = delete;

  std::span<const std::byte> bytes() const { return {data_, length_}; }

 private:
  BenchMapping(const std::byte* data, size_t length) : data_(data), length_(length) {}
  const std::byte* data_;
  size_t length_;
};

}  // namespace penstock::tune
