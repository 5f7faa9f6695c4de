#include "loader/stage_ahead.h"

#include <algorithm>

#include "base/log.h"
#include "base/metrics.h"
#include "base/thread_pool.h"

namespace penstock::loader {

namespace {

constexpr uint32_t kParallel = 8;
// Told and not yet there: enough to keep the stager busy, and little enough to stop soon.
constexpr uint64_t kPendingBytes = 16 * StageAhead::kPieceBytes;
// Of what the cache may use, so much is left alone: counts lag behind, and headers take room too.
constexpr uint64_t kSpareShare = 16;

Counter& staged_total() {
  static Counter& counter = Metrics::global().counter(
      "penstock_loader_staged_bytes_total", "bytes fetched into a cache ahead of a loader's reads");
  return counter;
}

Counter& failed_total() {
  static Counter& counter = Metrics::global().counter(
      "penstock_loader_stage_failed_bytes_total",
      "bytes that could not be fetched ahead; their reads ask the source");
  return counter;
}

uint64_t pieces_in(const data::Shard& shard) {
  if (shard.loose) return shard.samples;
  if (shard.compression != data::Compression::kNone) return 1;
  return (shard.size + StageAhead::kPieceBytes - 1) / StageAhead::kPieceBytes;
}

void add(cache::Stager::Progress& sum, const cache::Stager::Progress& one) {
  sum.expected_bytes += one.expected_bytes;
  sum.staged_bytes += one.staged_bytes;
  sum.fetched_bytes += one.fetched_bytes;
  sum.pending_bytes += one.pending_bytes;
  sum.finished_bytes += one.finished_bytes;
  sum.failed_bytes += one.failed_bytes;
}

}  // namespace

std::unique_ptr<StageAhead> StageAhead::create(const Sequence& sequence,
                                               BatchWork::Datasets datasets, Options options) {
  std::unique_ptr<StageAhead> made(
      new StageAhead(sequence, std::move(datasets), std::move(options)));
  return made->cache_ != nullptr && made->make_stagers() ? std::move(made) : nullptr;
}

StageAhead::StageAhead(const Sequence& sequence, BatchWork::Datasets datasets, Options options)
    : sequence_(sequence), datasets_(std::move(datasets)), options_(std::move(options)) {
  for (const auto& dataset : datasets_) {
    if (dataset->cache() == nullptr || dataset->local()) continue;
    cache_ = dataset->cache();
    epoch_bytes_ += dataset->bytes();
  }
  // Other orders touch nearly every piece on every rank.
  if (options_.shuffle == Shuffle::kLocal) epoch_bytes_ /= options_.world_size;
  for (const auto& dataset : datasets_) {
    for (const data::Shard& shard : dataset->shards()) pieces_ += pieces_in(shard);
  }
}

bool StageAhead::make_stagers() {
  bool any = false;
  stagers_.clear();
  for (const auto& dataset : datasets_) {
    auto& of_source = stagers_.emplace_back();
    uint32_t stores = 0;
    for (const data::Shard& shard : dataset->shards()) stores = std::max(stores, shard.store + 1);
    for (uint32_t store = 0; store < stores; ++store) {
      // How much lies ahead is decided here.
      of_source.push_back(dataset->make_stager(
          store, {.ahead_bytes = UINT64_MAX, .bytes_per_second = 0, .parallel = kParallel}));
      any |= of_source.back() != nullptr;
    }
  }
  return any;
}

void StageAhead::start(uint64_t epoch, uint64_t begin) {
  walk_ = {.epoch = epoch, .deal = sequence_.deal(begin)};
  pieces_once_ = 0;
  once_.assign(datasets_.size(), {});
  for (size_t i = 0; i < datasets_.size(); ++i) once_[i].resize(datasets_[i]->shards().size());
  const std::lock_guard lock(mutex_);
  begun_ = delivered_ = 0;
  if (stagers_.empty()) make_stagers();
  thread_ = std::jthread([this](const std::stop_token& stop) {
    set_thread_name("load-stage");
    run(stop);
  });
}

void StageAhead::stop() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
    thread_ = {};
  }
  told_.clear();
  std::vector<std::vector<std::unique_ptr<cache::Stager>>> gone;
  publish();
  const std::lock_guard lock(mutex_);
  const cache::Stager::Progress last = progress();
  before_.bytes += last.fetched_bytes;
  before_.failed_bytes += last.failed_bytes;
  gone.swap(stagers_);
}

