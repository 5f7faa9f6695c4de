#include "cache/cached_store.h"

namespace penstock::cache {

namespace {

// Pieces of one call under way at once. What fast drives need, and far stores too.
constexpr uint32_t kPiecesMax = 32;

// How many of `bytes` are handed out for the first time since they came from the source.
uint64_t take_unread(const WindowBytes& window, uint64_t bytes) {
  if (!window.unread) return 0;
  uint64_t left = window.unread->load(std::memory_order_relaxed);
  while (!window.unread->compare_exchange_weak(left, left - std::min(left, bytes),
                                               std::memory_order_relaxed)) {
  }
  return std::min(left, bytes);
}

}  // namespace

void CachedStoreImpl::pump(const CallRef& call) {
  if (!call->enter_pump()) return;
  do {
    while (const std::optional<Piece> piece = call->next_piece(kPiecesMax)) {
      read_piece(call, *piece);
    }
  } while (!call->leave_pump());
}

void CachedStoreImpl::end_piece(const CallRef& call, const Result<void>& outcome) {
  if (call->piece_done(outcome)) return complete(call);
  pump(call);
}

void CachedStoreImpl::note_used(const EntryId& id, uint64_t bytes) {
  if (const std::shared_ptr<Keeper> keeper = core_->tier_for(id).keeper())
    keeper->note_used(id, bytes);
}

void CachedStoreImpl::note_missed(const EntryId& id, uint64_t bytes) {
  if (const std::shared_ptr<Keeper> keeper = core_->tier_for(id).keeper())
    keeper->note_missed(id, bytes);
}

void CachedStoreImpl::count_read(const EntryId& id, uint64_t hit_bytes, uint64_t miss_bytes) {
  if (const std::shared_ptr<Keeper> keeper = core_->tier_for(id).keeper())
    keeper->count_read(hit_bytes, miss_bytes);
}

void CachedStoreImpl::read_piece(const CallRef& call, const Piece& piece) {
  const Place place = place_of(*call->version(), piece.window);
  if (call->options().bypass_cache) return bypass(call, piece, place);
  WindowBytes window;
  bool is_ready = false;
  if (core_->windows().join_existing(place.id, waiter_for(call, piece, place.id), &window,
                                     &is_ready)) {
    if (!is_ready) return;
    give(call, piece, place.id, window, /*was_in_memory=*/true);
    return end_piece(call, {});
  }
  if (call->pattern().sequential && call->into().size() < kSmallRead) {
    return load({.pass = enter(), .version = call->version(), .place = place},
                waiter_for(call, piece, place.id));
  }
  read_from_drive(call, piece, place);
}

// Somebody else loads the window: the piece is copied from it when it is there.
MemoryWindows::Waiter CachedStoreImpl::waiter_for(const CallRef& call, const Piece& piece,
                                                  const EntryId& id) {
  return [this, call, piece, id](const Result<WindowBytes>& window) {
    if (window.ok()) {
      give(call, piece, id, *window, /*was_in_memory=*/false);
      return end_piece(call, {});
    }
    // It was only read ahead, and there was no memory for that.
    if (window.error().code == ErrorCode::kBusy) {
      return core_->when_memory([this, call, piece] { read_piece(call, piece); });
    }
    end_piece(call, window.error());
  };
}

void CachedStoreImpl::give(const CallRef& call, const Piece& piece, const EntryId& id,
                           const WindowBytes& window, bool was_in_memory) {
  const size_t bytes = piece.into.size();
  CacheCounters& counters = core_->counters();
  if (was_in_memory) {
    counters.memory_hits.add();
    counters.memory_hit_bytes.add(bytes);
    note_used(id, bytes);
  } else if (window.from_source) {
    counters.misses.add();
    counters.miss_bytes.add(bytes);
    note_missed(id, bytes);
    streams_.missed(call->version()->id.low);
  } else {
    counters.hits.add();
    counters.hit_bytes.add(bytes);
    note_used(id, bytes);
  }
  const uint64_t missed_bytes = take_unread(window, bytes);
  count_read(id, bytes - missed_bytes, missed_bytes);
  const bool first_copy =
      window.hashes && window.hashes->known().empty() && bytes == window.data.size();
  (void)call->copy(piece.into, window.data.subspan(piece.begin, bytes),
                   first_copy ? window.hashes.get() : nullptr);
}

void CachedStoreImpl::read_from_drive(const CallRef& call, const Piece& piece, const Place& place) {
  core_->tier_for(place.id).read(
      place.key, call->version()->id, piece.begin, static_cast<uint32_t>(piece.into.size()),
      [this, call, piece, place](Result<TierBytes> got) {
        if (got.ok()) {
          core_->counters().hits.add();
          core_->counters().hit_bytes.add(piece.into.size());
          count_read(place.id, piece.into.size(), 0);
          (void)call->copy(piece.into, got->data);
          got->buffer = {};
          core_->memory_freed();
          return end_piece(call, {});
        }
        if (got.error().code == ErrorCode::kBusy) {
          return core_->when_memory([this, call, piece] { read_piece(call, piece); });
        }
        missed(call, piece, place);
      });
}

void CachedStoreImpl::missed(const CallRef& call, const Piece& piece, const Place& place) {
  const VersionRef& version = call->version();
  streams_.missed(version->id.low);
  const bool most_of_it = 2 * piece.into.size() >= place.key.length;
  const bool whole = call->pattern().sequential || most_of_it;
  if (!whole && wants_granules(*version)) return read_granules(call, piece);
  const bool reserved = core_->tier_for(place.id).reserve(place.key, version->id);
  // Who reads at random, with no room to keep what it does not ask for, gets only what it asks for.
  if (!whole && !reserved) return read_exactly(call, piece, place);
  load({.pass = enter(),
        .version = version,
        .place = place,
        .look_on_drive = false,
        .reserved = reserved},
       waiter_for(call, piece, place.id));
}

void CachedStoreImpl::read_from_source(const CallRef& call, uint64_t offset,
                                       std::span<std::byte> into,
                                       std::function<void(Result<void>)> done) {
  if (!call->lend()) return done({});
  store::GetOptions options = call->options();
  options.if_match = call->version()->info.etag;
  options.size = call->version()->info.size;
  source_->async_get(call->key(), offset, into, std::move(options),
                     [this, call, into, done = std::move(done)](Result<store::GetResult> got) {
                       Result<void> checked = check_window(got, *call->version(), into.size());
                       if (checked.ok()) core_->counters().source_bytes.add(into.size());
                       call->give_back();
                       done(std::move(checked));
                     });
}

void CachedStoreImpl::read_exactly(const CallRef& call, const Piece& piece, const Place& place) {
  core_->counters().misses.add();
  core_->counters().miss_bytes.add(piece.into.size());
  note_missed(place.id, piece.into.size());
  count_read(place.id, 0, piece.into.size());
  read_from_source(call, place.key.offset + piece.begin, piece.into,
                   [this, call](Result<void> read) { end_piece(call, read); });
}

// The reader says that what it got is wrong.
void CachedStoreImpl::bypass(const CallRef& call, const Piece& piece, const Place& place) {
  const VersionRef& version = call->version();
  core_->windows().forget(place.id);
  core_->tier_for(place.id).drop(place.key, version->id);
  if (wants_granules(*version)) drop_granules(*version, place, piece);
  read_exactly(call, piece, place);
}

}  // namespace penstock::cache
