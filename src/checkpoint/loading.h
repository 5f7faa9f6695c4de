// Brings ranges of the files of a checkpoint into memory, by few and large reads at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/source.h"
#include "penstock/result.h"

namespace penstock::checkpoint {

struct Range {
  size_t file = 0;
  uint64_t offset = 0;
  std::span<std::byte> into = {};
};

// Large ranges whose memory lies as they do in their file (address and offset are the same modulo
// kDataAlignment) are read straight into it; others through aligned buffers. Calls `complete` with the
// index of each range that is there, from any thread. kCorrupt where a file ends too early.
Result<void> load_ranges(Source& source, const std::vector<std::string>& files,
                         std::span<const Range> wanted,
                         const std::function<void(size_t range)>& complete);

}  // namespace penstock::checkpoint
