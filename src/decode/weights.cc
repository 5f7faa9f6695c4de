#include "decode/weights.h"

#include <algorithm>
#include <cmath>

namespace penstock::decode {
namespace {

double triangle(double x) {
  const double distance = std::abs(x);
  return distance < 1 ? 1 - distance : 0;
}

// Towards zero, and not below it.
uint32_t whole(double x) {
  return x <= 0 ? 0 : static_cast<uint32_t>(x);
}

}  // namespace

void AxisWeights::plan_output(double center, uint32_t size, Taps& taps, int32_t* weights) {
  taps.begin = std::min(whole(center - reach_ + 0.5), size - 1);
  const uint32_t end = std::clamp(whole(center + reach_ + 0.5), taps.begin + 1, size);
  taps.count = end - taps.begin;
  const double narrow = 1 / reach_;
  double sum = 0;
  for (uint32_t i = 0; i < taps.count; ++i) {
    exact_[i] = triangle((i + taps.begin - center + 0.5) * narrow);
    sum += exact_[i];
  }
  for (uint32_t i = 0; i < taps.count; ++i) {
    const double share = sum != 0 ? exact_[i] / sum : exact_[i];
    weights[i] = static_cast<int32_t>(0.5 + share * (1 << kWeightBits));
  }
  std::fill(weights + taps.count, weights + stride_, 0);
}

void AxisWeights::plan(const AxisSource& source, uint32_t outputs, bool mirrored) {
  reach_ = std::max(source.step, 1.0);
  const auto widest =
      std::min<uint32_t>(2 * static_cast<uint32_t>(std::ceil(reach_)) + 1, source.size);
  stride_ = (widest + 3) / 4 * 4;
  taps_.resize(outputs);
  weights_.resize(size_t{outputs} * stride_);
  exact_.resize(stride_);
  first_ = source.size;
  end_ = 0;
  for (uint32_t i = 0; i < outputs; ++i) {
    const double center = source.origin + (i + source.offset + 0.5) * source.step;
    const uint32_t at = mirrored ? outputs - 1 - i : i;
    plan_output(center, source.size, taps_[at], weights_.data() + size_t{at} * stride_);
    first_ = std::min(first_, taps_[at].begin);
    end_ = std::max(end_, taps_[at].begin + taps_[at].count);
  }
}

}  // namespace penstock::decode
