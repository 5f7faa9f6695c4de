#include "decode/finisher.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "decode/random.h"

namespace penstock::decode {
namespace {

float jitter_factor(const Draws& draws, uint64_t place, double reach) {
  if (reach == 0) return 1;
  return static_cast<float>(draws.uniform(place, std::max(0.0, 1 - reach), 1 + reach));
}

}  // namespace

// `step` apart from `begin` on, the scale and shift of a channel.
void Finisher::set_affine(uint32_t channel, size_t begin, size_t step, Affine& affine) const {
  const double mean = spec_->mean ? (*spec_->mean)[channel] : 0.0;
  const double std = spec_->std ? (*spec_->std)[channel] : 1.0;
  for (size_t i = begin; i < kPeriod; i += step) {
    affine.scale[i] = static_cast<float>(1 / (255 * std));
    affine.shift[i] = static_cast<float>(-mean / std);
  }
}

void Finisher::begin(const ImageSpec& spec, uint64_t random, std::span<std::byte> out) {
  spec_ = &spec;
  out_ = out.data();
  rows_ = 0;
  const Draws draws(random);
  brightness_ = jitter_factor(draws, kPlaceBrightness, spec.brightness);
  contrast_ = jitter_factor(draws, kPlaceContrast, spec.contrast);
  saturation_ = spec.channels == 3 ? jitter_factor(draws, kPlaceSaturation, spec.saturation) : 1;
  const bool interleaved = spec.channels == 3 && spec.layout == Layout::kHwc;
  for (uint32_t c = 0; c < spec.channels; ++c) {
    if (interleaved) {
      set_affine(c, c, 3, affine_[0]);
    } else {
      set_affine(c, 0, 1, affine_[c]);
    }
  }
  stride_ = (row_bytes() + kRowSlackBytes + 63) / 64 * 64;
  image_.resize(contrast_ == 1 ? stride_ : stride_ * spec.height);
  const size_t room = spec.width + kRowSlackBytes;
  planes_.resize(kPlanes * room);
  for (size_t i = 0; i < kPlanes; ++i) plane_[i] = planes_.data() + i * room;
}

uint8_t* Finisher::next_row() {
  return image_.data() + (contrast_ == 1 ? 0 : rows_ * stride_);
}

void Finisher::commit_row() {
  uint8_t* row = next_row();
  if (brightness_ != 1) kernels().blend(0, brightness_, row, row_bytes());
  if (contrast_ == 1) write_row(row, rows_);
  ++rows_;
}

uint64_t Finisher::sum_of_grey(const uint8_t* row) {
  const uint8_t* grey = row;
  if (spec_->channels == 3) {
    split(row);
    kernels().to_grey(plane_, spec_->width, plane_[kGreyPlane]);
    grey = plane_[kGreyPlane];
  }
  return std::accumulate(grey, grey + spec_->width, uint64_t{0});
}

// Away from or towards a grey that is the mean of all.
void Finisher::change_contrast() {
  uint64_t sum = 0;
  for (uint32_t y = 0; y < spec_->height; ++y) sum += sum_of_grey(image_.data() + y * stride_);
  const double count = static_cast<double>(spec_->width) * spec_->height;
  const auto mean = static_cast<uint8_t>(static_cast<double>(sum) / count + 0.5);
  for (uint32_t y = 0; y < spec_->height; ++y) {
    kernels().blend(mean, contrast_, image_.data() + y * stride_, row_bytes());
  }
}

void Finisher::end() {
  if (contrast_ == 1) return;
  change_contrast();
  for (uint32_t y = 0; y < spec_->height; ++y) write_row(image_.data() + y * stride_, y);
}

void Finisher::split(const uint8_t* row) {
  kernels().split_rgb(row, spec_->width, plane_);
}

void Finisher::change_saturation() {
  kernels().to_grey(plane_, spec_->width, plane_[kGreyPlane]);
  for (size_t c = 0; c < 3; ++c) {
    kernels().blend_each(plane_[kGreyPlane], saturation_, plane_[c], spec_->width);
  }
}

void Finisher::join(uint8_t* row) const {
  for (size_t x = 0; x < spec_->width; ++x) {
    for (size_t c = 0; c < 3; ++c) row[3 * x + c] = plane_[c][x];
  }
}

void Finisher::write_row(uint8_t* row, uint32_t y) {
  const bool planar = spec_->channels == 3 && spec_->layout == Layout::kChw;
  const bool saturate = saturation_ != 1;
  if (planar || saturate) split(row);
  if (saturate) change_saturation();
  if (!planar) {
    if (saturate) join(row);
    write_values(row, row_bytes(), affine_[0], y * row_bytes());
    return;
  }
  const size_t width = spec_->width;
  for (size_t c = 0; c < 3; ++c) {
    write_values(plane_[c], width, affine_[c], (c * spec_->height + y) * width);
  }
}

// `at` counts values of the output.
void Finisher::write_values(const uint8_t* values, size_t size, const Affine& affine, size_t at) {
  std::byte* out = out_ + at * dtype_bytes(spec_->dtype);
  switch (spec_->dtype) {
    case DType::kFloat32:
      return kernels().to_float32(values, size, affine, reinterpret_cast<float*>(out));
    case DType::kFloat16:
      return kernels().to_float16(values, size, affine, reinterpret_cast<uint16_t*>(out));
    case DType::kBfloat16:
      return kernels().to_bfloat16(values, size, affine, reinterpret_cast<uint16_t*>(out));
    default:
      std::memcpy(out, values, size);
  }
}

}  // namespace penstock::decode
