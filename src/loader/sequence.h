// What comes at each position of an epoch, from one source or from several.
// Threads: all const calls from any thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "loader/batch_work.h"
#include "loader/deal.h"
#include "loader/mixture.h"
#include "loader/order.h"

namespace penstock::loader {

class Sequence {
 public:
  // `shard_samples` of each source. kInvalid when the weights, streams or ranks make no sense.
  static Result<Sequence> create(const LoaderOptions& options,
                                 const std::vector<std::vector<uint64_t>>& shard_samples,
                                 const std::vector<uint64_t>& bytes, bool compressed = false);

  uint64_t positions() const { return positions_; }  // Of an epoch.
  // What this rank takes at `step`, counted from `begin`.
  BatchOrder batch(uint64_t epoch, const Deal& deal, uint64_t step) const;
  Deal deal(uint64_t begin) const;
  State state() const;  // Without epoch and position.

 private:
  BatchOrder::Slot slot(uint64_t epoch, uint64_t position) const;

  uint64_t seed_ = 0;
  Shuffle shuffle_ = Shuffle::kNone;
  Deal deal_;
  uint64_t positions_ = 0;
  uint64_t window_samples_ = 1;
  std::vector<std::shared_ptr<const Order>> orders_;
  std::optional<Mixture> mixture_;
};

}  // namespace penstock::loader
