#pragma once

#include <cstdint>
#include <vector>

#include "penstock/units.h"

namespace penstock::data {

// Which parts of a file were brought into the page cache: each once.
class FilledParts {
 public:
  // Calls `fill(offset, length)` for the parts of the range that are new. `bytes`: of the file.
  template <typename Fill>
  void add(uint64_t bytes, uint64_t offset, uint64_t length, const Fill& fill) {
    if (length == 0) return;
    if (parts_.empty()) parts_.resize(bytes / kPart + 1);
    for (uint64_t part = offset / kPart; part <= (offset + length - 1) / kPart; ++part) {
      if (parts_[part]) continue;
      parts_[part] = true;
      fill(part * kPart, kPart);
    }
  }
  bool empty() const { return parts_.empty(); }

 private:
  static constexpr uint64_t kPart = 2 * kMiB;  // As io::Advice::kFill.
  std::vector<bool> parts_;
};

}  // namespace penstock::data
