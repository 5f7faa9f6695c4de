#include "loader/permutation.h"

#include <bit>
#include <cassert>

namespace penstock::loader {

Permutation::Permutation(uint64_t seed, uint64_t size) : size_(size), seed_(seed) {
  assert(size > 0);
  const auto bits = static_cast<int>(size > 1 ? std::bit_width(size - 1) : 0);
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
  // A round moves few bits where there are few: more of them make up for it.
  rounds_ = bits < 16 ? 4 * kRounds : kRounds;
}

uint64_t Permutation::operator()(uint64_t index) const {
  assert(index < size_);
  if (low_bits_ == 0) {
    // One or two of them: a network has nothing to work with.
    return size_ == 2 ? index ^ (mix(seed_, 2) & 1) : index;
  }
  do {
    index = encrypt(index);
  } while (index >= size_);
  return index;
}

// Each round changes one half by what the other one and the key say, and can be undone: so the whole
// is a bijection whatever the mixing function does.
uint64_t Permutation::encrypt(uint64_t value) const {
  const uint64_t low_mask = (uint64_t{1} << low_bits_) - 1;
  const uint64_t high_mask = (uint64_t{1} << high_bits_) - 1;
  uint64_t low = value & low_mask;
  uint64_t high = value >> low_bits_;
  for (int round = 0; round < rounds_; round += 2) {
    high ^= mix(seed_ + static_cast<uint64_t>(round), low) & high_mask;
    low ^= mix(seed_ + static_cast<uint64_t>(round) + 1, high) & low_mask;
  }
  return (high << low_bits_) | low;
}

}  // namespace penstock::loader
