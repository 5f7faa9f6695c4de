#include "cache/room.h"

#include <algorithm>

#include "penstock/units.h"

namespace penstock::cache {

namespace {

// Room made ahead of need: shares of the capacity.
constexpr uint64_t kHeadroomMin = 128;
constexpr uint64_t kHeadroomMax = 16;
constexpr uint64_t kHeadroomBytesMax = kGiB;

}  // namespace

// One tick: drops victims until it is told to stop.
class Room::Round {
 public:
  Round(Policy& policy, const std::function<bool(const EntryName&)>& drop)
      : policy_(policy), drop_(drop) {}

  // The bytes of the next victim; 0 when there is none, or no more this time.
  uint64_t take(Policy::Need need) {
    if (stopped_ || drops_ == kDropsMax) return 0;
    const std::optional<EntryName> name = policy_.victim(need);
    if (!name) return 0;
    stopped_ = !drop_(*name);
    if (stopped_) return 0;
    policy_.removed(name->id);
    ++drops_;
    return std::max<uint64_t>(name->file_bytes(), 1);
  }
  uint32_t drops() const { return drops_; }

 private:
  Policy& policy_;
  const std::function<bool(const EntryName&)>& drop_;
  uint32_t drops_ = 0;
  bool stopped_ = false;
};

void Room::set_capacity(uint64_t bytes) {
  capacity_ = bytes;
  policy_.set_capacity(bytes);
}

uint64_t Room::headroom() const {
  const uint64_t entries = std::max<uint64_t>(policy_.entries(), 1);
  const uint64_t two_entries = policy_.used_bytes() / entries * 2;
  const uint64_t wanted = std::min({read_bytes_, capacity_ / kHeadroomMax, kHeadroomBytesMax});
  return std::max({wanted, std::min(capacity_ / kHeadroomMin, kHeadroomBytesMax), two_entries});
}

uint32_t Room::tick(const std::function<bool(const EntryName&)>& drop) {
  Round round(policy_, drop);
  read_bytes_ = policy_.clock_bytes() - std::min(policy_.clock_bytes(), clock_);
  clock_ = policy_.clock_bytes();
  while (policy_.used_bytes() > capacity_ && round.take(Policy::Need::kSpace) > 0) {
  }
  const auto free = [&] { return capacity_ - std::min(capacity_, policy_.used_bytes()); };
  const auto open = [&] { return free() - std::min(free(), for_invited_); };

  state_.invited = policy_.invited();
  const uint64_t mean = policy_.used_bytes() / std::max<uint64_t>(policy_.entries(), 1);
  const uint64_t wanted = std::min(headroom(), state_.invited.size() * mean);
  // They come first, also where there is room; what they no longer want is open again.
  for_invited_ = std::min(free(), wanted);
  while (for_invited_ < wanted) {
    const uint64_t bytes = round.take(Policy::Need::kRoomForInvited);
    if (bytes == 0) break;
    for_invited_ = std::min(for_invited_ + bytes, free());
  }
  while (open() < headroom() && round.take(Policy::Need::kRoomForOthers) > 0) {
  }
  state_.open_bytes = open();
  state_.invited_bytes = std::min(free(), for_invited_);
  return round.drops();
}

void Admission::set(RoomState state) {
  open_ = state.open_bytes;
  for_invited_ = state.invited_bytes;
  invited_ = std::move(state.invited);
  take(under_way_);
}

void Admission::take(uint64_t bytes) {
  const uint64_t from_open = std::min(open_, bytes);
  open_ -= from_open;
  for_invited_ -= std::min(for_invited_, bytes - from_open);
}

bool Admission::reserve(const EntryName& name) {
  const uint64_t bytes = name.file_bytes();
  const bool invited = std::ranges::binary_search(invited_, name.id);
  if (bytes > open_ && !(invited && bytes <= for_invited_ + open_)) return false;
  if (invited) {  // From what is theirs first, to leave the rest to the others.
    const uint64_t theirs = std::min(for_invited_, bytes);
    for_invited_ -= theirs;
    open_ -= bytes - theirs;
  } else {
    open_ -= bytes;
  }
  under_way_ += bytes;
  return true;
}

void Admission::done(const EntryName& name, bool added) {
  const uint64_t bytes = name.file_bytes();
  under_way_ -= std::min(under_way_, bytes);
  if (!added) open_ += bytes;
}

}  // namespace penstock::cache
