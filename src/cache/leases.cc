#include "cache/leases.h"

#include <algorithm>

namespace penstock::cache {

namespace {

// Who filled lately gets this many shares, others one: an idle process must not sit on the room.
constexpr uint32_t kActiveWeight = 16;
constexpr auto kActiveFor = std::chrono::seconds(2);

uint64_t less(uint64_t a, uint64_t b) {
  return a > b ? a - b : 0;
}

// Whether state `a` is `b` or later. Only the low halves of the counters are known.
bool reached(uint32_t a, uint32_t b) {
  return static_cast<int32_t>(a - b) >= 0;
}

}  // namespace

uint64_t Leases::Lease::outstanding() const {
  return std::max(less(ceiling_max, published), reserved);
}

void Leases::Lease::set(uint64_t grant, uint32_t counter) {
  if (published + grant == ceiling) return;
  ceiling = published + grant;
  ceiling_max = std::max(ceiling_max, ceiling);
  changed = counter;
}

uint32_t Leases::Lease::weight(SteadyTime now) const {
  return reserved > 0 || now - active_at < kActiveFor ? kActiveWeight : 1;
}

void Leases::restore(const std::string& member, const StateRow& row, uint32_t counter) {
  Lease& lease = leases_[member];
  lease.ceiling = row.ceiling;
  lease.ceiling_max = std::max(row.ceiling, row.ceiling_max);
  lease.changed = counter;
}

void Leases::heard(const std::string& member, const Standing& standing, SteadyTime now) {
  const auto [at, is_new] = leases_.try_emplace(member);
  Lease& lease = at->second;
  if (standing.published_bytes > lease.published || is_new) lease.active_at = now;
  lease.published = std::max(lease.published, standing.published_bytes);
  lease.reserved = standing.reserved_bytes();
  if (is_new) {  // Whatever it goes by, nobody here granted it.
    lease.ceiling = lease.ceiling_max = standing.ceiling_bytes;
    lease.changed = standing.adopted;
  }
  if (reached(standing.adopted, lease.changed)) lease.ceiling_max = lease.ceiling;
  // Of an evictor that died before its state could be read by the next.
  lease.ceiling_max = std::max(lease.ceiling_max, standing.ceiling_bytes);
}

void Leases::share(uint64_t room, uint32_t counter, bool own_active, SteadyTime now) {
  const uint64_t own_weight = own_active ? kActiveWeight : 1;
  uint64_t weights = own_weight;
  for (const auto& [member, lease] : leases_) weights += lease.weight(now);
  const uint64_t unit = room / weights;
  const uint64_t leased = outstanding();
  const uint64_t pool = less(room, leased);
  // Only when somebody goes short are ceilings lowered: each change costs the member an answer.
  const bool own_short = leased > room || pool < unit * own_weight / 2;
  if (own_short || anyone_short(unit, now)) lower(unit, counter, now);
  raise(unit, less(pool, unit * own_weight), counter, now);
}

bool Leases::anyone_short(uint64_t unit, SteadyTime now) const {
  return std::ranges::any_of(leases_, [&](const auto& item) {
    return item.second.granted() < unit * item.second.weight(now) / 2;
  });
}

void Leases::lower(uint64_t unit, uint32_t counter, SteadyTime now) {
  for (auto& [member, lease] : leases_) {
    const uint64_t due = std::max(unit * lease.weight(now), lease.reserved);
    if (lease.granted() > due) lease.set(due, counter);
  }
}

void Leases::raise(uint64_t unit, uint64_t pool, uint32_t counter, SteadyTime now) {
  for (auto& [member, lease] : leases_) {
    const uint64_t due = unit * lease.weight(now);
    // What it may still go by is set aside already.
    const uint64_t aside = less(lease.ceiling_max, lease.published);
    if (lease.granted() >= due / 2) continue;
    const uint64_t grant = std::min(due, aside + pool);
    if (grant <= lease.granted()) continue;
    pool -= less(grant, aside);
    lease.set(grant, counter);
  }
}

uint64_t Leases::outstanding() const {
  uint64_t sum = 0;
  for (const auto& [member, lease] : leases_) sum += lease.outstanding();
  return sum;
}

uint64_t Leases::reserved() const {
  uint64_t sum = 0;
  for (const auto& [member, lease] : leases_) sum += lease.reserved;
  return sum;
}

uint64_t Leases::ceiling(const std::string& member) const {
  const auto found = leases_.find(member);
  return found == leases_.end() ? 0 : found->second.ceiling;
}

uint64_t Leases::ceiling_max(const std::string& member) const {
  const auto found = leases_.find(member);
  return found == leases_.end() ? 0 : found->second.ceiling_max;
}

}  // namespace penstock::cache
