// Whatever bytes come as a JPEG, decoding a part of it or the whole ends with pixels or an error.
// The first bytes choose the output, so that crops and scales of all kinds are met.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "decode/test_images.h"
#include "penstock/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::decode;  // NOLINT: a small program
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

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

// Now and then the input becomes a whole file, so that the other mutations have something to
// damage: guessing one would take for ever.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  using namespace penstock::decode;  // NOLINT: a small program
  std::minstd_rand random(seed);
  if (size < 8 || random() % 64 != 0) return LLVMFuzzerMutate(data, size, max_size);
  const auto side = [&] { return static_cast<uint32_t>(1 + random() % 80); };
  const TestImage image = make_photo(side(), side(), random());
  JpegOptions options{.quality = static_cast<int>(1 + random() % 100)};
  options.h = static_cast<int>(1 + random() % 2);
  options.v = static_cast<int>(1 + random() % 2);
  options.progressive = random() % 2 == 0;
  options.restart_rows = static_cast<int>(random() % 2);
  const Bytes file = to_jpeg(image, options);
  if (file.size() + 4 > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data + 4, file.data(), file.size());
  return 4 + file.size();
}
