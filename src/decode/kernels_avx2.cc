// The instructions are allowed function by function, not by a flag for the file: a flag would also
// apply to inline functions of headers, which the linker may then pick for the whole program.
#include "decode/kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

#include "decode/colour.h"

#define PENSTOCK_AVX2 __attribute__((target("avx2,fma,f16c")))
#define PENSTOCK_AVX2_INLINE __attribute__((target("avx2,fma,f16c"), always_inline)) inline

namespace penstock::decode {
namespace {

PENSTOCK_AVX2 inline __m256i broadcast_pair(const int16_t* pair) {
  int32_t both;
  std::memcpy(&both, pair, sizeof both);
  return _mm256_set1_epi32(both);
}

// The first 16 bytes of each, one after the other.
PENSTOCK_AVX2 inline __m256i load_two(const uint8_t* low, const uint8_t* high) {
  return _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(low))),
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(high)), 1);
}

PENSTOCK_AVX2 inline void store8(uint8_t* out, __m128i bytes) {
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out), bytes);
}

// One pixel of two rows, one in each half of the registers. Of four pixels, the first bytes of two
// are put side by side as 16-bit numbers, then the second and the third: one multiplication then
// does both. `halves` and what they belong to are those of PackedWeights.
PENSTOCK_AVX2_INLINE __m256i weigh(const uint8_t* const rows[2], size_t at, const int16_t* halves,
                                   uint32_t groups) {
  const __m256i first_two = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
  const __m256i second_two = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1));
  __m256i high = _mm256_setzero_si256();
  __m256i low = _mm256_set1_epi32(1 << (kWeightBits - 1));
  for (uint32_t group = 0; group < groups; ++group, at += 12, halves += 8) {
    const __m256i pixels = load_two(rows[0] + at, rows[1] + at);
    const __m256i a = _mm256_shuffle_epi8(pixels, first_two);
    const __m256i b = _mm256_shuffle_epi8(pixels, second_two);
    high = _mm256_add_epi32(high, _mm256_madd_epi16(a, broadcast_pair(halves)));
    low = _mm256_add_epi32(low, _mm256_madd_epi16(a, broadcast_pair(halves + 2)));
    high = _mm256_add_epi32(high, _mm256_madd_epi16(b, broadcast_pair(halves + 4)));
    low = _mm256_add_epi32(low, _mm256_madd_epi16(b, broadcast_pair(halves + 6)));
  }
  const __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(high, kLowBits), low);
  return _mm256_srai_epi32(sum, kWeightBits);
}

// Two pixels at a time; eight bytes are stored of their six, and the next two overwrite the rest.
// Where their number is odd, the last is made twice.
PENSTOCK_AVX2_INLINE void shrink(const uint8_t* const rows[2], const PackedWeights& weights,
                                 uint32_t groups, uint8_t* const outs[2]) {
  const __m256i close_up = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 2, 4, 5, 6, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
  const size_t count = weights.begins.size();
  for (size_t i = 0; i < count; i += 2) {
    const size_t next = i + 1 < count ? i + 1 : i;
    const int16_t* halves = weights.halves.data();
    const __m256i a = weigh(rows, size_t{weights.begins[i]} * 3, halves + i * groups * 8, groups);
    const __m256i b =
        weigh(rows, size_t{weights.begins[next]} * 3, halves + next * groups * 8, groups);
    const __m256i words = _mm256_packus_epi32(a, b);
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_packus_epi16(words, words), close_up);
    store8(outs[0] + i * 3, _mm256_castsi256_si128(bytes));
    store8(outs[1] + i * 3, _mm256_extracti128_si256(bytes, 1));
  }
}

PENSTOCK_AVX2 void shrink_rows_rgb(const uint8_t* const rows[2], const PackedWeights& weights,
                                   uint8_t* const outs[2]) {
  if (weights.groups == 1) {  // Most are: up to twice as large as the output. No loop then.
    shrink(rows, weights, 1, outs);
  } else {
    shrink(rows, weights, weights.groups, outs);
  }
}

PENSTOCK_AVX2 inline __m256i load8(const uint8_t* bytes) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)));
}

