// How often the data of an entry is read. A *turn* is how many bytes pass through the cache while
// as many bytes as the entry holds are read from it. In a loop over N bytes every turn is about N,
// whether entries are read whole or in small random samples. One over the turn is what a byte of
// the cache earns by keeping the entry.
// Threads: none; plain values.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "cache/entry.h"

namespace penstock::cache {

// A share of an entry, in units of 1/kWhole.
inline constexpr uint32_t kWhole = 1 << 15;
// `bytes` of an entry whose file has so many blocks, of which one at least is the header.
uint32_t share_of(uint64_t bytes, uint32_t file_blocks);

// What is known of an entry's turns, and how much was read in the one under way.
struct Turn {
  float bytes = 0;     // Mean, newer ones counting more; 0 while none was completed.
  uint16_t read = 0;   // Since the turn began, in units of 1/kWhole.
  uint8_t count = 0;   // Completed; no further than 255.
  uint8_t spread = 0;  // Mean deviation from `bytes`, in 1/64 of it.

  bool known() const { return count > 0; }
  // `share` was read, `elapsed` bytes after the turn began. True when that completed the turn: its
  // length is then in `length`, and the next one begins now.
  bool add(uint32_t share, uint64_t elapsed, double* length);
  // Beyond this age something is odd. In a shuffled loop, where the deviation is less than half,
  // that is soon; where near uses and far ones alternate (two jobs on one way), after a far one.
  double late_after() const {
    const double deviation = spread / 64.0;
    return bytes * (1 + std::max(0.1, 1.2 * deviation * deviation * deviation));
  }
};
static_assert(sizeof(Turn) == 8);

// The distribution of recent intervals: a histogram of their logarithms in which older ones fade.
class Intervals {
 public:
  void add(double bytes);
  // Of the intervals added, those of the last `count` make up about half of the weight.
  void set_memory(uint64_t count) { memory_ = std::max<uint64_t>(count, 256); }
  // Below which 99 % lie, rounded up by less than a tenth; 0 while there are too few to say.
  double nearly_all() const { return nearly_all_; }

  static constexpr int kPerOctave = 8;
  using Weights = std::array<float, 64 * kPerOctave>;
  const Weights& weights() const { return weights_; }
  // False, and unchanged, unless all are finite and none is negative.
  bool set_weights(const Weights& weights);

 private:
  void update();

  Weights weights_{};
  uint64_t memory_ = 256;
  uint64_t until_fade_ = 64;
  uint64_t until_update_ = 0;
  double nearly_all_ = 0;
};

}  // namespace penstock::cache
