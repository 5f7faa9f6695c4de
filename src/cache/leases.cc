#include "cache/leases.h"

#include <algorithm>

namespace penstock::cache {

namespace {

// Who filled lately gets this many shares, others one: an idle process must not sit on the room.
constexpr uint64_t kActiveWeight = 16;
constexpr auto kActiveFor = std::chrono::seconds(2);

uint64_t weight_of(bool active) {
  return active ? kActiveWeight : 1;
}

// Whether somebody who has `has` of what it is due should get more now. Not for a little: what
// changes must be told.
bool is_short(uint64_t has, uint64_t due, uint64_t grain) {
  return has < std::max(due / 2, std::min(due, grain));
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

bool Leases::Lease::active(SteadyTime now) const {
  return reserved > 0 || now - active_at < kActiveFor;
}

void Leases::restore(const std::string& member, const StateRow& row) {
  Lease& lease = leases_[member];
  lease.ceiling = row.ceiling;
  lease.ceiling_max = std::max(row.ceiling, row.ceiling_max);
  lease.changed = row.changed;
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

void Leases::wants(const std::string& member, SteadyTime now) {
  const auto found = leases_.find(member);
  if (found != leases_.end()) found->second.active_at = now;
}

// Those that fill first, beginning with another at each turn.
std::vector<Leases::Share> Leases::in_turn(const Round& round) {
  std::vector<Share> shares = {{.lease = nullptr, .active = round.own_active}};
  for (auto& [member, lease] : leases_) {
    shares.push_back({.lease = &lease, .active = lease.active(round.now)});
  }
  const auto idle = std::stable_partition(shares.begin(), shares.end(),
                                          [](const Share& share) { return share.active; });
  const auto active = static_cast<uint64_t>(idle - shares.begin());
  if (active > 1) {
    std::rotate(shares.begin(), shares.begin() + static_cast<ptrdiff_t>(round.turn % active), idle);
  }
  return shares;
}

std::vector<Leases::Share> Leases::deal(const Round& round) {
  std::vector<Share> shares = in_turn(round);
  uint64_t weights = 0;
  for (const Share& share : shares) weights += weight_of(share.active);
  uint64_t left = round.room;
  for (Share& share : shares) {
    const uint64_t wanted = std::max(round.room / weights * weight_of(share.active), round.grain);
    // Less than a grain is of little use: then the first gets all there is.
    if (left >= round.grain || left == round.room) share.due = std::min(wanted, left);
    left -= share.due;
  }
  return shares;
}

void Leases::share(const Round& round) {
  const std::vector<Share> shares = deal(round);
  const uint64_t leased = outstanding();
  const uint64_t pool = less(round.room, leased);
  uint64_t own_due = 0;
  bool anyone_short = leased > round.room;
  for (const Share& share : shares) {
    if (share.lease == nullptr) own_due = share.due;
    const uint64_t has = share.lease == nullptr ? pool : share.lease->granted();
    anyone_short |= is_short(has, share.due, round.grain);
  }
  // Only then are ceilings lowered: each change costs the member an answer.
  if (anyone_short) lower(shares, round.counter);
  raise(shares, less(pool, std::max(own_due, round.own_taken)), round);
}

void Leases::lower(const std::vector<Share>& shares, uint32_t counter) {
  for (const Share& share : shares) {
    if (share.lease == nullptr) continue;
    const uint64_t due = std::max(share.due, share.lease->reserved);
    if (share.lease->granted() > due) share.lease->set(due, counter);
  }
}

void Leases::raise(const std::vector<Share>& shares, uint64_t pool, const Round& round) {
  for (const Share& share : shares) {
    if (share.lease == nullptr) continue;
    Lease& lease = *share.lease;
    if (!is_short(lease.granted(), share.due, round.grain)) continue;
    // What it may still go by is set aside already.
    const uint64_t aside = less(lease.ceiling_max, lease.published);
    const uint64_t grant = std::min(share.due, aside + pool);
    if (grant <= lease.granted() || grant < std::min(round.grain, share.due)) continue;
    pool -= less(grant, aside);
    lease.set(grant, round.counter);
  }
}

uint64_t Leases::outstanding() const {
  uint64_t sum = 0;
  for (const auto& [member, lease] : leases_) sum += lease.outstanding();
  return sum;
}

uint64_t Leases::outstanding(const std::string& member) const {
  const auto found = leases_.find(member);
  return found == leases_.end() ? 0 : found->second.outstanding();
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

void Leases::describe(const std::string& member, StateRow& row) const {
  const auto found = leases_.find(member);
  if (found == leases_.end()) return;
  row.ceiling = found->second.ceiling;
  row.ceiling_max = found->second.ceiling_max;
  row.changed = found->second.changed;
}

}  // namespace penstock::cache
