// The inner loops, for the instructions that this CPU has. All sets give the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "decode/weights.h"
#include "penstock/decode.h"

namespace penstock::decode {

// What a kernel may read and write beyond the end of a row of bytes (besides what it says itself).
inline constexpr size_t kRowSlackBytes = 64;

// A weight in two halves that fit 16-bit multiplications: weight = high * 2^kLowBits + low. Eight
// numbers for four pixels: high of the first two, low of them, and the same of the other two.
inline constexpr int kLowBits = 11;
struct PackedWeights {
  uint32_t groups = 0;           // Of four, for each output.
  std::vector<uint32_t> begins;  // Of each output, counted from `first`.
  std::vector<int16_t> halves;

  void pack(const AxisWeights& weights, uint32_t first);
  // More than this, and sums of the low halves could overflow.
  static constexpr uint32_t kGroupsMax = 1024;
};

// What floats are made of bytes: value * scale + shift, rounded once. Repeats every 24: eight
// pixels of three channels.
inline constexpr size_t kPeriod = 24;
struct Affine {
  float scale[kPeriod];
  float shift[kPeriod];
};

struct Kernels {
  // Pixels of three bytes, two rows at a time. May read 12 * groups + slack beyond the last begin.
  void (*shrink_rows_rgb)(const uint8_t* const rows[2], const PackedWeights& weights,
                          uint8_t* const outs[2]);
  // out[i] = sum of rows[t][i] * weights[t], for i below `size`.
  void (*blend_rows)(const uint8_t* const* rows, const int32_t* weights, uint32_t count,
                     size_t size, uint8_t* out);
  // Pixels of three bytes to three rows of single ones.
  void (*split_rgb)(const uint8_t* row, size_t pixels, uint8_t* const planes[3]);
  // Brightness of pixels in three rows: 0.299 red, 0.587 green, 0.114 blue.
  void (*to_grey)(const uint8_t* const planes[3], size_t pixels, uint8_t* grey);
  // base + factor * (value - base), cut off towards zero and to what a byte holds.
  void (*blend)(uint8_t base, float factor, uint8_t* values, size_t size);
  void (*blend_each)(const uint8_t* bases, float factor, uint8_t* values, size_t size);
  void (*to_float32)(const uint8_t* in, size_t size, const Affine& affine, float* out);
  void (*to_float16)(const uint8_t* in, size_t size, const Affine& affine, uint16_t* out);
  void (*to_bfloat16)(const uint8_t* in, size_t size, const Affine& affine, uint16_t* out);
};

const Kernels& kernels();  // The best that this CPU has.
const Kernels& plain_kernels();
const Kernels* avx2_kernels();  // Null where the CPU lacks AVX2 or FMA.

// To the nearest, halves to the even number.
uint16_t float_to_half(float value);
uint16_t float_to_bfloat(float value);

}  // namespace penstock::decode
