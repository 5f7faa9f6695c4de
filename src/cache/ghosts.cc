#include "cache/ghosts.h"

#include <span>

#include "cache/entry_table.h"

namespace penstock::cache {

namespace {

constexpr uint64_t kWays = 8;
constexpr uint64_t kSampledWays = 2;
constexpr uint64_t kSampledMask = 63;
constexpr int kTagBits = 24;
constexpr uint64_t kTagMask = (1 << kTagBits) - 1;
constexpr int kUnitBits = 14;
constexpr uint64_t kTimeMask = UINT64_MAX >> kTagBits;

uint64_t tag_of(uint64_t hash) {
  return (hash & kTagMask) | 1;
}
bool sampled(uint64_t hash) {
  return (hash >> kTagBits & kSampledMask) == 0;
}
uint64_t pack(uint64_t since, uint64_t tag) {
  return since >> kUnitBits << kTagBits | tag;
}

// The places in which an id may be.
std::span<Ghosts::Slot> ways_of(std::vector<Ghosts::Slot>& slots, uint64_t hash) {
  const uint64_t set = (hash >> 32) * (slots.size() / kWays) >> 32;
  const auto ways = std::span(slots).subspan(set * kWays, kWays);
  return sampled(hash) ? ways.last(kSampledWays) : ways.first(kWays - kSampledWays);
}

}  // namespace

uint64_t Ghosts::Slot::age(uint64_t now) const {
  return (((now >> kUnitBits) - (since_and_tag >> kTagBits)) & kTimeMask) << kUnitBits;
}

Ghosts::Slot* Ghosts::find(const EntryId& id) {
  if (slots_.empty()) return nullptr;
  const uint64_t hash = mix(id);
  for (Slot& slot : ways_of(slots_, hash)) {
    if ((slot.since_and_tag & kTagMask) == tag_of(hash)) return &slot;
  }
  return nullptr;
}

void Ghosts::insert(const EntryId& id, uint64_t since, const Turn& turn, uint64_t now) {
  allocate();
  const uint64_t hash = mix(id);
  Slot* place = find(id);
  const auto older = [&](const Slot& a, const Slot& b) {
    return a.since_and_tag == 0 || (b.since_and_tag != 0 && a.age(now) > b.age(now));
  };
  if (place == nullptr) {
    for (Slot& slot : ways_of(slots_, hash)) {
      if (place == nullptr || older(slot, *place)) place = &slot;
    }
  }
  *place = {.since_and_tag = pack(since, tag_of(hash)), .turn = turn};
}

void Ghosts::set_slot(uint32_t index, const Slot& slot) {
  allocate();
  slots_[index] = slot;
}

void Ghosts::set_since(Slot& slot, uint64_t since) {
  slot.since_and_tag = pack(since, slot.since_and_tag & kTagMask);
}

}  // namespace penstock::cache
