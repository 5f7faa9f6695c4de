#include "cache/evictor.h"

#include <algorithm>
#include <utility>

namespace penstock::cache {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr uint64_t kLogBytesPerTick = 4 * kMiB;
constexpr milliseconds kEvictFor{50};
// Of the limit, that is not given out after a crash until a scan has told what is there.
constexpr uint64_t kDistrust = 16;

}  // namespace

Evictor::Evictor(CacheDirectory& directory, std::unique_ptr<io::FileLock> lock, SpaceWatch& space,
                 const Pace& pace, Regrant regrant)
    : directory_(directory),
      lock_(std::move(lock)),
      space_(space),
      pace_(pace),
      regrant_(std::move(regrant)),
      policy_(make_policy()) {}

Evictor::~Evictor() = default;

Evictor::Outcome Evictor::start(const OwnNews& news, SteadyTime now, TickErrors& errors) {
  now_ = checked_ = index_at_ = now;
  Result<State> state = read_state(directory_.file_system(), state_path(directory_));
  if (state.ok()) {
    inherited_ = std::move(*state);
    counter_ = inherited_.counter;
    has_basis_ = inherited_.known;
    basis_bytes_ = inherited_.used;
    distrusted_ = !inherited_.clean;
  } else if (state.error().code != ErrorCode::kCorrupt) {  // As after a power cut.
    errors.note(state.error());
  }
  totals_ = inherited_.totals;
  if (totals_.since_s == 0) begin_totals();
  Roll::Listener& listener = *this;
  roll_ = std::make_unique<Roll>(directory_, listener, inherited_, pace_);
  measure(news, errors);
  return conclude(news, errors);
}

Evictor::Outcome Evictor::tick(OwnNews news, SteadyTime now, TickErrors& errors) {
  now_ = now;
  if (!still_evictor(errors)) {
    Outcome outcome;
    outcome.deposed = true;
    return outcome;
  }
  bool more = roll_->update(now, kLogBytesPerTick, errors);
  bool missed = false;
  for (const Note& note : news.notes.notes) {
    on_note(directory_.member(), note);
    missed |= note.kind == Note::Kind::kMissed;
  }
  on_tally(news.tally);
  if (news.notes.lost) on_gap();
  own_active_ = missed || news.filled;
  measure(news, errors);
  const uint64_t in_flight = news.standing.reserved_bytes() + leases_.reserved();
  const uint32_t evictions = evict(in_flight, errors, more);
  Outcome outcome = conclude(news, errors);
  outcome.evictions = evictions;
  outcome.more = more;
  if (now - index_at_ >= index_pause_) save_index(errors);
  return outcome;
}

// Whoever clears the directory by hand takes the lock away, and with it the certainty to be alone.
bool Evictor::still_evictor(TickErrors& errors) {
  if (now_ - checked_ < pace_.own_locks()) return true;
  checked_ = now_;
  Result<std::unique_ptr<io::FileLock>> again = lock_evictor(directory_);
  if (again.ok()) {
    lock_ = std::move(*again);
    gap_ = true;
  } else if (again.error().code != ErrorCode::kBusy) {
    errors.note(again.error());
  }
  if (!ever_published_) return true;
  const Result<State> state = read_state(directory_.file_system(), state_path(directory_));
  return !state.ok() || state->evictor == directory_.member();
}

// The limit, from the terms of all and what is free on the drive.
void Evictor::measure(const OwnNews& news, TickErrors& errors) {
  // Also while a scan finds more of what is used: the two must be of one moment.
  space_.refresh(now_, news.filled || scanning_ || std::exchange(ask_space_, false), errors);
  if (std::exchange(space_answers_, space_.answers()) != space_.answers()) {
    used_when_asked_ = used_bytes();
  }
  Terms terms = roll_->strictest();
  terms.quota_bytes = std::min(terms.quota_bytes, news.terms.quota_bytes);
  terms.floor_bytes = std::max(terms.floor_bytes, news.terms.floor_bytes);
  quota_ = terms.quota_bytes;
  floor_limit_ = UINT64_MAX;
  // Its own evictions free what they take from the used: this does not move with them.
  if (space_.last()) {
    const uint64_t reachable = used_when_asked_ + space_.last()->available_bytes;
    floor_limit_ = less(reachable, terms.floor_bytes);
  }
  limit_ = std::min(quota_, floor_limit_);
}

uint64_t Evictor::used_bytes() const {
  if (known_) return policy_->used_bytes();
  return std::max(policy_->used_bytes(), less(basis_bytes_ + came_bytes_, went_bytes_));
}

uint64_t Evictor::room_bytes() const {
  // What others may fill is known only when all of them were found.
  if (!roll_->complete()) return 0;
  const uint64_t used = used_bytes() + unaccounted_bytes_;
  if (known_) return less(limit_, used);
  if (!has_basis_) return 0;
  return less(limit_, used + (distrusted_ ? limit_ / kDistrust : 0));
}