// The low bytes of 32 numbers, each of which fits one.
PENSTOCK_AVX2 inline void store32(uint8_t* out, const __m256i numbers[4]) {
  // Packing works on halves of registers; this puts their parts in order again.
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i bytes = _mm256_packus_epi16(_mm256_packus_epi32(numbers[0], numbers[1]),
                                            _mm256_packus_epi32(numbers[2], numbers[3]));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_permutevar8x32_epi32(bytes, order));
}

PENSTOCK_AVX2 void blend_rows(const uint8_t* const* rows, const int32_t* weights, uint32_t count,
                              size_t size, uint8_t* out) {
  const __m256i half = _mm256_set1_epi32(1 << (kWeightBits - 1));
  for (size_t i = 0; i < size; i += 32) {
    __m256i sums[4] = {half, half, half, half};
    for (uint32_t t = 0; t < count; ++t) {
      const __m256i weight = _mm256_set1_epi32(weights[t]);
      for (size_t k = 0; k < 4; ++k) {
        const __m256i part = _mm256_mullo_epi32(load8(rows[t] + i + 8 * k), weight);
        sums[k] = _mm256_add_epi32(sums[k], part);
      }
    }
    for (__m256i& sum : sums) sum = _mm256_srai_epi32(sum, kWeightBits);
    store32(out + i, sums);
  }
}

// Which bytes of the third of 48 that begins at 16 * part belong to a channel, and where.
PENSTOCK_AVX2 inline __m128i split_mask(int channel, int part) {
  alignas(16) int8_t mask[16];
  for (int i = 0; i < 16; ++i) {
    const int at = 3 * i + channel - 16 * part;
    mask[i] = static_cast<int8_t>(at >= 0 && at < 16 ? at : -1);
  }
  return _mm_load_si128(reinterpret_cast<const __m128i*>(mask));
}

PENSTOCK_AVX2 void split_rgb(const uint8_t* row, size_t pixels, uint8_t* const planes[3]) {
  __m128i masks[3][3];
  for (int channel = 0; channel < 3; ++channel) {
    for (int part = 0; part < 3; ++part) masks[channel][part] = split_mask(channel, part);
  }
  for (size_t i = 0; i < pixels; i += 16) {
    const auto* in = reinterpret_cast<const __m128i*>(row + 3 * i);
    const __m128i parts[3] = {_mm_loadu_si128(in), _mm_loadu_si128(in + 1),
                              _mm_loadu_si128(in + 2)};
    for (size_t c = 0; c < 3; ++c) {
      const __m128i bytes = _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(parts[0], masks[c][0]),
                                                      _mm_shuffle_epi8(parts[1], masks[c][1])),
                                         _mm_shuffle_epi8(parts[2], masks[c][2]));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(planes[c] + i), bytes);
    }
  }
}

PENSTOCK_AVX2 inline __m256i grey_of_eight(const uint8_t* const planes[3], size_t at) {
  __m256i sum = _mm256_set1_epi32(kGreyHalf);
  for (size_t c = 0; c < 3; ++c) {
    const __m256i weight = _mm256_set1_epi32(kGreyWeights[c]);
    sum = _mm256_add_epi32(sum, _mm256_mullo_epi32(load8(planes[c] + at), weight));
  }
  return _mm256_srli_epi32(sum, kGreyBits);
}

PENSTOCK_AVX2 void to_grey(const uint8_t* const planes[3], size_t pixels, uint8_t* grey) {
  for (size_t i = 0; i < pixels; i += 32) {
    const __m256i parts[4] = {grey_of_eight(planes, i), grey_of_eight(planes, i + 8),
                              grey_of_eight(planes, i + 16), grey_of_eight(planes, i + 24)};
    store32(grey + i, parts);
  }
}

PENSTOCK_AVX2 inline __m256i blend_eight(__m256i base, __m256 factor, const uint8_t* values) {
  const __m256 distance = _mm256_cvtepi32_ps(_mm256_sub_epi32(load8(values), base));
  __m256 mixed = _mm256_add_ps(_mm256_cvtepi32_ps(base), _mm256_mul_ps(factor, distance));
  mixed = _mm256_min_ps(_mm256_max_ps(mixed, _mm256_setzero_ps()), _mm256_set1_ps(255));
  return _mm256_cvttps_epi32(mixed);
}

