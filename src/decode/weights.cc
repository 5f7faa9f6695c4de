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

void AxisWeights::plan_taps(const AxisSource& source, uint32_t outputs, bool mirrored) {
  taps_.resize(outputs);
  first_ = source.size;
  end_ = 0;
  uint32_t widest = 0;
  for (uint32_t i = 0; i < outputs; ++i) {
    Taps& taps = taps_[mirrored ? outputs - 1 - i : i];
    taps.center = source.origin + (i + source.offset + 0.5) * source.step;
    taps.begin = std::min(whole(taps.center - reach_ + 0.5), source.size - 1);
    const uint32_t end = whole(taps.center + reach_ + 0.5);
    taps.count = std::clamp(end, taps.begin + 1, source.size) - taps.begin;
    first_ = std::min(first_, taps.begin);
    end_ = std::max(end_, taps.begin + taps.count);
    widest = std::max(widest, taps.count);
  }
  stride_ = (widest + 3) / 4 * 4;
}

void AxisWeights::plan_weights(const Taps& taps, int32_t* weights) {
  const double narrow = 1 / reach_;
  double sum = 0;
  for (uint32_t i = 0; i < taps.count; ++i) {
    exact_[i] = triangle((i + taps.begin - taps.center + 0.5) * narrow);
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
  plan_taps(source, outputs, mirrored);
  weights_.resize(size_t{outputs} * stride_);
  exact_.resize(stride_);
  for (uint32_t i = 0; i < outputs; ++i) {
    plan_weights(taps_[i], weights_.data() + size_t{i} * stride_);
  }
}

}  // namespace penstock::decode
