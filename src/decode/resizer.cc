#include "decode/resizer.h"

#include <algorithm>
#include <cmath>

namespace penstock::decode {
namespace {

struct ScaledAxis {
  uint32_t begin;
  AxisSource source;
};

// An axis in an image made smaller. What is partly inside counts.
ScaledAxis scale_axis(const AxisPlacement& axis, uint32_t eighths) {
  const double scale = eighths / 8.0;
  const double begin = axis.begin * scale;
  const double whole_begin = std::floor(begin);
  const double end = std::ceil((static_cast<double>(axis.begin) + axis.size) * scale);
  return {.begin = static_cast<uint32_t>(whole_begin),
          .source = {.size = static_cast<uint32_t>(end - whole_begin),
                     .origin = begin - whole_begin,
                     .offset = axis.offset,
                     .step = axis.step * scale}};
}

}  // namespace

void Resizer::plan(const Placement& placement, uint32_t eighths, uint32_t out_width,
                   uint32_t out_height, uint32_t pixel_bytes) {
  const ScaledAxis x = scale_axis(placement.x, eighths);
  const ScaledAxis y = scale_axis(placement.y, eighths);
  across_.plan(x.source, out_width, placement.flip);
  down_.plan(y.source, out_height, false);
  pixel_bytes_ = pixel_bytes;
  packed_.pack(across_, across_.first());
  const bool fits = packed_.groups <= PackedWeights::kGroupsMax;
  narrow_kernels_ = fits ? &kernels() : &plain_kernels();
  window_ = {.left = x.begin + across_.first(),
             .top = y.begin + down_.first(),
             .width = across_.end() - across_.first(),
             .height = down_.end() - down_.first()};
  added_ = down_.first();
  taken_ = 0;
  kept_rows_ = down_.stride() + kRowsMax;
  kept_stride_ = (size_t{out_width} * pixel_bytes + kRowSlackBytes + 63) / 64 * 64;
  // One more: the second row of a pair that has none.
  kept_.resize((size_t{kept_rows_} + 1) * kept_stride_);
  taps_.resize(down_.stride());
}

Window Resizer::window() const {
  return window_;
}

void Resizer::narrow_rgb(const uint8_t* rows, size_t stride, uint32_t count) {
  for (uint32_t i = 0; i < count; i += 2) {
    const bool pair = i + 1 < count;
    const uint8_t* const in[2] = {rows + i * stride, rows + (pair ? i + 1 : i) * stride};
    uint8_t* const spare = kept_.data() + kept_rows_ * kept_stride_;
    uint8_t* const out[2] = {kept(added_ + i), pair ? kept(added_ + i + 1) : spare};
    narrow_kernels_->shrink_rows_rgb(in, packed_, out);
  }
}

void Resizer::narrow_grey(const uint8_t* row, uint8_t* out) const {
  for (uint32_t x = 0; x < across_.outputs(); ++x) {
    const uint8_t* pixels = row + (across_.begin(x) - across_.first());
    const int32_t* weights = across_.weights(x);
    int32_t sum = 1 << (kWeightBits - 1);
    for (uint32_t i = 0; i < across_.count(x); ++i) sum += pixels[i] * weights[i];
    out[x] = static_cast<uint8_t>(std::min(sum >> kWeightBits, 255));
  }
}

void Resizer::add(const uint8_t* rows, size_t stride, uint32_t count) {
  if (pixel_bytes_ == 3) {
    narrow_rgb(rows, stride, count);
  } else {
    for (uint32_t i = 0; i < count; ++i) narrow_grey(rows + i * stride, kept(added_ + i));
  }
  added_ += count;
}

bool Resizer::take(uint8_t* out) {
  if (taken_ == down_.outputs()) return false;
  const uint32_t begin = down_.begin(taken_);
  const uint32_t count = down_.count(taken_);
  if (begin + count > added_) return false;
  for (uint32_t i = 0; i < count; ++i) taps_[i] = kept(begin + i);
  kernels().blend_rows(taps_.data(), down_.weights(taken_), count,
                       size_t{across_.outputs()} * pixel_bytes_, out);
  ++taken_;
  return true;
}

}  // namespace penstock::decode
