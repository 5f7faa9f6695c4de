// Several sources at once, each with a weight. Positions never end. In every stretch of kBlock
// positions a source has exactly its share, at places that differ from stretch to stretch, so that
// which source is at a position, and how many of that source came before it, is computed, not
// counted.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/result.h"

namespace penstock::loader {

class Mixture {
 public:
  static constexpr uint64_t kBlock = 10'000;

  // Weights are relative. kInvalid for none, for one that is not above 0 or not finite, and for one
  // whose share is less than one in kBlock.
  static Result<Mixture> create(const std::vector<double>& weights, uint64_t seed);

  struct Pick {
    uint32_t source = 0;
    uint64_t index = 0;  // How many of that source came before.
  };
  Pick pick(uint64_t position) const;
  // Of kBlock positions.
  const std::vector<uint64_t>& shares() const { return shares_; }

 private:
  uint64_t seed_ = 0;
  std::vector<uint64_t> shares_;
  std::vector<uint64_t> begins_;  // Sums of the shares before.
};

}  // namespace penstock::loader
