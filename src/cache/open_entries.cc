#include "cache/open_entries.h"

#include <algorithm>
#include <utility>

namespace penstock::cache {

OpenEntries::OpenEntries(size_t limit, size_t waiting_limit)
    : limit_(std::max<size_t>(limit, 1)), waiting_limit_(waiting_limit) {}

OpenEntryRef OpenEntries::find(const EntryId& id) {
  std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  order_.splice(order_.begin(), order_, found->second);
  return *found->second;
}

OpenEntries::Turn OpenEntries::find_or_lead(const EntryId& id, TierRead* read,
                                            OpenEntryRef& entry) {
  std::lock_guard lock(mutex_);
  if (const auto found = by_id_.find(id); found != by_id_.end()) {
    order_.splice(order_.begin(), order_, found->second);
    entry = *found->second;
    return Turn::kOpen;
  }
  const auto [opening, first] = opening_.try_emplace(id);
  if (first) return Turn::kLead;
  if (waiting_ >= waiting_limit_) return Turn::kFull;
  opening->second.followers.push_back(read);
  ++waiting_;
  entry = opening->second.entry;
  return entry != nullptr ? Turn::kJoin : Turn::kFollow;
}

std::vector<TierRead*> OpenEntries::file_opened(const EntryId& id, OpenEntryRef entry) {
  std::lock_guard lock(mutex_);
  Opening& opening = opening_.find(id)->second;
  opening.entry = std::move(entry);
  return opening.followers;
}

// Under the lock.
std::vector<TierRead*> OpenEntries::end_opening(const EntryId& id, bool& keep) {
  const auto opening = opening_.find(id);
  keep = opening->second.keep;
  std::vector<TierRead*> followers = std::move(opening->second.followers);
  waiting_ -= followers.size();
  opening_.erase(opening);
  return followers;
}

std::vector<TierRead*> OpenEntries::opened(const EntryId& id, OpenEntryRef entry) {
  Order dropped;  // Beyond the lock: letting go takes other locks.
  std::lock_guard lock(mutex_);
  bool keep = false;
  std::vector<TierRead*> followers = end_opening(id, keep);
  if (!keep) return followers;
  order_.push_front(std::move(entry));
  by_id_.emplace(id, order_.begin());
  dropped = shrink_to(limit_);
  return followers;
}

std::vector<TierRead*> OpenEntries::not_opened(const EntryId& id) {
  std::lock_guard lock(mutex_);
  bool keep = false;
  return end_opening(id, keep);
}

void OpenEntries::forget(const OpenEntry& entry) {
  Order dropped;
  std::lock_guard lock(mutex_);
  const auto found = by_id_.find(entry.name.id);
  if (found == by_id_.end() || found->second->get() != &entry) return;
  dropped.splice(dropped.begin(), order_, found->second);
  by_id_.erase(found);
}

void OpenEntries::forget(const EntryId& id) {
  Order dropped;
  std::lock_guard lock(mutex_);
  if (const auto opening = opening_.find(id); opening != opening_.end())
    opening->second.keep = false;
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  dropped.splice(dropped.begin(), order_, found->second);
  by_id_.erase(found);
}

// Under the lock. What is returned is to be let go of without it.
OpenEntries::Order OpenEntries::shrink_to(size_t count) {
  Order dropped;
  while (by_id_.size() > count) {
    by_id_.erase(order_.back()->name.id);
    dropped.splice(dropped.begin(), order_, std::prev(order_.end()));
  }
  return dropped;
}

void OpenEntries::make_room() {
  Order dropped;
  std::lock_guard lock(mutex_);
  dropped = shrink_to(limit_ - 1);
}

void OpenEntries::halve() {
  Order dropped;
  std::lock_guard lock(mutex_);
  dropped = shrink_to(by_id_.size() / 2);
}

void OpenEntries::clear() {
  Order dropped;
  std::lock_guard lock(mutex_);
  dropped = shrink_to(0);
  for (auto& [id, opening] : opening_) opening.keep = false;
}

size_t OpenEntries::size() const {
  std::lock_guard lock(mutex_);
  return by_id_.size();
}

}  // namespace penstock::cache
