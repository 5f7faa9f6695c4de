// Resamples an image while its rows come in: each row is made narrower (or wider) when it arrives,
// and an output row is made as soon as the rows it needs are there. So only as many rows are kept
// as one output row needs, which stay in the CPU's cache.
#pragma once

#include <cstdint>
#include <vector>

#include "decode/kernels.h"
#include "decode/placement.h"
#include "decode/weights.h"

namespace penstock::decode {

// A part of an image, in whole pixels.
struct Window {
  uint32_t left = 0;
  uint32_t top = 0;
  uint32_t width = 0;
  uint32_t height = 0;
};

// Threads: one at a time. Keeps its memory.
class Resizer {
 public:
  // Of the image, made smaller by eighths / 8 before it comes here, what `placement` says.
  // Requires pixels of 1 or 3 bytes.
  void plan(const Placement& placement, uint32_t eighths, uint32_t out_width, uint32_t out_height,
            uint32_t pixel_bytes);

  // The part of the (smaller) image that is needed: rows must come from it, from the top.
  Window window() const;
  // How many bytes behind the last row of add() may be read.
  size_t slack_bytes() const { return size_t{3} * across_.stride() + kRowSlackBytes; }

  // How many rows add() takes at once.
  static constexpr uint32_t kRowsMax = 16;
  void add(const uint8_t* rows, size_t stride, uint32_t count);

  // The next output row, where the rows that it needs are there. `out` has room for a row and
  // kRowSlackBytes.
  bool take(uint8_t* out);

 private:
  uint8_t* kept(uint32_t row) { return kept_.data() + size_t{row % kept_rows_} * kept_stride_; }
  void narrow_rgb(const uint8_t* rows, size_t stride, uint32_t count);
  void narrow_grey(const uint8_t* row, uint8_t* out) const;

  Window window_;
  uint32_t pixel_bytes_ = 3;
  AxisWeights across_;
  AxisWeights down_;
  PackedWeights packed_;
  const Kernels* narrow_kernels_ = nullptr;

  uint32_t added_ = 0;  // Rows, counted as `down_` does.
  uint32_t taken_ = 0;  // Output rows.
  uint32_t kept_rows_ = 0;
  size_t kept_stride_ = 0;
  std::vector<uint8_t> kept_;
  std::vector<const uint8_t*> taps_;
};

}  // namespace penstock::decode
