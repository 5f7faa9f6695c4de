#include "cache/policy.h"

#include <algorithm>

#include "cache/turn_policy.h"

namespace penstock::cache {

namespace {

constexpr int kSamples = 32;
// Of the queues of finished entries: longer than what finishes between two ticks.
constexpr size_t kQueueMax = 4096;
// How much longer than usual an entry may stay away: see horizon().
constexpr double kPatience = 1.5;
constexpr double kPatienceUnknown = 10;  // Caches full, while no use ever came back.
// In a shuffled loop up to a fifth of the entries are late at any time.
constexpr double kManyLate = 0.4;
constexpr double kFewLate = 0.25;
constexpr double kLateMemory = 96;

// How many times shorter its turn must be than that of whom it displaces. The mean of k turns in
// a shuffled loop is at least 1 - 1/k of the loop, so few turns need a large advantage.
double advantage_needed(int turns_seen) {
  if (turns_seen <= 1) return 16;
  return turns_seen == 2 ? 4 : 2;
}

void push(std::deque<EntryId>& queue, const EntryId& id) {
  if (queue.size() == kQueueMax) queue.pop_front();
  queue.push_back(id);
}

}  // namespace

void TurnPolicy::added(const EntryName& name) {
  if (Entry* known = table_.find(name.id)) {
    known->flags |= Entry::kConfirmed;
    return;
  }
  Entry& entry = *table_.insert(name.id);
  entry.blocks = name.blocks;
  entry.since = entry.last = clock_;
  entry.flags = Entry::kConfirmed;
  if (invitations_.is_expected(name.id)) entry.flags |= Entry::kExpected;
  if (Ghosts::Slot* ghost = ghosts_.find(name.id)) {
    entry.since = clock_ - std::min(ghost->age(clock_), clock_);
    entry.turn = ghost->turn;
    ghosts_.erase(*ghost);
  } else {
    entry.flags |= Entry::kUnused;
  }
  invitations_.erase(name.id);
  used_blocks_ += name.blocks;
  intervals_.set_memory(table_.size() / 4);
}

void TurnPolicy::forget(Entry& entry) {
  used_blocks_ -= entry.blocks;
  table_.erase(entry);
}

void TurnPolicy::removed(const EntryId& id) {
  Entry* entry = table_.find(id);
  if (entry == nullptr) return;
  if (!entry->has(Entry::kUnused)) {
    ghosts_.insert(id, entry->since, entry->turn, clock_);
  }
  forget(*entry);
}

void TurnPolicy::used(const EntryId& id, uint64_t bytes) {
  Entry* entry = table_.find(id);
  if (entry == nullptr) return missed(id, bytes, 0);
  clock_ += bytes;
  double length = 0;
  if (entry->has(Entry::kUnused)) {
    entry->since = clock_;
  } else if (entry->turn.add(share_of(bytes, entry->blocks), clock_ - entry->since, &length)) {
    intervals_.add(length);
    entry->since = clock_;
  } else if (age(*entry) > capacity_ / 2 && !entry->has(Entry::kExpected)) {
    // Only a part was read, but it came back.
    intervals_.add(static_cast<double>(age(*entry)));
  }
  entry->last = clock_;
  entry->flags &= Entry::kConfirmed;
}

void TurnPolicy::missed(const EntryId& id, uint64_t bytes, uint32_t blocks) {
  clock_ += bytes;
  if (table_.find(id) != nullptr) return;  // The file is gone and nobody said so yet.
  if (blocks == 0) {
    const uint64_t usual = table_.size() == 0 ? 0 : used_blocks_ / table_.size();
    blocks = static_cast<uint32_t>(std::max(usual, bytes / kBlockBytes + 1));
  }
  Ghosts::Slot* ghost = ghosts_.find(id);
  if (ghost == nullptr) {
    ghosts_.insert(id, clock_, {}, clock_);
    return;
  }
  double length = 0;
  if (!ghost->turn.add(share_of(bytes, blocks), ghost->age(clock_), &length)) return;
  intervals_.add(length);
  ghosts_.set_since(*ghost, clock_);
  maybe_invite(id, ghost->turn);
}

void TurnPolicy::maybe_invite(const EntryId& id, const Turn& turn) {
  if (table_.size() == 0) return;
  const double needed = turn.bytes * advantage_needed(turn.count);
  for (int i = 0; i < 8; ++i) {
    if (expected_turn(random_entry()) > needed) {
      invitations_.invite(id, turn.bytes, clock_);
      return;
    }
  }
}

void TurnPolicy::expected(const EntryId& id) {
  Entry* entry = table_.find(id);
  if (entry == nullptr) return invitations_.expect(id, clock_ + capacity_);
  entry->say(Entry::kExpected);
  entry->last = clock_;
}

void TurnPolicy::finished(const EntryId& id, bool again) {
  invitations_.erase(id);
  Entry* entry = table_.find(id);
  if (entry == nullptr) return;
  entry->say(again ? Entry::kAgain : Entry::kFinished);
  push(again ? again_ : finished_, id);
}

void TurnPolicy::note_late(int late, int known) {
  const double kept = 1 - known / kLateMemory;
  late_ = late_ * kept + late;
  known_ = known_ * kept + known;
  const double threshold = many_are_late_ ? kFewLate : kManyLate;
  many_are_late_ = known_ >= kSamples / 2 && late_ > threshold * known_;
}

// The age from which an entry is overdue. Never less than half a cache full: no policy would be so
// quick with what was just used.
double TurnPolicy::horizon(const Entry& entry) const {
  const auto capacity = static_cast<double>(capacity_);
  const double nearly_all = intervals_.nearly_all();
  const Turn& turn = entry.turn;
  if (!turn.known() && nearly_all == 0) return kPatienceUnknown * capacity;
  double horizon = std::max(kPatience * std::max<double>(turn.bytes, nearly_all), capacity);
  // Single ones may be late by chance, but not so many: their readers went away.
  if (turn.count >= 2 && many_are_late_) {
    horizon = std::min(horizon, std::max(turn.late_after(), capacity / 2));
  }
  return horizon;
}

double TurnPolicy::expected_turn(const Entry& entry) const {
  const auto away = static_cast<double>(age(entry));
  if (!entry.turn.known()) return std::max(away, intervals_.nearly_all());
  return std::max<double>(entry.turn.bytes, away / 2);
}

const Entry& TurnPolicy::random_entry() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return table_.at((random_ >> 32) * table_.size() >> 32);
}

