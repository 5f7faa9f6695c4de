// Resizing, slow and plain, to compare with: Pillow's algorithm on a whole image.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "decode/test_images.h"

namespace penstock::decode {

// The centre of output i is at origin + (i + 0.5) * step.
struct ReferenceAxis {
  double origin = 0;
  double step = 1;
  uint32_t outputs = 0;
};

struct ReferenceTaps {
  int begin = 0;
  std::vector<int> weights;
};

inline ReferenceTaps reference_taps(const ReferenceAxis& axis, uint32_t i, uint32_t size) {
  const double reach = std::max(1.0, axis.step);
  const double center = axis.origin + (i + 0.5) * axis.step;
  const int begin = std::max(0, static_cast<int>(center - reach + 0.5));
  const int end = std::min(static_cast<int>(size), static_cast<int>(center + reach + 0.5));
  std::vector<double> shares;
  double sum = 0;
  for (int x = begin; x < end; ++x) {
    shares.push_back(std::max(0.0, 1 - std::abs((x - center + 0.5) * (1 / reach))));
    sum += shares.back();
  }
  ReferenceTaps taps{begin, {}};
  for (const double share : shares) {
    taps.weights.push_back(static_cast<int>(0.5 + share / sum * (1 << 22)));
  }
  return taps;
}

inline TestImage reference_transpose(const TestImage& image) {
  TestImage out{image.height, image.width, image.channels,
                std::vector<uint8_t>(image.pixels.size())};
  for (uint32_t y = 0; y < image.height; ++y) {
    for (uint32_t x = 0; x < image.width; ++x) {
      for (uint32_t c = 0; c < image.channels; ++c) {
        out.pixels[(size_t{x} * image.height + y) * image.channels + c] =
            image.row(y)[x * image.channels + c];
      }
    }
  }
  return out;
}

inline TestImage reference_across(const TestImage& image, const ReferenceAxis& axis) {
  TestImage out{axis.outputs, image.height, image.channels, {}};
  for (uint32_t y = 0; y < image.height; ++y) {
    for (uint32_t i = 0; i < axis.outputs; ++i) {
      const ReferenceTaps taps = reference_taps(axis, i, image.width);
      for (uint32_t c = 0; c < image.channels; ++c) {
        int sum = 1 << 21;
        for (size_t t = 0; t < taps.weights.size(); ++t) {
          sum += image.row(y)[(static_cast<size_t>(taps.begin) + t) * image.channels + c] *
                 taps.weights[t];
        }
        out.pixels.push_back(static_cast<uint8_t>(std::clamp(sum >> 22, 0, 255)));
      }
    }
  }
  return out;
}

inline TestImage reference_resize(const TestImage& image, const ReferenceAxis& x,
                                  const ReferenceAxis& y) {
  return reference_transpose(reference_across(reference_transpose(reference_across(image, x)), y));
}

inline TestImage reference_crop(const TestImage& image, uint32_t left, uint32_t top, uint32_t width,
                                uint32_t height) {
  TestImage out{width, height, image.channels, {}};
  for (uint32_t y = 0; y < height; ++y) {
    const uint8_t* begin = image.row(top + y) + size_t{left} * image.channels;
    out.pixels.insert(out.pixels.end(), begin, begin + size_t{width} * image.channels);
  }
  return out;
}

inline TestImage reference_mirror(TestImage image) {
  const TestImage from = image;
  for (uint32_t y = 0; y < image.height; ++y) {
    for (uint32_t x = 0; x < image.width; ++x) {
      std::copy_n(
          from.row(y) + size_t{x} * image.channels, image.channels,
          image.pixels.data() + (size_t{y} * image.width + image.width - 1 - x) * image.channels);
    }
  }
  return image;
}

inline TestImage reference_stretch(const TestImage& image, uint32_t width, uint32_t height) {
  return reference_resize(image, {0, static_cast<double>(image.width) / width, width},
                          {0, static_cast<double>(image.height) / height, height});
}

}  // namespace penstock::decode
