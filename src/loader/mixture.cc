#include "loader/mixture.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "loader/permutation.h"

namespace penstock::loader {

namespace {

Error refuse_mixture(std::string detail) {
  return make_error(ErrorCode::kInvalid, std::move(detail));
}

// Whole numbers that add up to kBlock, each within one of its exact share: the largest remainders
// get what rounding down left over.
std::vector<uint64_t> whole_shares(const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<uint64_t> shares;
  std::vector<double> rests;
  for (const double weight : weights) {
    const double exact = weight / sum * static_cast<double>(Mixture::kBlock);
    shares.push_back(static_cast<uint64_t>(exact));
    rests.push_back(exact - std::floor(exact));
  }
  uint64_t given = std::accumulate(shares.begin(), shares.end(), uint64_t{0});
  for (; given < Mixture::kBlock; ++given) {
    const auto most = std::max_element(rests.begin(), rests.end());
    ++shares[static_cast<size_t>(most - rests.begin())];
    *most = -1;
  }
  return shares;
}

}  // namespace

Result<Mixture> Mixture::create(const std::vector<double>& weights, uint64_t seed) {
  if (weights.empty()) return refuse_mixture("a mixture of no sources");
  for (const double weight : weights) {
    if (!(weight > 0) || !std::isfinite(weight))
      return refuse_mixture(fmt::format("a weight of {}: above 0", weight));
  }
  Mixture mixture;
  mixture.seed_ = seed;
  mixture.shares_ = whole_shares(weights);
  uint64_t begin = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (mixture.shares_[i] == 0) {
      return refuse_mixture(
          fmt::format("a weight of {} is less than one sample in {}", weights[i], kBlock));
    }
    mixture.begins_.push_back(begin);
    begin += mixture.shares_[i];
  }
  return mixture;
}

Mixture::Pick Mixture::pick(uint64_t position) const {
  const uint64_t block = position / kBlock;
  const uint64_t place = Permutation(mix(seed_, block), kBlock)(position % kBlock);
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), place);
  const auto source = static_cast<size_t>(after - begins_.begin()) - 1;
  return {static_cast<uint32_t>(source), block * shares_[source] + (place - begins_[source])};
}

}  // namespace penstock::loader
