#include "cache/ghosts.h"

#include <span>

#include "cache/entry_table.h"

namespace penstock::cache {

namespace {

constexpr uint64_t kWays = 8;
constexpr uint64_t kSampledWays = 2;
constexpr uint64_t kSampledMask = 63;

uint64_t tag_of(uint64_t hash) {
  return hash & 0xFFFF;
}
bool sampled(uint64_t hash) {
  return (hash >> 16 & kSampledMask) == 0;
}
uint64_t pack(uint64_t since, uint64_t tag) {
  // Never 0, which is an empty slot; a wrap after 2^58 bytes only costs a wrong interval.
  return (std::max<uint64_t>(since >> 10, 1) << 16) | tag;
}

// The places in which an id may be.
std::span<Ghosts::Slot> ways_of(std::vector<Ghosts::Slot>& slots, uint64_t hash) {
  const uint64_t set = (hash >> 32) * (slots.size() / kWays) >> 32;
  const auto ways = std::span(slots).subspan(set * kWays, kWays);
  return sampled(hash) ? ways.last(kSampledWays) : ways.first(kWays - kSampledWays);
}

}  // namespace

Ghosts::Slot* Ghosts::find(const EntryId& id) {
  if (slots_.empty()) return nullptr;
  const uint64_t hash = mix(id);
  for (Slot& slot : ways_of(slots_, hash)) {
    if (slot.since_and_tag != 0 && tag_of(slot.since_and_tag) == tag_of(hash)) return &slot;
  }
  return nullptr;
}

Ghosts::Slot& Ghosts::insert(const EntryId& id, uint64_t since, const Turn& turn) {
  allocate();
  Slot* place = find(id);
  const uint64_t hash = mix(id);
  if (place == nullptr) {
    for (Slot& slot : ways_of(slots_, hash)) {
      if (place == nullptr || slot.since_and_tag < place->since_and_tag) place = &slot;
    }
  }
  *place = {.since_and_tag = pack(since, tag_of(hash)), .turn = turn};
  return *place;
}

void Ghosts::set_slot(uint32_t index, const Slot& slot) {
  allocate();
  slots_[index] = slot;
}

void Ghosts::set_since(Slot& slot, uint64_t since) {
  slot.since_and_tag = pack(since, tag_of(slot.since_and_tag));
}

}  // namespace penstock::cache
