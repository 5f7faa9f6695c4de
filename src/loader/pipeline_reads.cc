// The reads of a batch, and the workers that decode what they bring.
#include <fmt/core.h>

#include <algorithm>

#include "loader/pipeline_shared.h"
#include "loader/token_dataset.h"

namespace penstock::loader {

namespace {

// How a piece comes.
enum class Way : uint8_t {
  kWorker,  // Read by the worker that decodes it, from the page cache.
  kStore,   // By the store or the I/O engine, on its own.
  kFile,    // A file of its own, by a thread that may wait for it.
  kObject,  // The same in a store, which needs none.
  kStream,  // Of a compressed shard, likewise.
};

Way way_of(const BatchWork& batch, const Piece& piece) {
  const data::Dataset& dataset = batch.dataset(piece.slot);
  const data::Shard& shard = dataset.shards()[piece.shard];
  if (shard.loose) return dataset.local() ? Way::kFile : Way::kObject;
  if (shard.compression != data::Compression::kNone) return Way::kStream;
  return dataset.local() && dataset.mode() == io::CacheMode::kBuffered ? Way::kWorker : Way::kStore;
}

uint64_t parts_of(const Piece& piece, uint64_t part_max) {
  return std::max<uint64_t>(1, (piece.length + part_max - 1) / part_max);
}

// See Pipeline::find_slot().
size_t member_of(const Piece& piece) {
  return (piece.object - 1) % 256;
}

Result<void> read_file(BatchWork& batch, const Piece& piece) {
  const data::SamplePlace& place = batch.sample(piece.slot);
  const size_t member = member_of(piece);
  const std::span<std::byte> into = batch.raw().subspan(piece.at, piece.length);
  const uint64_t size = PENSTOCK_TRY(batch.dataset(piece.slot).read_loose(place, member, into));
  if (size == piece.length) return {};
  return make_error(
      ErrorCode::kChanged,
      fmt::format("it has {} bytes and had {} when the dataset was opened", size, piece.length));
}

}  // namespace

void Pipeline::begin_reads(const WorkRef& batch) {
  const ReadPlan& plan = batch->plan;
  const uint64_t part_max = rules_.piece_max;
  // All counts first: reads may end while others are still begun.
  for (uint32_t u = 0; u < plan.units.size(); ++u) {
    const Unit& unit = plan.units[u];
    uint64_t reads = 0;
    for (uint32_t p = unit.first_piece; p < unit.first_piece + unit.pieces; ++p) {
      const Way way = way_of(*batch, plan.pieces[p]);
      if (way == Way::kStore) reads += parts_of(plan.pieces[p], part_max);
      if (way == Way::kFile || way == Way::kObject || way == Way::kStream) ++reads;
      if (way == Way::kWorker) batch->read_by_worker[u] = 1;
    }
    batch->reads_left[u].store(static_cast<uint32_t>(reads) + 1);
  }
  const std::shared_ptr<Stats> stats = shared_->stats();
  for (uint32_t u = 0; u < plan.units.size(); ++u) {
    const Unit& unit = plan.units[u];
    for (uint32_t p = unit.first_piece; p < unit.first_piece + unit.pieces; ++p) {
      begin_read(batch, u, p, stats);
    }
    // The count for having begun them all.
    shared_->begun(batch, u);
  }
}

void Pipeline::begin_read(const WorkRef& batch, uint32_t unit, uint32_t p,
                          const std::shared_ptr<Stats>& stats) {
  // Completions hold a batch of their own kind: a copy of `batch` would be const, and not be let go of
  // by moving it (read_ends()).
  const Piece& piece = batch->plan.pieces[p];
  data::Dataset& dataset = batch->dataset(piece.slot);
  stats->bytes_read.add(piece.length);
  switch (way_of(*batch, piece)) {
    case Way::kWorker:
      stats->reads.add();
      if (options_->fills_page_cache)
        dataset.fill_page_cache(piece.shard, piece.offset, piece.length);
      if (shared_->advise()) dataset.will_need(piece.shard, piece.offset, piece.length);
      return;
    case Way::kFile:
    case Way::kStream:
      stats->reads.add();
      shared_->read_begins();
      readers_->submit([this, shared = shared_, stats, batch = WorkRef(batch), unit, p]() mutable {
        const Clock::time_point begin = Clock::now();
        const Piece& wanted = batch->plan.pieces[p];
        const Result<void> outcome =
            streams_[wanted.source] != nullptr
                ? streams_[wanted.source]->read(wanted.shard, wanted.offset,
                                                batch->raw().subspan(wanted.at, wanted.length))
                : read_file(*batch, wanted);
        stats->read_busy.add(Clock::now() - begin);
        shared->read_ends(std::move(batch), unit, p, outcome);
      });
      return;
    case Way::kObject:
      stats->reads.add();
      stats->storage.begin();
      shared_->read_begins();
      dataset.async_read_loose(batch->sample(piece.slot), member_of(piece),
                               batch->raw_slice(piece.at, piece.length),
                               [shared = shared_, stats, batch = WorkRef(batch), unit,
                                p](const Result<void>& outcome) mutable {
                                 stats->storage.end();
                                 shared->read_ends(std::move(batch), unit, p, outcome);
                               });
      return;
    case Way::kStore:
      break;
  }
  for (uint64_t at = 0; at < piece.length || at == 0; at += rules_.piece_max) {
    const uint64_t length = std::min(rules_.piece_max, piece.length - at);
    stats->reads.add();
    stats->storage.begin();
    shared_->read_begins();
    dataset.async_read(piece.shard, piece.offset + at, batch->raw_slice(piece.at + at, length),
                       [shared = shared_, stats, batch = WorkRef(batch), unit,
                        p](const Result<void>& outcome) mutable {
                         stats->storage.end();
                         shared->read_ends(std::move(batch), unit, p, outcome);
                       });
    if (piece.length == 0) break;
  }
}

void Pipeline::read_unit(BatchWork& batch, uint32_t u, Stats& stats) {
  const Unit& unit = batch.plan.units[u];
  uint64_t bytes = 0;
  const Clock::time_point begin = Clock::now();
  for (uint32_t p = unit.first_piece; p < unit.first_piece + unit.pieces; ++p) {
    const Piece& piece = batch.plan.pieces[p];
    if (way_of(batch, piece) != Way::kWorker) continue;
    bytes += piece.length;
    const Result<void> outcome =
        batch.dataset(piece.slot)
            .read_now(piece.shard, piece.offset, batch.raw().subspan(piece.at, piece.length));
    if (!outcome.ok()) batch.fail_piece(p, outcome.error());
  }
  const Clock::duration took = Clock::now() - begin;
  stats.read_busy.add(took);
  shared_->note_read(bytes, took);
}

// What is read counts only then.
void Pipeline::check_tokens(BatchWork& batch, const Unit& unit) {
  const data::Dataset* checked = nullptr;
  Result<void> outcome;
  for (uint32_t i = unit.first_slot; i < unit.first_slot + unit.slots; ++i) {
    const uint32_t slot = batch.plan.slots[i];
    auto& dataset = static_cast<TokenDataset&>(batch.dataset(slot));
    if (&dataset != checked) outcome = dataset.check_size();
    checked = &dataset;
    if (!outcome.ok()) batch.fail(slot, outcome.error());
  }
}

void Pipeline::note_tokens(const BatchWork& batch, const Unit& unit, Clock::duration took,
                           Stats& stats) {
  uint64_t bytes = 0;
  for (uint32_t i = unit.first_slot; i < unit.first_slot + unit.slots; ++i)
    bytes += static_cast<const TokenDataset&>(batch.dataset(batch.plan.slots[i])).sample_bytes();
  stats.bytes_read.add(bytes);
  stats.reads.add(unit.slots);
  shared_->note_tokens(bytes, took);
}

void Pipeline::run_worker() {
  SlotDecoder decoder;
  Shared::Turn turn;
  while (shared_->pop(turn)) {
    BatchWork& batch = *turn.batch;
    const std::shared_ptr<Stats> stats = shared_->stats();
    if (batch.read_by_worker[turn.unit] != 0) read_unit(batch, turn.unit, *stats);
    const Clock::time_point begin = Clock::now();
    const Unit& unit = batch.plan.units[turn.unit];
    for (uint32_t i = unit.first_slot; i < unit.first_slot + unit.slots; ++i) {
      const uint32_t slot = batch.plan.slots[i];
      const std::optional<Error> lost = batch.read_failure(slot);
      const Result<void> outcome = lost ? Result<void>(*lost) : decoder.decode(batch, slot);
      if (!outcome.ok()) batch.fail(slot, outcome.error());
    }
    const Clock::duration took = Clock::now() - begin;
    stats->decode_busy.add(took);
    if (batch.reads_tokens) {
      check_tokens(batch, unit);
      note_tokens(batch, unit, took, *stats);
    }
    shared_->unit_done(batch);
    turn = {};  // Not kept while waiting for the next.
  }
}

}  // namespace penstock::loader
