// Colours as Pillow makes them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::decode {

// ITU-R 601: 0.299 red, 0.587 green, 0.114 blue.
inline constexpr int kGreyBits = 16;
inline constexpr int32_t kGreyHalf = 1 << (kGreyBits - 1);
inline constexpr int32_t kGreyWeights[3] = {19595, 38470, 7471};
constexpr uint8_t grey_of(uint8_t red, uint8_t green, uint8_t blue) {
  return static_cast<uint8_t>(
      (red * kGreyWeights[0] + green * kGreyWeights[1] + blue * kGreyWeights[2] + kGreyHalf) >>
      kGreyBits);
}

// `grey` may be `row`.
void rgb_to_grey(const uint8_t* row, size_t pixels, uint8_t* grey);

// Four bytes a pixel to three, in place. Of JPEG files the inverted kind, which all writers of CMYK
// that matter use.
void inverted_cmyk_to_rgb(uint8_t* row, size_t pixels);

}  // namespace penstock::decode
