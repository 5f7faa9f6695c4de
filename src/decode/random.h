// Random numbers that are a function of a number and of a place: what is drawn at one place does
// not depend on whether something was drawn at another, so that turning on the flip leaves the
// crops as they were. Integers and IEEE arithmetic only: the same everywhere.
#pragma once

#include <cstdint>

namespace penstock::decode {

// Who draws where. A place, once given, keeps its meaning: results of a seed would change.
inline constexpr uint64_t kPlaceFlip = 0;
inline constexpr uint64_t kPlaceBrightness = 1;
inline constexpr uint64_t kPlaceContrast = 2;
inline constexpr uint64_t kPlaceSaturation = 3;
inline constexpr uint64_t kPlaceCrop = 16;  // Four for each attempt.

class Draws {
 public:
  explicit Draws(uint64_t random) : key_(mix(random)) {}

  uint64_t bits(uint64_t place) const { return mix(key_ + (place + 1) * 0x9e3779b97f4a7c15); }
  // 0 <= x < 1.
  double uniform(uint64_t place) const {
    return static_cast<double>(bits(place) >> 11) * 0x1.0p-53;
  }
  double uniform(uint64_t place, double low, double high) const {
    return low + uniform(place) * (high - low);
  }
  // 0 to n - 1. The bias, n in 2^32, is below what images could show.
  uint32_t below(uint64_t place, uint32_t n) const {
    return static_cast<uint32_t>(((bits(place) >> 32) * n) >> 32);
  }

 private:
  // The finalizer of splitmix64: a bijection whose every output bit depends on every input bit.
  static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  uint64_t key_;
};

}  // namespace penstock::decode
