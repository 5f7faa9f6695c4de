// From rows of bytes to what a batch holds: colour jitter, then numbers of the wanted type and
// layout, in place in the batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "decode/kernels.h"
#include "penstock/decode.h"

namespace penstock::decode {

// Threads: one at a time. Keeps its memory.
class Finisher {
 public:
  // `spec` and `out` must stay until end().
  void begin(const ImageSpec& spec, uint64_t random, std::span<std::byte> out);
  // Where the next row is to be put: room for it and kRowSlackBytes. Then commit_row().
  uint8_t* next_row();
  void commit_row();
  // After the last row.
  void end();

 private:
  void set_affine(uint32_t channel, size_t begin, size_t step, Affine& affine) const;
  uint64_t sum_of_grey(const uint8_t* row);
  void change_contrast();
  // A row into plane_, its colours there, and back.
  void split(const uint8_t* row);
  void change_saturation();
  void join(uint8_t* row) const;
  void write_row(uint8_t* row, uint32_t y);
  void write_values(const uint8_t* values, size_t size, const Affine& affine, size_t at);
  size_t row_bytes() const { return size_t{spec_->width} * spec_->channels; }

  const ImageSpec* spec_ = nullptr;
  std::byte* out_ = nullptr;
  uint32_t rows_ = 0;
  // Factors of the jitter; 1 leaves as it is.
  float brightness_ = 1;
  float contrast_ = 1;
  float saturation_ = 1;
  Affine affine_[3];  // Of each plane; of interleaved channels the first.
  // All rows where the contrast changes, since that needs the mean of all; otherwise one.
  std::vector<uint8_t> image_;
  size_t stride_ = 0;
  static constexpr size_t kGreyPlane = 3;
  static constexpr size_t kPlanes = 4;
  std::vector<uint8_t> planes_;
  uint8_t* plane_[kPlanes] = {};  // Red, green, blue and grey of a row, in planes_.
};

}  // namespace penstock::decode
