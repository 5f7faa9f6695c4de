#include "cache/invitations.h"

#include <algorithm>

namespace penstock::cache {

void Invitations::invite(const EntryId& id, double turn, uint64_t now) {
  const auto known = invited_.find(id);
  if (known == invited_.end() && invited_.size() >= most_) return;
  if (known != invited_.end() && known->second.turn == 0) return;
  // In a loop that is shuffled anew each time, the next use may be two turns away.
  const auto until = now + static_cast<uint64_t>(turn * 2.5);
  invited_[id] = {.turn = static_cast<float>(turn), .until = until};
}

void Invitations::expect(const EntryId& id, uint64_t until) {
  if (invited_.size() >= most_ && !invited_.contains(id)) return;
  invited_[id] = {.turn = 0, .until = until};
}

bool Invitations::is_expected(const EntryId& id) const {
  const auto found = invited_.find(id);
  return found != invited_.end() && found->second.turn == 0;
}

std::vector<EntryId> Invitations::list(uint64_t now) {
  std::erase_if(invited_, [&](const auto& item) { return item.second.until < now; });
  std::vector<EntryId> ids;
  std::vector<float> turns;
  ids.reserve(invited_.size());
  for (const auto& [id, invitation] : invited_) {
    ids.push_back(id);
    if (invitation.turn > 0) turns.push_back(invitation.turn);
  }
  any_expected_ = turns.size() < ids.size();
  typical_turn_ = 0;
  if (!turns.empty()) {
    const auto middle = turns.begin() + static_cast<ptrdiff_t>(turns.size() / 2);
    std::ranges::nth_element(turns, middle);
    typical_turn_ = *middle;
  }
  std::ranges::sort(ids);
  return ids;
}

}  // namespace penstock::cache
