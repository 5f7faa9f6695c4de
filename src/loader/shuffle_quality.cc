#include "loader/shuffle_quality.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <unordered_map>

namespace penstock::loader {

namespace {

// Expected number of different shards among `draws` samples without regard to order.
double perfect_shards(const std::vector<uint64_t>& shard_samples, uint64_t samples,
                      uint64_t draws) {
  double expected = 0;
  for (const uint64_t count : shard_samples) {
    const double share = static_cast<double>(count) / static_cast<double>(samples);
    expected += 1 - std::pow(1 - share, static_cast<double>(draws));
  }
  return expected;
}

}  // namespace

ShuffleQuality measure_shuffle(const Order& order, const std::vector<uint64_t>& shard_samples,
                               uint64_t batch_size, uint64_t positions_max) {
  std::vector<uint64_t> ends(shard_samples.size());
  std::inclusive_scan(shard_samples.begin(), shard_samples.end(), ends.begin());
  const auto shard_of = [&](uint64_t sample) {
    return std::upper_bound(ends.begin(), ends.end(), sample) - ends.begin();
  };
  const uint64_t looked = std::min(order.samples(), positions_max);
  const uint64_t batch = std::min(batch_size, looked);
  const Order::Epoch epoch(order, 0);
  std::unordered_map<uint64_t, uint64_t> position_of;
  std::set<ptrdiff_t> shards;
  double shards_sum = 0;
  uint64_t batches = 0;
  for (uint64_t position = 0; position < looked; ++position) {
    const uint64_t sample = epoch.sample(position);
    position_of[sample] = position;
    shards.insert(shard_of(sample));
    if ((position + 1) % batch != 0) continue;
    shards_sum += static_cast<double>(shards.size());
    shards.clear();
    ++batches;
  }
  double apart = 0;
  uint64_t pairs = 0;
  for (const auto& [sample, position] : position_of) {
    const auto next = position_of.find(sample + 1);
    if (next == position_of.end()) continue;
    apart += std::abs(static_cast<double>(position) - static_cast<double>(next->second));
    ++pairs;
  }
  ShuffleQuality quality;
  quality.shards_per_batch = shards_sum / static_cast<double>(std::max<uint64_t>(1, batches));
  quality.shards_per_batch_perfect = perfect_shards(shard_samples, order.samples(), batch);
  if (pairs > 0)
    quality.neighbours_apart = apart / static_cast<double>(pairs) / static_cast<double>(looked);
  return quality;
}

}  // namespace penstock::loader
