#include <fmt/format.h>

#include <cmath>

#include "penstock/decode.h"

namespace penstock::decode {
namespace {

constexpr uint32_t kSideMax = 1 << 14;

Error wrong(std::string text) {
  return make_error(ErrorCode::kInvalid, "image: " + std::move(text));
}

Result<void> check_size(const ImageSpec& spec) {
  const auto fits = [](uint32_t side) { return side >= 1 && side <= kSideMax; };
  if (!fits(spec.height) || !fits(spec.width)) {
    return wrong(fmt::format("height and width are {} and {}; each may be 1 to {}", spec.height,
                             spec.width, kSideMax));
  }
  if (spec.channels != 1 && spec.channels != 3) {
    return wrong(fmt::format("channels is {}; it may be 1 or 3", spec.channels));
  }
  const uint32_t longer = std::max(spec.height, spec.width);
  if (spec.crop == Crop::kCenter && spec.resize != 0 &&
      (spec.resize < longer || spec.resize > kSideMax)) {
    return wrong(
        fmt::format("resize is {}; it may be 0 or {} to {}: the middle is cut out of what "
                    "was resized",
                    spec.resize, longer, kSideMax));
  }
  return {};
}

Result<void> check_random_crop(const ImageSpec& spec) {
  const auto& [scale_low, scale_high] = spec.scale;
  if (!(scale_low > 0 && scale_low <= scale_high && scale_high <= 1)) {
    return wrong(fmt::format("scale is {} to {}; it may be from above 0 to 1, the smaller first",
                             scale_low, scale_high));
  }
  const auto& [ratio_low, ratio_high] = spec.ratio;
  if (!(ratio_low >= 0.001 && ratio_low <= ratio_high && ratio_high <= 1000)) {
    return wrong(fmt::format("ratio is {} to {}; it may be 0.001 to 1000, the smaller first",
                             ratio_low, ratio_high));
  }
  return {};
}

Result<void> check_jitter(const ImageSpec& spec) {
  if (!(spec.flip >= 0 && spec.flip <= 1)) {
    return wrong(fmt::format("flip is {}; it is a chance, 0 to 1", spec.flip));
  }
  for (const auto& [name, value] :
       {std::pair{"brightness", spec.brightness}, std::pair{"contrast", spec.contrast},
        std::pair{"saturation", spec.saturation}}) {
    if (!(value >= 0 && value <= 100)) {
      return wrong(fmt::format("{} is {}; it may be 0 to 100", name, value));
    }
  }
  return {};
}

Result<void> check_numbers(const ImageSpec& spec) {
  const bool floats = spec.dtype == DType::kFloat16 || spec.dtype == DType::kBfloat16 ||
                      spec.dtype == DType::kFloat32;
  if (!floats && spec.dtype != DType::kUint8) {
    return wrong(fmt::format("dtype is {}; it may be uint8, float16, bfloat16 or float32",
                             dtype_name(spec.dtype)));
  }
  if (!floats && (spec.mean || spec.std)) {
    return wrong("mean and std make floats: with them, dtype may be float16, bfloat16 or float32");
  }
  for (uint32_t c = 0; c < 3; ++c) {
    if (spec.mean && !std::isfinite((*spec.mean)[c])) return wrong("mean is not a number");
    if (spec.std && !(std::isfinite((*spec.std)[c]) && (*spec.std)[c] > 0)) {
      return wrong(fmt::format("std is {}; it must be above 0", (*spec.std)[c]));
    }
  }
  return {};
}

}  // namespace

size_t ImageSpec::output_bytes() const {
  return size_t{height} * width * channels * dtype_bytes(dtype);
}

Result<void> ImageSpec::check() const {
  PENSTOCK_TRY(check_size(*this));
  if (crop == Crop::kRandom) PENSTOCK_TRY(check_random_crop(*this));
  PENSTOCK_TRY(check_jitter(*this));
  return check_numbers(*this);
}

}  // namespace penstock::decode
