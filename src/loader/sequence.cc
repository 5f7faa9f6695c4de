#include "loader/sequence.h"

#include <fmt/core.h>

#include <numeric>

namespace penstock::loader {

namespace {

uint64_t sum(const std::vector<uint64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), uint64_t{0});
}

// The next number from `from` on, either way, that `world_size` divides.
std::string fitting_streams(uint32_t streams, uint32_t world_size) {
  const uint32_t below = streams / world_size * world_size;
  const uint32_t above = below + world_size;
  return below > 0 ? fmt::format("{} or {}", below, above) : fmt::format("{}", above);
}

Result<void> check(const LoaderOptions& options, uint32_t streams) {
  if (options.sources.empty()) return make_error(ErrorCode::kInvalid, "no sources");
  if (options.shuffle != Shuffle::kLocal) return {};
  if (streams == 0) return make_error(ErrorCode::kInvalid, "streams is 0: at least 1");
  if (streams % options.world_size == 0) return {};
  return make_error(
      ErrorCode::kInvalid,
      fmt::format("shuffle='local': world_size {} does not divide {} streams; use streams={}",
                  options.world_size, streams, fitting_streams(streams, options.world_size)));
}

}  // namespace

Result<Sequence> Sequence::create(const LoaderOptions& options,
                                  const std::vector<std::vector<uint64_t>>& shard_samples,
                                  const std::vector<uint64_t>& bytes, bool compressed) {
  Sequence sequence;
  sequence.seed_ = options.seed;
  sequence.shuffle_ = options.shuffle;
  uint64_t samples = 0;
  uint64_t all_bytes = 0;
  for (const auto& shards : shard_samples) samples += sum(shards);
  for (const uint64_t one : bytes) all_bytes += one;
  const uint64_t each = std::max<uint64_t>(1, samples > 0 ? all_bytes / samples : 1);
  sequence.window_samples_ = std::max<uint64_t>(1, options.window_bytes / each);
  sequence.positions_ = samples;
  if (options.sources.size() > 1) {
    std::vector<double> weights;
    for (const Source& source : options.sources) weights.push_back(source.weight);
    sequence.mixture_ = PENSTOCK_TRY(Mixture::create(weights, options.seed));
    if (options.epoch_samples > 0) sequence.positions_ = options.epoch_samples;
  }
  sequence.deal_ = {.positions = sequence.positions_,
                    .rank = options.rank,
                    .world_size = options.world_size,
                    .batch_size = options.batch_size,
                    .last = options.last};
  PENSTOCK_TRY(sequence.deal_.check());
  // A stream of a compressed shard begins with decompressing what is in front of it.
  uint32_t streams = options.streams;
  for (const auto& shards : shard_samples) {
    if (compressed) streams = std::min<uint32_t>(streams, static_cast<uint32_t>(shards.size()));
  }
  PENSTOCK_TRY(check(options, streams));
  for (const auto& shards : shard_samples) {
    sequence.orders_.push_back(
        std::make_shared<const Order>(OrderOptions{.shuffle = options.shuffle,
                                                   .seed = options.seed,
                                                   .streams = options.streams,
                                                   .window_samples = sequence.window_samples_},
                                      shards));
  }
  if (sequence.deal_.steps() == 0) {
    return make_error(
        ErrorCode::kInvalid,
        fmt::format("{} sample{} not fill one step of {} (batch_size {} x world_size "
                    "{}): use last='pad', or a smaller batch",
                    sequence.positions_, sequence.positions_ == 1 ? " does" : "s do",
                    sequence.deal_.step_positions(), options.batch_size, options.world_size));
  }
  return sequence;
}

Deal Sequence::deal(uint64_t begin) const {
  Deal deal = deal_;
  deal.begin = begin;
  return deal;
}

BatchOrder::Slot Sequence::slot(uint64_t epoch, uint64_t position) const {
  BatchOrder::Slot slot;
  if (mixture_) {
    const Mixture::Pick pick = mixture_->pick(epoch * positions_ + position);
    const Order& order = *orders_[pick.source];
    slot.source = pick.source;
    slot.sample =
        Order::Epoch(order, pick.index / order.samples()).sample(pick.index % order.samples());
  } else {
    slot.sample = Order::Epoch(*orders_.front(), epoch).sample(position);
  }
  const uint64_t one = shuffle_ == Shuffle::kResampled ? position : slot.sample;
  slot.random = mix(mix(seed_, epoch), mix(slot.source, one));
  return slot;
}

BatchOrder Sequence::batch(uint64_t epoch, const Deal& deal, uint64_t step) const {
  BatchOrder order;
  order.epoch = epoch;
  order.step = deal.begin / deal.step_positions() + step;
  order.slots.reserve(deal.batch_size);
  for (uint32_t i = 0; i < deal.batch_size; ++i) {
    const Deal::Taken taken = deal.take(step, i);
    BatchOrder::Slot& one = order.slots.emplace_back(slot(epoch, taken.position));
    one.padding = taken.padding;
  }
  return order;
}

State Sequence::state() const {
  State state;
  state.seed = seed_;
  state.shuffle = shuffle_;
  state.streams = orders_.front()->streams();
  state.window_samples = shuffle_ == Shuffle::kLocal ? window_samples_ : 0;
  for (const auto& order : orders_) state.samples.push_back(order->samples());
  return state;
}

}  // namespace penstock::loader
