#include "loader/order.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <numeric>

namespace penstock::loader {

namespace {

// So that what is decided by one seed does not look like what is decided by the next.
enum Purpose : uint64_t { kAll = 1, kShards, kWindows, kInWindow, kResample };

}  // namespace

std::string_view shuffle_name(Shuffle shuffle) {
  switch (shuffle) {
    case Shuffle::kNone:
      return "none";
    case Shuffle::kGlobal:
      return "global";
    case Shuffle::kLocal:
      return "local";
    case Shuffle::kResampled:
      return "resampled";
  }
  return "none";
}

Result<Shuffle> parse_shuffle(std::string_view name) {
  for (const Shuffle shuffle :
       {Shuffle::kNone, Shuffle::kGlobal, Shuffle::kLocal, Shuffle::kResampled}) {
    if (name == shuffle_name(shuffle)) return shuffle;
  }
  return make_error(ErrorCode::kInvalid,
                    fmt::format("no shuffle '{}': none, global, local or resampled", name));
}

Order::Order(const OrderOptions& options, const std::vector<uint64_t>& shard_samples)
    : options_(options),
      samples_(std::accumulate(shard_samples.begin(), shard_samples.end(), uint64_t{0})) {
  assert(samples_ > 0);
  options_.window_samples = std::max<uint64_t>(1, options.window_samples);
  if (options.shuffle != Shuffle::kLocal) return;
  streams_ = static_cast<uint32_t>(
      std::clamp<uint64_t>(options.streams, 1, std::min<uint64_t>(samples_, UINT32_MAX)));
  std::vector<uint64_t> firsts(shard_samples.size());
  std::exclusive_scan(shard_samples.begin(), shard_samples.end(), firsts.begin(), uint64_t{0});
  const Permutation shards(mix(options.seed, kShards), shard_samples.size());
  uint64_t begin = 0;
  for (uint64_t i = 0; i < shard_samples.size(); ++i) {
    const uint64_t shard = shards(i);
    if (shard_samples[shard] == 0) continue;
    begins_.push_back(begin);
    first_samples_.push_back(firsts[shard]);
    begin += shard_samples[shard];
  }
  begins_.push_back(begin);
}

// The sample that lies at `number` when the shards lie in their stable order.
uint64_t Order::stable_sample(uint64_t number) const {
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), number);
  const auto shard = static_cast<size_t>(after - begins_.begin()) - 1;
  return first_samples_[shard] + (number - begins_[shard]);
}

Order::Epoch::Epoch(const Order& order, uint64_t epoch)
    : order_(&order),
      seed_(mix(order.options_.seed, epoch)),
      all_(mix(seed_, kAll), order.samples_) {}

uint64_t Order::Epoch::sample(uint64_t position) const {
  assert(position < order_->samples_);
  switch (order_->options_.shuffle) {
    case Shuffle::kNone:
      return position;
    case Shuffle::kGlobal:
      return all_(position);
    case Shuffle::kResampled:
      return mix(mix(seed_, kResample), position) % order_->samples_;
    case Shuffle::kLocal:
      break;
  }
  const uint64_t stream = position % order_->streams_;
  return in_stream(stream, position / order_->streams_);
}

// Streams are equal stretches of the stable order; the first ones are longer by one where it does not
// come out even.
uint64_t Order::Epoch::in_stream(uint64_t stream, uint64_t index) const {
  const uint64_t each = order_->samples_ / order_->streams_;
  const uint64_t longer = order_->samples_ % order_->streams_;
  const uint64_t begin = stream * each + std::min(stream, longer);
  const uint64_t length = each + (stream < longer ? 1 : 0);
  const uint64_t window = std::min(order_->options_.window_samples, length);

  // Whole windows change places; what is left over at the end of the stretch stays there.
  const uint64_t whole = length / window;
  const uint64_t place = index / window;
  const uint64_t seed = mix(seed_, stream);
  const uint64_t chosen = place < whole && !order_->options_.in_order
                              ? Permutation(mix(seed, kWindows), whole)(place)
                              : place;
  const uint64_t size = place < whole ? window : length - whole * window;
  const uint64_t inside = Permutation(mix(mix(seed, kInWindow), chosen), size)(index % window);
  return order_->stable_sample(begin + chosen * window + inside);
}

}  // namespace penstock::loader
