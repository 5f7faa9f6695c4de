// Which sample comes when. A pure function of (seed, epoch, position), of constant cost, that does
// not know of ranks, batches or threads: those only decide who takes which position (see deal.h).
//
//   none       as they lie
//   global     any sample anywhere
//   local      a fixed number of streams, each a stable stretch of the data; position p belongs to
//              stream p mod streams. A stream goes through its stretch window by window, the windows
//              in another order each epoch and the samples of a window too. Who always takes the
//              same streams reads the same shards in every epoch, and can keep them.
//   resampled  each position a sample by chance, with replacement
//
// Threads: all const calls from any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "loader/permutation.h"
#include "penstock/loader.h"

namespace penstock::loader {

struct OrderOptions {
  Shuffle shuffle = Shuffle::kNone;
  uint64_t seed = 0;
  uint32_t streams = kStreamsDefault;  // kLocal; fewer when there are fewer samples.
  uint64_t window_samples = 1;         // kLocal.
  bool in_order = false;               // kLocal: windows stay in their places.
};

class Order {
 public:
  // `shard_samples`: how many samples each shard has; not all 0.
  Order(const OrderOptions& options, const std::vector<uint64_t>& shard_samples);

  uint64_t samples() const { return samples_; }
  uint32_t streams() const { return streams_; }  // In use; 1 unless kLocal.

  // The order of one epoch, with what is computed once for it.
  class Epoch {
   public:
    Epoch(const Order& order, uint64_t epoch);
    // The sample at `position`, of which there are as many as samples. Requires position < samples().
    uint64_t sample(uint64_t position) const;

   private:
    uint64_t in_stream(uint64_t stream, uint64_t index) const;

    const Order* order_;
    uint64_t seed_;
    Permutation all_;
  };

 private:
  uint64_t stable_sample(uint64_t number) const;

  OrderOptions options_;
  uint64_t samples_ = 0;
  uint32_t streams_ = 1;
  // kLocal: shards in an order of their own, which is the same in every epoch: where each begins in
  // it (one more at the end), and in the dataset.
  std::vector<uint64_t> begins_;
  std::vector<uint64_t> first_samples_;
};

}  // namespace penstock::loader
