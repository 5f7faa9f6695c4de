#include "data/crc32c.h"

#include <array>
#include <cstring>

#include "store/s3_checksum.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace penstock::data {

#if defined(__x86_64__)
namespace {

// The instruction takes three cycles but can begin every cycle: three stretches of the data are
// worked on side by side, and their remainders joined. Moving a remainder over a stretch of zeros
// is linear, so four small tables do it.
constexpr size_t kLongBytes = 4096;
constexpr size_t kShortBytes = 256;
constexpr uint32_t kPolynomial = 0x82F63B78;

constexpr uint32_t over_zero_byte(uint32_t crc) {
  for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ kPolynomial : crc >> 1;
  return crc;
}

class Shift {
 public:
  explicit constexpr Shift(size_t zero_bytes) {
    // Where each of the 32 bits goes; doubling the distance applies the map to itself.
    std::array<uint32_t, 32> columns{};
    for (size_t i = 0; i < 32; ++i) columns[i] = over_zero_byte(uint32_t{1} << i);
    for (size_t distance = 1; distance < zero_bytes; distance *= 2) {
      std::array<uint32_t, 32> doubled{};
      for (size_t i = 0; i < 32; ++i) doubled[i] = apply(columns, columns[i]);
      columns = doubled;
    }
    for (uint32_t byte = 0; byte < 256; ++byte) {
      for (size_t k = 0; k < 4; ++k) tables_[k][byte] = apply(columns, byte << (8 * k));
    }
  }

  uint32_t operator()(uint32_t crc) const {
    return tables_[0][crc & 0xff] ^ tables_[1][crc >> 8 & 0xff] ^ tables_[2][crc >> 16 & 0xff] ^
           tables_[3][crc >> 24];
  }

 private:
  static constexpr uint32_t apply(const std::array<uint32_t, 32>& columns, uint32_t vector) {
    uint32_t sum = 0;
    for (size_t i = 0; i < 32; ++i) sum ^= (vector >> i & 1) != 0 ? columns[i] : 0;
    return sum;
  }

  std::array<std::array<uint32_t, 256>, 4> tables_{};
};

// Powers of two, as Shift doubles.
constexpr Shift kOverLong(kLongBytes);
constexpr Shift kOverShort(kShortBytes);

uint64_t word_at(const std::byte* at) {
  uint64_t word = 0;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

template <size_t kStretch>
__attribute__((target("sse4.2"))) uint32_t three_at_once(uint32_t crc, const Shift& shift,
                                                         const std::byte*& at, size_t& left) {
  while (left >= 3 * kStretch) {
    uint64_t a = crc;
    uint64_t b = 0;
    uint64_t c = 0;
    for (size_t i = 0; i < kStretch; i += 8) {
      a = _mm_crc32_u64(a, word_at(at + i));
      b = _mm_crc32_u64(b, word_at(at + kStretch + i));
      c = _mm_crc32_u64(c, word_at(at + 2 * kStretch + i));
    }
    crc = shift(static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b);
    crc = shift(crc) ^ static_cast<uint32_t>(c);
    at += 3 * kStretch;
    left -= 3 * kStretch;
  }
  return crc;
}

__attribute__((target("sse4.2"))) uint32_t crc32c_sse42(std::span<const std::byte> bytes) {
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  uint32_t crc = three_at_once<kLongBytes>(0xFFFFFFFF, kOverLong, at, left);
  crc = three_at_once<kShortBytes>(crc, kOverShort, at, left);
  uint64_t wide = crc;
  for (; left >= 8; at += 8, left -= 8) wide = _mm_crc32_u64(wide, word_at(at));
  crc = static_cast<uint32_t>(wide);
  for (; left > 0; ++at, --left) crc = _mm_crc32_u8(crc, std::to_integer<uint8_t>(*at));
  return ~crc;
}

}  // namespace
#endif

uint32_t crc32c(std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return crc32c_sse42(bytes);
#endif
  return store::crc32c(bytes);
}

}  // namespace penstock::data
