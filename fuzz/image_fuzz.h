// What the fuzzers of image formats share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "penstock/decode.h"

namespace penstock::decode {

// Whatever the bytes are, decoding a part of the image or the whole ends with pixels or an error. The
// first four choose the output, so that crops and scales of all kinds are met.
inline int decode_anything(const uint8_t* data, size_t size) {
  if (size < 8) return 0;
  const std::span file(reinterpret_cast<const std::byte*>(data) + 4, size - 4);
  const auto info = ImageDecoder::info(file);
  // Larger ones take too long to be fuzzed.
  if (info.ok() && uint64_t{info->width} * info->height > 1 << 20) return 0;
  ImageSpec spec{.height = 1u + data[0] % 40, .width = 1u + data[1] % 40};
  spec.crop = static_cast<Crop>(data[2] % 3);
  spec.channels = (data[2] & 4) != 0 ? 1 : 3;
  spec.fast_scale = (data[2] & 8) != 0;
  spec.layout = (data[2] & 16) != 0 ? Layout::kChw : Layout::kHwc;
  spec.dtype = (data[2] & 32) != 0 ? DType::kFloat32 : DType::kUint8;
  spec.contrast = (data[2] & 64) != 0 ? 0.5 : 0;
  spec.flip = 0.5;
  static ImageDecoder decoder;
  std::vector<std::byte> out(spec.output_bytes());
  static_cast<void>(decoder.decode(file, spec, data[3], out).ok());
  static_cast<void>(decoder.decode_whole(file, nullptr).ok());
  return 0;
}

}  // namespace penstock::decode
