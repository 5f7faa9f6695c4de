// How good a shuffle is, found out from the order alone: nothing is read.
#pragma once

#include <cstdint>

#include "loader/order.h"

namespace penstock::loader {

struct ShuffleQuality {
  // Shards in a batch of all ranks, on average, and how many a perfect shuffle would have.
  double shards_per_batch = 0;
  double shards_per_batch_perfect = 0;
  // How far apart samples that lie side by side come, as a share of the epoch: 0 when nothing is
  // shuffled, a third when all is.
  double neighbours_apart = 0;
};

// Looks at up to `positions_max` positions. `shard_samples` as the order was made with.
ShuffleQuality measure_shuffle(const Order& order, const std::vector<uint64_t>& shard_samples,
                               uint64_t batch_size, uint64_t positions_max = 1'000'000);

}  // namespace penstock::loader
