#include "decode/colour.h"

namespace penstock::decode {
namespace {

// a * b / 255, rounded, without a division.
constexpr uint32_t multiply_bytes(uint32_t a, uint32_t b) {
  const uint32_t product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

}  // namespace

void rgb_to_grey(const uint8_t* row, size_t pixels, uint8_t* grey) {
  for (size_t i = 0; i < pixels; ++i) {
    grey[i] = grey_of(row[3 * i], row[3 * i + 1], row[3 * i + 2]);
  }
}

void inverted_cmyk_to_rgb(uint8_t* row, size_t pixels) {
  for (size_t i = 0; i < pixels; ++i) {
    const uint32_t white = row[4 * i + 3];
    for (size_t c = 0; c < 3; ++c) {
      const uint32_t ink = multiply_bytes(255u - row[4 * i + c], white);
      row[3 * i + c] = static_cast<uint8_t>(white - ink);
    }
  }
}

}  // namespace penstock::decode
