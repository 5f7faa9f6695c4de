// Where in an image the output of a spec lies.
#pragma once

#include <cstdint>

#include "penstock/decode.h"

namespace penstock::decode {

// One direction. The centre of output pixel i is at begin + (i + offset + 0.5) * step, in pixels of
// the image, and only those from `begin` to `begin + size` are looked at.
struct AxisPlacement {
  uint32_t begin = 0;
  uint32_t size = 0;
  uint32_t offset = 0;
  double step = 1;
};

struct Placement {
  AxisPlacement x;
  AxisPlacement y;
  bool flip = false;
};

// Requires an image of at least one pixel, and spec.check().
Placement place_output(const ImageSpec& spec, uint32_t width, uint32_t height, uint64_t random);

// exp and log of the C library differ between its versions in the last bit, and with them could a
// crop. These are slower, and the same everywhere. For 0.001 <= x <= 1000 and its logarithms;
// relative error below 1e-14.
double portable_exp(double x);
double portable_log(double x);

}  // namespace penstock::decode