TurnPolicy::Pick TurnPolicy::pick(int samples) {
  Pick pick;
  double lateness = 1;
  int late = 0;
  int known = 0;
  for (int i = 0; i < samples; ++i) {
    const Entry& entry = random_entry();
    const auto away = static_cast<double>(age(entry));
    if (entry.turn.count >= 2) {
      ++known;
      late += away > std::max(entry.turn.late_after(), static_cast<double>(capacity_) / 2);
    }
    const double own = entry.has(Entry::kFinished) ? 1e30 : away / std::max(horizon(entry), 1.0);
    if (own > lateness) {
      lateness = own;
      pick.overdue = &entry;
    }
    pick.any = &entry;
    const double turn = expected_turn(entry);
    if (!entry.has(Entry::kExpected) && (pick.dullest == nullptr || turn > pick.turn)) {
      pick.dullest = &entry;
      pick.turn = turn;
    }
  }
  note_late(late, known);
  return pick;
}

const Entry* TurnPolicy::front_finished() {
  while (!finished_.empty()) {
    const Entry* entry = table_.find(finished_.front());
    if (entry != nullptr && entry->has(Entry::kFinished)) return entry;
    finished_.pop_front();
  }
  return nullptr;
}

const Entry* TurnPolicy::newest_again() {
  while (!again_.empty()) {
    const Entry* entry = table_.find(again_.back());
    if (entry != nullptr && entry->has(Entry::kAgain)) return entry;
    again_.pop_back();
  }
  return nullptr;
}

const Entry* TurnPolicy::for_invited(const Pick& pick) {
  if (invitations_.any_expected()) {
    // Who knows the future comes for what it finished last at the very end.
    const Entry* again = newest_again();
    return again != nullptr ? again : pick.dullest;
  }
  const double turn = invitations_.typical_turn();
  return turn > 0 && pick.turn > turn * 2 ? pick.dullest : nullptr;
}

std::optional<EntryName> TurnPolicy::victim(Need need) {
  if (table_.size() == 0) return std::nullopt;
  if (const Entry* entry = front_finished()) return entry->name();
  const Pick picked = pick(kSamples);
  const Entry* entry = picked.overdue;
  if (entry == nullptr && need == Need::kRoomForInvited) entry = for_invited(picked);
  if (entry == nullptr && need == Need::kSpace) {
    entry = picked.dullest != nullptr ? picked.dullest : picked.any;
  }
  if (entry == nullptr) return std::nullopt;
  return entry->name();
}

void TurnPolicy::begin_scan() {
  for (uint64_t i = 0; i < table_.size(); ++i) table_.at(i).flags &= ~Entry::kConfirmed;
}

void TurnPolicy::end_scan() {
  for (uint64_t i = 0; i < table_.size();) {
    Entry& entry = table_.at(i);
    if (entry.has(Entry::kConfirmed)) {
      ++i;
    } else {
      forget(entry);  // The last one takes its place.
    }
  }
}

uint64_t TurnPolicy::memory_bytes() const {
  return table_.memory_bytes() + ghosts_.memory_bytes() + sizeof(*this);
}

std::unique_ptr<Policy> make_policy() {
  return std::make_unique<TurnPolicy>();
}

}  // namespace penstock::cache