// To the metrics of the process, what came since the last time.
void StageAhead::publish() {
  const Staged now = staged();
  staged_total().add(now.bytes - published_.bytes);
  failed_total().add(now.failed_bytes - published_.failed_bytes);
  published_ = now;
}

void StageAhead::begun() {
  const std::lock_guard lock(mutex_);
  ++begun_;
  changed_.notify_all();
}

void StageAhead::delivered() {
  const std::lock_guard lock(mutex_);
  ++delivered_;
  changed_.notify_all();
}

cache::Stager::Progress StageAhead::progress() const {
  cache::Stager::Progress sum;
  for (const auto& of_source : stagers_) {
    for (const auto& stager : of_source) {
      if (stager != nullptr) add(sum, stager->progress());
    }
  }
  return sum;
}

Staged StageAhead::staged() const {
  const std::lock_guard lock(mutex_);
  const cache::Stager::Progress now = progress();
  Staged all = before_;
  all.bytes += now.fetched_bytes;
  all.failed_bytes += now.failed_bytes;
  all.ahead_bytes = now.expected_bytes - now.finished_bytes - now.pending_bytes;
  return all;
}

void StageAhead::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    finish_delivered();
    publish();
    const bool over = is_over();
    if (!over && go_on() && tell_next()) continue;
    std::unique_lock lock(mutex_);
    if (over && told_.empty()) return;
    changed_.wait_for(lock, stop, options_.tick, [] { return false; });
  }
}

// Each piece was told; or all of an epoch that is like the next one, or of enough that are not.
bool StageAhead::is_over() const {
  if (!each_once(room())) return false;
  const bool same_every_epoch =
      options_.shuffle == Shuffle::kNone || options_.shuffle == Shuffle::kLocal;
  const uint64_t steps = std::max<uint64_t>(1, sequence_.deal(0).steps());
  return pieces_once_ == pieces_ || walk_.number >= (same_every_epoch ? steps : 4 * steps);
}

bool StageAhead::go_on() {
  uint64_t begun = 0;
  uint64_t pending = 0;
  {
    const std::lock_guard lock(mutex_);
    begun = begun_;
    pending = progress().pending_bytes;
  }
  if (begun == 0 || pending >= kPendingBytes || !options_.is_calm()) return false;
  skip_to(begun);
  // Further than that nothing new comes.
  return walk_.number < begun + std::max<uint64_t>(1, sequence_.deal(0).steps());
}

// What is read already needs no staging.
void StageAhead::skip_to(uint64_t number) {
  while (walk_.number < number) {
    const uint64_t left = walk_.deal.steps() - walk_.step;
    const uint64_t step = std::min(left, number - walk_.number);
    walk_.step += step;
    walk_.number += step;
    if (walk_.step < walk_.deal.steps()) continue;
    ++walk_.epoch;
    walk_.deal = sequence_.deal(0);
    walk_.step = 0;
  }
}

StageAhead::Room StageAhead::room() const {
  const cache::CacheStats now = cache_->stats();
  const uint64_t usable = now.limit_bytes - now.limit_bytes / kSpareShare;
  return {.fits = epoch_bytes_ <= usable,
          .free = usable > now.used_bytes ? usable - now.used_bytes : 0,
          .limit = now.limit_bytes};
}

bool StageAhead::each_once(const Room& room) const {
  return room.fits || (options_.shuffle != Shuffle::kNone && options_.shuffle != Shuffle::kLocal);
}

// The next batch of the walk. False, and nothing done, when there is no room for it.
bool StageAhead::tell_next() {
  if (walk_.step >= walk_.deal.steps()) skip_to(walk_.number);  // An epoch without steps.
  Pieces pieces = pieces_of(sequence_.batch(walk_.epoch, walk_.deal, walk_.step));
  const Room now = room();
  const bool once = each_once(now);
  if (once) leave_out_told(pieces);
  uint64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += bytes_of(piece);
  std::unique_lock lock(mutex_);
  const cache::Stager::Progress so_far = progress();
  if (once) {
    if (bytes + so_far.pending_bytes > now.free) return false;
  } else {
    // What was finished is thrown out for what comes. In a cache that is full of others, a little must
    // come in first: as much as it keeps free for that.
    const uint64_t ahead = so_far.expected_bytes - so_far.finished_bytes;
    const uint64_t most =
        std::clamp(now.free + std::min(so_far.finished_bytes, now.limit / 2),
                   now.limit / kSpareShare, std::max(now.limit / 2, now.limit / kSpareShare));
    if (ahead + bytes > most) return false;
  }
  lock.unlock();
  for (const Piece& piece : pieces) {
    if (once) once_[piece.source][piece.shard][piece.index] = true;
    if (once) ++pieces_once_;
    stager_of(piece)->expect(ranges_of(piece));
  }
  if (!pieces.empty()) told_.push_back({walk_.number, std::move(pieces)});
  skip_to(walk_.number + 1);
  return true;
}

