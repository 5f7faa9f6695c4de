// How much of each source pixel is in each output pixel, in one direction: a triangle as wide as
// two source pixels, or as two output pixels where those are larger. Numbers, rounding included,
// are those of Pillow's BILINEAR, so that results are too.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace penstock::decode {

// Weights are integers of this many fractional bits.
inline constexpr int kWeightBits = 22;

// The centre of output i is at origin + (i + offset + 0.5) * step in a row of `size` pixels.
struct AxisSource {
  uint32_t size = 0;
  double origin = 0;
  uint32_t offset = 0;
  double step = 1;
};

class AxisWeights {
 public:
  // `mirrored`: output i is that of outputs - 1 - i. Keeps its memory.
  void plan(const AxisSource& source, uint32_t outputs, bool mirrored);

  uint32_t outputs() const { return static_cast<uint32_t>(taps_.size()); }
  // The pixels that any output needs: [first, end).
  uint32_t first() const { return first_; }
  uint32_t end() const { return end_; }
  // The first pixel that output i needs, how many, and their weights; weights up to stride() are
  // there, and 0.
  uint32_t begin(uint32_t i) const { return taps_[i].begin; }
  uint32_t count(uint32_t i) const { return taps_[i].count; }
  const int32_t* weights(uint32_t i) const { return weights_.data() + size_t{i} * stride_; }
  // A multiple of four, at least the largest count().
  uint32_t stride() const { return stride_; }

 private:
  struct Taps {
    double center;
    uint32_t begin;
    uint32_t count;
  };
  void plan_taps(const AxisSource& source, uint32_t outputs, bool mirrored);
  void plan_weights(const Taps& taps, int32_t* weights);

  double reach_ = 1;  // Half the width of the triangle.
  uint32_t stride_ = 0;
  uint32_t first_ = 0;
  uint32_t end_ = 0;
  std::vector<Taps> taps_;
  std::vector<int32_t> weights_;
  std::vector<double> exact_;  // Of the output being planned.
};

}  // namespace penstock::decode
