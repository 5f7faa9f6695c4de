// Files that are known to have no capabilities (security.capability): the kernel asks before it
// writes to any.
// Threads: all calls from any thread.
#pragma once

#include <mutex>
#include <string_view>
#include <unordered_set>

#include "penstock/meta.h"

namespace penstock::mount {

inline constexpr std::string_view kCapabilityName = "security.capability";

class CapabilityNotes {
 public:
  bool has_none(meta::Ino ino) const {
    const std::lock_guard lock(mutex_);
    return none_.contains(ino);
  }
  // To be asked for before a look at the file, and given with what was seen.
  uint64_t moment() const {
    const std::lock_guard lock(mutex_);
    return changes_;
  }
  void note_none(meta::Ino ino, uint64_t moment) {
    const std::lock_guard lock(mutex_);
    if (moment != changes_) return;  // Somebody set some meanwhile: perhaps here.
    if (none_.size() >= kNotesMax) none_.clear();
    none_.insert(ino);
  }
  // It may have some from now on: after they were set.
  void forget(meta::Ino ino) {
    const std::lock_guard lock(mutex_);
    ++changes_;
    none_.erase(ino);
  }

 private:
  static constexpr size_t kNotesMax = 100'000;
  mutable std::mutex mutex_;
  uint64_t changes_ = 0;
  std::unordered_set<meta::Ino> none_;
};

}  // namespace penstock::mount
