// A shuffle without memory: a bijection of [0, size) that is computed, not stored, so that the
// order of a billion samples takes no memory, and any position of it is found in constant time.
#pragma once

#include <cstdint>

namespace penstock::loader {

// Mixes all bits of both into all bits.
constexpr uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a ^ (b * 0x9e3779b97f4a7c15U + 0x7f4a7c15f39cc060U + (a << 6) + (a >> 2));
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9U;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// Part of the format of saved positions: the same (seed, size) is the same order in every version.
// A Feistel network over the smallest power of two that holds `size`; what falls outside goes
// through it again, which takes less than one extra turn on average.
// Threads: a value.
class Permutation {
 public:
  // Requires size > 0.
  Permutation(uint64_t seed, uint64_t size);

  uint64_t size() const { return size_; }
  // Requires index < size().
  uint64_t operator()(uint64_t index) const;

 private:
  uint64_t encrypt(uint64_t value) const;

  static constexpr int kRounds = 6;
  uint64_t size_;
  uint64_t seed_;
  int low_bits_;
  int high_bits_;
  int rounds_;
};

}  // namespace penstock::loader
