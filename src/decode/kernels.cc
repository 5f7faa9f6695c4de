#include "decode/kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "decode/colour.h"

namespace penstock::decode {
namespace {

constexpr int32_t kHalf = 1 << (kWeightBits - 1);

uint8_t to_byte(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

// Weights are exact in their two halves, so this is what one multiplication by the whole gives.
void shrink_row_rgb(const uint8_t* row, const PackedWeights& weights, uint8_t* out) {
  const int16_t* halves = weights.halves.data();
  for (const uint32_t begin : weights.begins) {
    int32_t sums[3] = {kHalf, kHalf, kHalf};
    const uint8_t* pixel = row + size_t{begin} * 3;
    for (uint32_t group = 0; group < weights.groups; ++group, halves += 8) {
      for (const int tap : {0, 1, 4, 5}) {
        const int32_t weight = halves[tap] * (1 << kLowBits) + halves[tap + 2];
        for (int c = 0; c < 3; ++c) sums[c] += pixel[c] * weight;
        pixel += 3;
      }
    }
    for (int c = 0; c < 3; ++c) *out++ = to_byte(sums[c]);
  }
}

void shrink_rows_rgb(const uint8_t* const rows[2], const PackedWeights& weights,
                     uint8_t* const outs[2]) {
  for (int i = 0; i < 2; ++i) shrink_row_rgb(rows[i], weights, outs[i]);
}

void blend_rows(const uint8_t* const* rows, const int32_t* weights, uint32_t count, size_t size,
                uint8_t* out) {
  constexpr size_t kBlock = 64;
  for (size_t begin = 0; begin < size; begin += kBlock) {
    int32_t sums[kBlock];
    const size_t block = std::min(kBlock, size - begin);
    std::fill_n(sums, block, kHalf);
    for (uint32_t t = 0; t < count; ++t) {
      for (size_t i = 0; i < block; ++i) sums[i] += rows[t][begin + i] * weights[t];
    }
    for (size_t i = 0; i < block; ++i) out[begin + i] = to_byte(sums[i]);
  }
}

void split_rgb(const uint8_t* row, size_t pixels, uint8_t* const planes[3]) {
  for (size_t i = 0; i < pixels; ++i) {
    for (size_t c = 0; c < 3; ++c) planes[c][i] = row[3 * i + c];
  }
}

void to_grey(const uint8_t* const planes[3], size_t pixels, uint8_t* grey) {
  for (size_t i = 0; i < pixels; ++i) grey[i] = grey_of(planes[0][i], planes[1][i], planes[2][i]);
}

uint8_t blend_one(uint8_t base, float factor, uint8_t value) {
  const float mixed =
      static_cast<float>(base) + factor * static_cast<float>(int{value} - int{base});
  return static_cast<uint8_t>(static_cast<int>(std::clamp(mixed, 0.0f, 255.0f)));
}

void blend(uint8_t base, float factor, uint8_t* values, size_t size) {
  for (size_t i = 0; i < size; ++i) values[i] = blend_one(base, factor, values[i]);
}

void blend_each(const uint8_t* bases, float factor, uint8_t* values, size_t size) {
  for (size_t i = 0; i < size; ++i) values[i] = blend_one(bases[i], factor, values[i]);
}

template <typename To, typename Convert>
void convert(const uint8_t* in, size_t size, const Affine& affine, To* out, Convert convert_one) {
  for (size_t i = 0; i < size; ++i) {
    const size_t at = i % kPeriod;
    out[i] = convert_one(std::fma(static_cast<float>(in[i]), affine.scale[at], affine.shift[at]));
  }
}

void to_float32(const uint8_t* in, size_t size, const Affine& affine, float* out) {
  convert(in, size, affine, out, [](float value) { return value; });
}
void to_float16(const uint8_t* in, size_t size, const Affine& affine, uint16_t* out) {
  convert(in, size, affine, out, float_to_half);
}
void to_bfloat16(const uint8_t* in, size_t size, const Affine& affine, uint16_t* out) {
  convert(in, size, affine, out, float_to_bfloat);
}

}  // namespace

void PackedWeights::pack(const AxisWeights& weights, uint32_t first) {
  groups = weights.stride() / 4;
  begins.resize(weights.outputs());
  halves.resize(size_t{weights.outputs()} * weights.stride() * 2);
  int16_t* out = halves.data();
  for (uint32_t i = 0; i < weights.outputs(); ++i) {
    begins[i] = weights.begin(i) - first;
    const int32_t* weight = weights.weights(i);
    for (uint32_t pair = 0; pair < 2 * groups; ++pair, weight += 2, out += 4) {
      out[0] = static_cast<int16_t>(weight[0] >> kLowBits);
      out[1] = static_cast<int16_t>(weight[1] >> kLowBits);
      out[2] = static_cast<int16_t>(weight[0] & ((1 << kLowBits) - 1));
      out[3] = static_cast<int16_t>(weight[1] & ((1 << kLowBits) - 1));
    }
  }
}

uint16_t float_to_bfloat(float value) {
  // Of a normalised byte; not for NaN, which this would round to infinity.
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // 65520 and more is infinity.
  if (magnitude < 0x38800000) {
    // Below 2^-14 halves are 2^-24 apart: adding 2^-1 to a float rounds it to just that.
    const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(rounded) - 0x3f000000));
  }
  const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000) >> 13));
}

const Kernels& plain_kernels() {
  static constexpr Kernels kPlain = {shrink_rows_rgb, blend_rows, split_rgb,  to_grey,    blend,
                                     blend_each,      to_float32, to_float16, to_bfloat16};
  return kPlain;
}

const Kernels& kernels() {
  static const Kernels* const best = avx2_kernels() != nullptr ? avx2_kernels() : &plain_kernels();
  return *best;
}

}  // namespace penstock::decode
