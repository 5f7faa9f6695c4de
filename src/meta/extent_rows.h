// Rows of the parts of files that are no holes. Those of one version never overlap.
//
// One with a chunk has at most kChunkBytesMax bytes, so that what covers a place in a past version
// is found near it; zeros are of any length, and found by an index of their own.
#pragma once

#include <span>
#include <vector>

#include "meta/core.h"

namespace penstock::meta {

struct ExtentRow {
  uint64_t offset = 0;
  uint64_t length = 0;
  ChunkId chunk = kZeros;
  uint64_t chunk_offset = 0;
  Version born = 0;
  uint64_t end() const { return offset + length; }
};

// [begin, end) of a file.
struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
  // What lies behind the largest file is left out.
  static Range of(uint64_t offset, uint64_t length) {
    const uint64_t begin = std::min(offset, kFileBytesMax);
    return {begin, begin + std::min(length, kFileBytesMax - begin)};
  }
};

// Those that touch the range, whole, in order.
Result<std::vector<ExtentRow>> find_extents(Core& core, VolumeId volume, Ino ino, Version version,
                                            Range range);
// With the places of their chunks.
Result<std::vector<Extent>> read_extents(Core& core, VolumeId volume, Ino ino, Version version,
                                         Range range);
// One with a chunk is counted among its references already.
Result<void> add_extent(Core& core, VolumeId volume, Ino ino, const ExtentRow& row);
// Another one of a chunk that is there, or zeros.
Result<void> add_part(Core& core, VolumeId volume, Ino ino, const ExtentRow& row);
// Leaves a hole. Returns how many bytes were none.
Result<uint64_t> cut_extents(Core& core, VolumeId volume, Ino ino, Range range);
// Zeros in the holes. Returns how many bytes those had.
Result<uint64_t> fill_holes(Core& core, VolumeId volume, Ino ino, Range range);
Result<void> end_all_extents(Core& core, VolumeId volume, Ino ino);

// The parts that lie in the range, cut to it.
std::vector<ExtentRow> clip(std::span<const ExtentRow> rows, Range range);

}  // namespace penstock::meta