void StageAhead::finish_delivered() {
  uint64_t delivered = 0;
  {
    const std::lock_guard lock(mutex_);
    delivered = delivered_;
  }
  while (!told_.empty() && told_.front().number < delivered) {
    for (const Piece& piece : told_.front().pieces) {
      for (const cache::Range& range : ranges_of(piece))
        stager_of(piece)->finished(range, /*again=*/true);
    }
    told_.pop_front();
  }
}

StageAhead::Pieces StageAhead::pieces_of(const BatchOrder& order) {
  Pieces pieces;
  for (const BatchOrder::Slot& slot : order.slots) {
    const Result<data::SamplePlace> place = datasets_[slot.source]->place(slot.sample);
    // Whoever reads it says what is wrong.
    if (place.ok()) add_pieces(slot.source, *place, pieces);
  }
  std::ranges::sort(pieces);
  const auto rest = std::ranges::unique(pieces);
  pieces.erase(rest.begin(), rest.end());
  return pieces;
}

void StageAhead::add_pieces(uint32_t source, const data::SamplePlace& place, Pieces& out) const {
  const data::Shard& shard = datasets_[source]->shards()[place.shard];
  Piece piece{source, place.shard, 0};
  if (stager_of(piece) == nullptr || place.members.empty()) return;
  if (shard.loose) {
    piece.index = place.sample;
    return out.push_back(piece);
  }
  if (shard.version.empty()) return;  // Cannot be cached.
  if (shard.compression != data::Compression::kNone) return out.push_back(piece);
  uint64_t begin = UINT64_MAX;
  uint64_t end = 0;
  for (const data::Member& member : place.members) {
    begin = std::min<uint64_t>(begin, member.offset);
    end = std::max<uint64_t>(end, member.offset + member.size);
  }
  for (piece.index = begin / kPieceBytes; piece.index * kPieceBytes < end; ++piece.index)
    out.push_back(piece);
}

void StageAhead::leave_out_told(Pieces& pieces) {
  std::erase_if(pieces, [this](const Piece& piece) {
    std::vector<bool>& told = once_[piece.source][piece.shard];
    if (told.empty()) {
      const data::Shard& shard = datasets_[piece.source]->shards()[piece.shard];
      told.resize(pieces_in(shard));
    }
    return static_cast<bool>(told[piece.index]);
  });
}

std::vector<cache::Range> StageAhead::ranges_of(const Piece& piece) const {
  data::Dataset& dataset = *datasets_[piece.source];
  const data::Shard& shard = dataset.shards()[piece.shard];
  if (!shard.loose) {
    cache::Range range{shard.key, shard.version, shard.size, piece.index * kPieceBytes,
                       kPieceBytes};
    if (shard.compression != data::Compression::kNone) range.length = shard.size;
    return {std::move(range)};
  }
  std::vector<cache::Range> ranges;
  const Result<data::SamplePlace> place = dataset.place(shard.first_sample + piece.index);
  for (size_t i = 0; place.ok() && i < place->members.size(); ++i) {
    store::ObjectInfo object = dataset.loose_object(*place, i);
    if (object.etag.empty()) continue;
    ranges.push_back({object.key, object.etag, object.size, 0, object.size});
  }
  return ranges;
}

uint64_t StageAhead::bytes_of(const Piece& piece) const {
  uint64_t bytes = 0;
  for (const cache::Range& range : ranges_of(piece))
    bytes += std::min(range.length, range.size - std::min(range.offset, range.size));
  return bytes;
}

cache::Stager* StageAhead::stager_of(const Piece& piece) const {
  const data::Shard& shard = datasets_[piece.source]->shards()[piece.shard];
  return stagers_[piece.source][shard.store].get();
}

}  // namespace penstock::loader
