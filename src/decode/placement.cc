#include "decode/placement.h"

#include <algorithm>
#include <cmath>

#include "decode/random.h"

namespace penstock::decode {
namespace {

struct Box {
  uint32_t left, top, width, height;
};

// Python's round(n / 2): halves go to the even number.
uint32_t half_to_even(uint32_t n) {
  const uint32_t half = n / 2;
  return n % 2 == 0 ? half : half + half % 2;
}

// Python's round().
uint32_t round_to_even(double x) {
  return static_cast<uint32_t>(std::nearbyint(x));
}

// What RandomResizedCrop takes when ten attempts did not fit: the largest part in the middle whose
// aspect is allowed.
Box middle_box(const std::array<double, 2>& ratio, uint32_t width, uint32_t height) {
  Box box{0, 0, width, height};
  const double aspect = static_cast<double>(width) / height;
  if (aspect < ratio[0]) {
    box.height = std::clamp<uint32_t>(round_to_even(width / ratio[0]), 1, height);
  } else if (aspect > ratio[1]) {
    box.width = std::clamp<uint32_t>(round_to_even(height * ratio[1]), 1, width);
  }
  box.left = (width - box.width) / 2;
  box.top = (height - box.height) / 2;
  return box;
}

Box random_box(const ImageSpec& spec, uint32_t width, uint32_t height, const Draws& draws) {
  constexpr uint64_t kAttempts = 10;
  const double area = static_cast<double>(width) * height;
  const double log_low = portable_log(spec.ratio[0]);
  const double log_high = portable_log(spec.ratio[1]);
  for (uint64_t attempt = 0; attempt < kAttempts; ++attempt) {
    const uint64_t place = kPlaceCrop + 4 * attempt;
    const double target = area * draws.uniform(place, spec.scale[0], spec.scale[1]);
    const double aspect = portable_exp(draws.uniform(place + 1, log_low, log_high));
    const double box_width = std::nearbyint(std::sqrt(target * aspect));
    const double box_height = std::nearbyint(std::sqrt(target / aspect));
    if (box_width < 1 || box_width > width || box_height < 1 || box_height > height) continue;
    const auto w = static_cast<uint32_t>(box_width);
    const auto h = static_cast<uint32_t>(box_height);
    return {draws.below(place + 3, width - w + 1), draws.below(place + 2, height - h + 1), w, h};
  }
  return middle_box(spec.ratio, width, height);
}

AxisPlacement stretch(uint32_t begin, uint32_t size, uint32_t outputs) {
  return {begin, size, 0, static_cast<double>(size) / outputs};
}

// The image is resized from `size` to `resized`, and the `outputs` in the middle of that are kept.
AxisPlacement middle(uint32_t size, uint32_t resized, uint32_t outputs) {
  return {0, size, half_to_even(resized - outputs), static_cast<double>(size) / resized};
}

Placement place_center(const ImageSpec& spec, uint32_t width, uint32_t height) {
  const uint32_t shorter = std::min(width, height);
  const uint64_t resize = spec.resize != 0 ? spec.resize : std::max(spec.height, spec.width);
  const auto resized = [&](uint32_t side) {
    return static_cast<uint32_t>(resize * side / shorter);
  };
  return {.x = middle(width, resized(width), spec.width),
          .y = middle(height, resized(height), spec.height)};
}

}  // namespace

double portable_exp(double x) {
  // The series of a 1024th, and ten squarings.
  constexpr int kSquarings = 10;
  const double part = x / (1 << kSquarings);
  double sum = 1;
  for (int n = 8; n >= 1; --n) sum = 1 + part * sum / n;
  for (int i = 0; i < kSquarings; ++i) sum *= sum;
  return sum;
}

double portable_log(double x) {
  // x = m * 2^e, and the series of atanh for m near 1.
  constexpr double kLog2 = 0x1.62e42fefa39efp-1;
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0x1.6a09e667f3bcdp-1) {  // Half the square root of two, rounded up.
    m *= 2;
    --exponent;
  }
  const double t = (m - 1) / (m + 1);
  double sum = 0;
  for (int n = 31; n >= 1; n -= 2) sum = 1.0 / n + t * t * sum;
  return 2 * t * sum + exponent * kLog2;
}

Placement place_output(const ImageSpec& spec, uint32_t width, uint32_t height, uint64_t random) {
  const Draws draws(random);
  Placement placement;
  switch (spec.crop) {
    case Crop::kNone:
      placement.x = stretch(0, width, spec.width);
      placement.y = stretch(0, height, spec.height);
      break;
    case Crop::kCenter:
      placement = place_center(spec, width, height);
      break;
    case Crop::kRandom: {
      const Box box = random_box(spec, width, height, draws);
      placement.x = stretch(box.left, box.width, spec.width);
      placement.y = stretch(box.top, box.height, spec.height);
      break;
    }
  }
  placement.flip = spec.flip > 0 && draws.uniform(kPlaceFlip) < spec.flip;
  return placement;
}

CropBox crop_box(const ImageSpec& spec, uint32_t width, uint32_t height, uint64_t random) {
  const Placement placement = place_output(spec, width, height, random);
  const auto begin = [](const AxisPlacement& axis) { return axis.begin + axis.offset * axis.step; };
  return {.left = begin(placement.x),
          .top = begin(placement.y),
          .width = spec.width * placement.x.step,
          .height = spec.height * placement.y.step,
          .flip = placement.flip};
}

}  // namespace penstock::decode
