#include "cache/turn.h"

#include <cmath>
#include <numeric>

namespace penstock::cache {

namespace {

// Headers, paddings and ends of samples that stick out: what counts as read once over.
constexpr uint32_t kTurnShare = kWhole / 8 * 7;
// So many intervals are a distribution. A few may be mistaken identities of ghosts.
constexpr float kWeightMin = 16;

}  // namespace

uint32_t share_of(uint64_t bytes, uint32_t file_blocks) {
  const uint64_t data_blocks = std::max<uint64_t>(file_blocks, 2) - 1;
  const uint64_t read_blocks =
      std::min<uint64_t>(bytes / kBlockBytes + (bytes % kBlockBytes != 0), data_blocks);
  return static_cast<uint32_t>(read_blocks * kWhole / data_blocks);
}

bool Turn::add(uint32_t share, uint64_t elapsed, double* length) {
  const uint32_t sum = read + share;
  read = static_cast<uint16_t>(std::min<uint32_t>(sum, UINT16_MAX));
  if (sum < kTurnShare || elapsed == 0) return false;
  // Read nearly whole is whole: the rest is header.
  const double times = sum <= kWhole ? 1.0 : static_cast<double>(sum) / kWhole;
  *length = static_cast<double>(elapsed) / times;
  const auto x = static_cast<float>(*length);
  if (count == 0) {
    bytes = x;
    spread = 32;
  } else {
    // A plain mean at first, as the turns of a shuffled loop make up for each other.
    const float weight = std::max(0.25F, 1.0F / static_cast<float>(count + 1));
    float deviation = static_cast<float>(spread) / 64.0F * bytes;
    deviation += (std::abs(x - bytes) - deviation) * weight;
    bytes += (x - bytes) * weight;
    spread = static_cast<uint8_t>(std::min(255.0F, deviation / bytes * 64.0F));
  }
  count = static_cast<uint8_t>(std::min(255, count + 1));
  read = 0;
  return true;
}

void Intervals::add(double bytes) {
  const double at = std::floor(std::log2(std::max(bytes, 1.0)) * kPerOctave);
  weights_[std::min(weights_.size() - 1, static_cast<size_t>(at))] += 1;
  if (until_fade_-- == 0) {
    // Ten steps to one half.
    for (float& weight : weights_) weight *= 0.933F;
    until_fade_ = memory_ / 10;
  }
  if (until_update_-- == 0) {
    update();
    until_update_ = 16;
  }
}

void Intervals::update() {
  const float total = std::accumulate(weights_.begin(), weights_.end(), 0.0F);
  float above = 0;
  size_t at = weights_.size() - 1;
  while (at > 0 && above + weights_[at] <= total * 0.01F) above += weights_[at--];
  nearly_all_ = total >= kWeightMin ? std::exp2(static_cast<double>(at + 1) / kPerOctave) : 0;
}

bool Intervals::set_weights(const Weights& weights) {
  if (!std::ranges::all_of(weights, [](float w) { return w >= 0 && w <= 1e12F; })) return false;
  weights_ = weights;
  update();
  return true;
}

}  // namespace penstock::cache