PENSTOCK_AVX2 void blend(uint8_t base, float factor, uint8_t* values, size_t size) {
  const __m256i b = _mm256_set1_epi32(base);
  const __m256 f = _mm256_set1_ps(factor);
  for (size_t i = 0; i < size; i += 32) {
    const __m256i parts[4] = {blend_eight(b, f, values + i), blend_eight(b, f, values + i + 8),
                              blend_eight(b, f, values + i + 16),
                              blend_eight(b, f, values + i + 24)};
    store32(values + i, parts);
  }
}

PENSTOCK_AVX2 void blend_each(const uint8_t* bases, float factor, uint8_t* values, size_t size) {
  const __m256 f = _mm256_set1_ps(factor);
  for (size_t i = 0; i < size; i += 32) {
    __m256i parts[4];
    for (size_t k = 0; k < 4; ++k) {
      parts[k] = blend_eight(load8(bases + i + 8 * k), f, values + i + 8 * k);
    }
    store32(values + i, parts);
  }
}

PENSTOCK_AVX2 inline __m256 load_floats(const uint8_t* in, const Affine& affine, size_t at) {
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(load8(in)), _mm256_loadu_ps(affine.scale + at),
                         _mm256_loadu_ps(affine.shift + at));
}

PENSTOCK_AVX2 inline void store_as(float* out, __m256 values) {
  _mm256_storeu_ps(out, values);
}

struct AsHalf {
  uint16_t bits;
};
PENSTOCK_AVX2 inline void store_as(AsHalf* out, __m256 values) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out),
                   _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

struct AsBfloat {
  uint16_t bits;
};
PENSTOCK_AVX2 inline void store_as(AsBfloat* out, __m256 values) {
  const __m256i bits = _mm256_castps_si256(values);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_srli_epi32(
      _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
  const __m256i packed = _mm256_packus_epi32(rounded, rounded);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out),
                   _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08)));
}

// Only what is asked for is written: the next plane, or somebody else's memory, follows. The last
// few go through a copy.
template <typename To>
PENSTOCK_AVX2 inline void convert(const uint8_t* in, size_t size, const Affine& affine, To* out) {
  size_t i = 0;
  for (; i + kPeriod <= size; i += kPeriod) {
    store_as(out + i, load_floats(in + i, affine, 0));
    store_as(out + i + 8, load_floats(in + i + 8, affine, 8));
    store_as(out + i + 16, load_floats(in + i + 16, affine, 16));
  }
  if (i == size) return;
  uint8_t last_in[kPeriod] = {};
  To last_out[kPeriod];
  std::memcpy(last_in, in + i, size - i);
  for (size_t at = 0; at < kPeriod; at += 8) {
    store_as(last_out + at, load_floats(last_in + at, affine, at));
  }
  std::memcpy(out + i, last_out, (size - i) * sizeof(To));
}

PENSTOCK_AVX2 void to_float32(const uint8_t* in, size_t size, const Affine& affine, float* out) {
  convert(in, size, affine, out);
}
PENSTOCK_AVX2 void to_float16(const uint8_t* in, size_t size, const Affine& affine, uint16_t* out) {
  convert(in, size, affine, reinterpret_cast<AsHalf*>(out));
}
PENSTOCK_AVX2 void to_bfloat16(const uint8_t* in, size_t size, const Affine& affine,
                               uint16_t* out) {
  convert(in, size, affine, reinterpret_cast<AsBfloat*>(out));
}

}  // namespace

const Kernels* avx2_kernels() {
  static constexpr Kernels kAvx2 = {shrink_rows_rgb, blend_rows, split_rgb,  to_grey,    blend,
                                    blend_each,      to_float32, to_float16, to_bfloat16};
  // Every CPU with AVX2 has F16C, which clang does not know by name here.
  static const bool has = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  return has ? &kAvx2 : nullptr;
}

}  // namespace penstock::decode

#else

namespace penstock::decode {
const Kernels* avx2_kernels() {
  return nullptr;
}
}  // namespace penstock::decode

#endif