uint32_t Evictor::evict(uint64_t in_flight, TickErrors& errors, bool& more) {
  // Fills under way have taken their space from the drive already: the floor knows of them.
  room_.set_capacity(std::min(less(quota_, in_flight), floor_limit_));
  const SteadyTime until = steady_clock::now() + kEvictFor;
  const uint32_t evictions = room_.tick([&](const EntryName& name) {
    if (steady_clock::now() < until) return drop(name, errors);
    more = true;
    return false;
  });
  more |= evictions == Room::kDropsMax;
  return evictions;
}

bool Evictor::drop(const EntryName& name, TickErrors& errors) {
  const Result<void> dropped = directory_.drop(name);
  if (!dropped.ok()) {
    errors.note(dropped);
    // It stays, and is not the first to be tried again.
    policy_->removed(name.id);
    policy_->added(name);
    return false;
  }
  went_bytes_ += name.file_bytes();
  if (scanning_) gone_.insert(name.id);
  return true;
}

// Shares the room out, and tells.
Evictor::Outcome Evictor::conclude(const OwnNews& news, TickErrors& errors) {
  // This process goes by its part before the others hear of theirs.
  regrant_([&](const Standing& own) { return share(news.standing.published_bytes, own); });
  const State state = describe();
  publish(state, errors);
  Outcome outcome;
  outcome.known = known_;
  outcome.used_bytes = state.used;
  outcome.limit_bytes = state.limit;
  outcome.entries = state.entries;
  outcome.members = state.members;
  outcome.index_bytes = policy_->memory_bytes();
  return outcome;
}

// `own_counted`: of what this process published, that which is among the used.
Grant Evictor::share(uint64_t own_counted, const Standing& own) {
  const uint64_t room = room_bytes();
  leases_.share({.room = room,
                 .grain = grain_,
                 .counter = static_cast<uint32_t>(counter_ + 1),
                 .own_active = own_active_,
                 .own_taken = own.published_bytes + own.reserved_bytes() - own_counted,
                 .now = now_,
                 .turn = static_cast<uint64_t>(now_.time_since_epoch() / pace_.turn())});
  const RoomState& state = room_.state();
  return {.ceiling = own_counted + less(room, leases_.outstanding()),
          .counter = static_cast<uint32_t>(counter_),
          .open_bytes = state.open_bytes,
          .invited_bytes = state.invited_bytes,
          .invited = state.invited};
}

void Evictor::on_note(const std::string& member, const Note& note) {
  switch (note.kind) {
    case Note::Kind::kUsed:
      return policy_->used(note.id, note.bytes);
    case Note::Kind::kMissed:
      leases_.wants(member, now_);
      return policy_->missed(note.id, note.bytes);
    case Note::Kind::kAdded:
      came_bytes_ += note.bytes;
      grain_ = std::max(grain_, note.bytes);
      gone_.erase(note.id);
      return policy_->added(note.name());
    case Note::Kind::kDropped:
      went_bytes_ += note.bytes;
      if (scanning_) gone_.insert(note.id);
      return policy_->removed(note.id);
    case Note::Kind::kExpected:
      return policy_->expected(note.id);
    case Note::Kind::kFinished:
      return policy_->finished(note.id, false);
    case Note::Kind::kFinishedAgain:
      return policy_->finished(note.id, true);
  }
}

void Evictor::begin_totals() {
  using std::chrono::system_clock;
  totals_ = {.since_s = std::chrono::duration_cast<std::chrono::seconds>(
                            system_clock::now().time_since_epoch())
                            .count()};
}

void Evictor::on_tally(const Tally& tally) {
  if (tally.anew) begin_totals();
  totals_.hit_bytes += tally.hit_bytes;
  totals_.miss_bytes += tally.miss_bytes;
}

void Evictor::on_found(const std::string& member) {
  const StateRow* row = inherited_.row_of(member_hash(member));
  if (row == nullptr || is_self(member)) return;
  leases_.restore(member, *row);
}

void Evictor::on_standing(const std::string& member, const Standing& standing) {
  if (is_self(member)) return;
  // States are counted on from the last that anyone has seen, also when its file is lost.
  const auto ahead = static_cast<int32_t>(standing.adopted - static_cast<uint32_t>(counter_));
  if (ahead > 0) counter_ += static_cast<uint32_t>(ahead);
  leases_.heard(member, standing, now_);
}

void Evictor::on_gone(const std::string& member, bool in_order) {
  if (!in_order) {
    gap_ = true;
    unaccounted_bytes_ += leases_.outstanding(member);
  }
  leases_.forget(member);
}

}  // namespace penstock::cache
