// Who takes which position of an epoch. A step takes world_size x batch_size positions in a row; of
// those a rank takes the ones that leave its number when divided by the world size. So position p is
// always with rank p mod world_size, wherever a run was resumed: with an order by streams, a rank
// keeps its streams.
#pragma once

#include <cstdint>

#include "penstock/loader.h"

namespace penstock::loader {

struct Deal {
  uint64_t positions = 0;  // Of the epoch.
  uint64_t begin = 0;      // The first that nobody took yet.
  uint32_t rank = 0;
  uint32_t world_size = 1;
  uint32_t batch_size = 1;
  Last last = Last::kDrop;

  // kInvalid when rank, sizes or `last` do not fit, and what would.
  Result<void> check() const;
  uint64_t step_positions() const { return uint64_t{world_size} * batch_size; }
  uint64_t steps() const;  // From `begin` to the end.

  struct Taken {
    uint64_t position = 0;
    bool padding = false;
  };
  // What this rank has in `slot` of the batch of `step`, counted from `begin`.
  Taken take(uint64_t step, uint32_t slot) const;
};

}  // namespace penstock::loader
