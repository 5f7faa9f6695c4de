#include "volume/change_feed.h"

#include <algorithm>
#include <chrono>

namespace penstock::volume {

namespace {

int64_t monotonic_ns() {
  return std::chrono::duration_cast<Nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void ChangeFeed::add(ChangeListener* listener) {
  const std::unique_lock lock(listeners_mutex_);
  listeners_.push_back(listener);
}

void ChangeFeed::remove(ChangeListener* listener) {
  const std::unique_lock lock(listeners_mutex_);
  std::erase(listeners_, listener);
}

void ChangeFeed::expect() {
  last_ns_.store(monotonic_ns(), std::memory_order_relaxed);
}

void ChangeFeed::tell(const VolumeUuid& volume, std::span<const Change> changes) {
  expect();
  const std::shared_lock lock(listeners_mutex_);
  for (ChangeListener* const listener : listeners_) listener->changed(volume, changes);
}

bool ChangeFeed::changed_within(Nanoseconds time) const {
  const int64_t last = last_ns_.load(std::memory_order_relaxed);
  return last != INT64_MIN && monotonic_ns() - last < time.count();
}

void ChangeFeed::hide(const VolumeUuid& volume, meta::Ino directory, std::string_view name) {
  const std::lock_guard lock(hidden_mutex_);
  if (hidden_.emplace(volume, directory, name).second) ++hidden_count_;
}

void ChangeFeed::show(const VolumeUuid& volume, meta::Ino directory, std::string_view name) {
  const std::lock_guard lock(hidden_mutex_);
  if (hidden_.erase({volume, directory, std::string(name)}) > 0) --hidden_count_;
}

bool ChangeFeed::is_hidden(const VolumeUuid& volume, meta::Ino directory,
                           std::string_view name) const {
  if (hidden_count_ == 0) return false;
  const std::lock_guard lock(hidden_mutex_);
  return hidden_.contains({volume, directory, std::string(name)});
}

}  // namespace penstock::volume
