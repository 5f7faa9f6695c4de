// Up to where listings of directories go: what is made while one goes on is not in it. Or a program that
// makes a file for each that it finds would find those as well, for ever.
//
// The kernel does not say which of those who list a directory asks; but whoever begins asks for its
// beginning. So an end is that of whoever began last, which is good enough for those before.
// Threads: all calls from any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "penstock/meta.h"

namespace penstock::mount {

class ListingEnds {
 public:
  // One begins: entries up to that cookie are there.
  void begin(meta::Ino directory, uint64_t last_cookie) {
    const std::lock_guard lock(mutex_);
    if (ends_.size() >= kEndsMax) ends_.clear();
    ends_[directory] = last_cookie;
  }
  // Without an end where it is not known.
  uint64_t end_of(meta::Ino directory) const {
    const std::lock_guard lock(mutex_);
    const auto found = ends_.find(directory);
    return found == ends_.end() ? UINT64_MAX : found->second;
  }

 private:
  static constexpr size_t kEndsMax = 100'000;
  mutable std::mutex mutex_;
  std::unordered_map<meta::Ino, uint64_t> ends_;
};

}  // namespace penstock::mount
