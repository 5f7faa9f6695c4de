// Traces of readers, and a cache driven by them as the keeper drives it: for tests and for
// bench/cache_policies.cc. Everything is decided by a seed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cache/policy.h"
#include "cache/room.h"
#include "penstock/units.h"

namespace penstock::cache::simulation {

inline constexpr uint32_t kWindowBytes = 4 * kMiB;
inline constexpr uint32_t kWindowBlocks = kWindowBytes / kBlockBytes + 3;  // With its header.
inline constexpr uint64_t kFileBytes = uint64_t{kWindowBlocks} * kBlockBytes;
inline constexpr uint32_t kSampleBytes = 100 * kKiB;
inline constexpr uint32_t kSamplesPerWindow = kWindowBytes / kSampleBytes;

struct Access {
  uint32_t window = 0;
  uint32_t bytes = kWindowBytes;
  uint8_t stream = 0;  // Which job: hits are counted apart.
};

using Stream = std::vector<Access>;

inline void append(Stream& to, const Stream& more) {
  to.insert(to.end(), more.begin(), more.end());
}

template <typename T>
void shuffle(std::vector<T>& values, std::mt19937_64& random) {
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random() % i]);
}

// Windows [first, first + count), again and again, beginning at `start`.
inline Stream cyclic(uint32_t first, uint32_t count, uint32_t epochs, uint32_t start = 0) {
  Stream stream;
  for (uint64_t i = 0; i < uint64_t{count} * epochs; ++i) {
    stream.push_back({.window = first + static_cast<uint32_t>((start + i) % count)});
  }
  return stream;
}

// The same, in a new order each epoch.
inline Stream shuffled(uint32_t first, uint32_t count, uint32_t epochs, uint64_t seed) {
  std::mt19937_64 random(seed);
  Stream stream;
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), first);
  for (uint32_t epoch = 0; epoch < epochs; ++epoch) {
    shuffle(order, random);
    for (const uint32_t window : order) stream.push_back({.window = window});
  }
  return stream;
}

// Every window holds 40 samples; each epoch reads all samples in a new order.
inline Stream shuffled_samples(uint32_t first, uint32_t count, uint32_t epochs, uint64_t seed) {
  std::mt19937_64 random(seed);
  Stream stream;
  std::vector<uint32_t> order(uint64_t{count} * kSamplesPerWindow);
  std::iota(order.begin(), order.end(), 0);
  for (uint32_t epoch = 0; epoch < epochs; ++epoch) {
    shuffle(order, random);
    for (const uint32_t sample : order) {
      stream.push_back({.window = first + sample / kSamplesPerWindow, .bytes = kSampleBytes});
    }
  }
  return stream;
}

// Independent draws; the k-th most popular window with a weight of 1 / k^skew.
inline Stream zipf(uint32_t first, uint32_t count, uint64_t accesses, double skew, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> below(count);
  double sum = 0;
  for (uint32_t i = 0; i < count; ++i) below[i] = sum += std::pow(i + 1, -skew);
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), first);
  shuffle(order, random);
  Stream stream;
  for (uint64_t i = 0; i < accesses; ++i) {
    const double at = static_cast<double>(random() >> 11) * 0x1p-53 * sum;
    const auto rank = std::upper_bound(below.begin(), below.end() - 1, at) - below.begin();
    stream.push_back({.window = order[static_cast<size_t>(rank)]});
  }
  return stream;
}

// Two jobs at once, `per_first` bytes of the first for one byte of the second, until the first
// ends; the second starts over when it must. Numbered 0 and 1.
inline Stream mixed(const Stream& first, const Stream& second, double per_first) {
  Stream stream;
  double ahead = 0;
  size_t next = 0;
  for (Access access : first) {
    access.stream = 0;
    stream.push_back(access);
    ahead += access.bytes / per_first;
    while (ahead > 0) {
      Access other = second[next++ % second.size()];
      other.stream = 1;
      stream.push_back(other);
      ahead -= other.bytes;
    }
  }
  return stream;
}

inline EntryName name_of_window(uint32_t window) {
  const uint64_t hash = (window + 1) * 0x9E3779B97F4A7C15U;
  return {.id = {hash ^ (hash >> 29), hash * 31}, .blocks = kWindowBlocks};
}

struct SimulatedTally {
  uint64_t bytes = 0;
  uint64_t hit_bytes = 0;
  uint64_t fill_bytes = 0;
  double hit_rate() const { return share(hit_bytes); }
  double fill_rate() const { return share(fill_bytes); }

 private:
  double share(uint64_t part) const {
    return bytes == 0 ? 0 : static_cast<double>(part) / static_cast<double>(bytes);
  }
};

// A cache of so many windows under our policy. As in the keeper, the policy hears of what happens
// only at the next tick, and room is given out by what it said at the last one.
class SimulatedCache {
 public:
  explicit SimulatedCache(uint64_t windows, uint32_t tick_every = 64)
      : policy_(make_policy()), room_(*policy_), tick_every_(tick_every) {
    resize(windows);
    tick();
  }

  // True for a hit. `filled` answers whether it came in.
  bool access(const Access& access, bool* filled = nullptr) {
    if (access.window >= present_.size()) present_.resize(access.window + 1);
    const bool hit = present_[access.window];
    const EntryName name = name_of_window(access.window);
    events_.push_back({hit ? Event::kUsed : Event::kMissed, access});
    const bool fill = !hit && admission_.reserve(name);
    if (fill) {
      admission_.done(name, true);
      present_[access.window] = true;
      events_.push_back({Event::kAdded, access});
    }
    if (filled != nullptr) *filled = fill;
    if (++accesses_ % tick_every_ == 0) tick();
    return hit;
  }

  SimulatedTally run(const Stream& stream) {
    SimulatedTally tally;
    for (const Access& one : stream) {
      bool filled = false;
      tally.hit_bytes += access(one, &filled) ? one.bytes : 0;
      tally.bytes += one.bytes;
      tally.fill_bytes += filled ? kWindowBytes : 0;
    }
    return tally;
  }

  // For readers that know their future.
  void expect(uint32_t window) { events_.push_back({Event::kExpected, {.window = window}}); }
  void finish(uint32_t window, bool again) {
    events_.push_back({again ? Event::kAgain : Event::kFinished, {.window = window}});
  }
  // Brings it in without a read, if it may. True when it is there.
  bool stage(uint32_t window, bool* filled) {
    if (window >= present_.size()) present_.resize(window + 1);
    *filled = false;
    if (present_[window]) return true;
    const EntryName name = name_of_window(window);
    if (!admission_.reserve(name)) return false;
    admission_.done(name, true);
    events_.push_back({Event::kAdded, {.window = window}});
    present_[window] = *filled = true;
    return true;
  }

  void resize(uint64_t windows) { room_.set_capacity(windows * kFileBytes); }

  void tick() {
    for (const auto& [what, access] : events_) note(what, access);
    events_.clear();
    room_.tick([&](const EntryName& name) { return drop(name); });
    admission_.set(room_.state());
  }

  Policy& policy() { return *policy_; }
  const RoomState& state() const { return room_.state(); }

 private:
  enum class Event : uint8_t { kUsed, kMissed, kAdded, kExpected, kFinished, kAgain };

  void note(Event what, const Access& access) {
    const EntryName name = name_of_window(access.window);
    if (what == Event::kAdded) {
      policy_->added(name);
      window_of_[name.id] = access.window;
    } else if (what == Event::kUsed) {
      policy_->used(name.id, access.bytes);
    } else if (what == Event::kMissed) {
      policy_->missed(name.id, access.bytes, name.blocks);
    } else if (what == Event::kExpected) {
      policy_->expected(name.id);
    } else {
      policy_->finished(name.id, what == Event::kAgain);
    }
  }

  bool drop(const EntryName& name) {
    present_[window_of_.at(name.id)] = false;
    return true;
  }

  std::unique_ptr<Policy> policy_;
  Room room_;
  Admission admission_;
  uint32_t tick_every_;
  uint64_t accesses_ = 0;
  std::vector<bool> present_;
  std::vector<std::pair<Event, Access>> events_;
  std::map<EntryId, uint32_t> window_of_;
};

}  // namespace penstock::cache::simulation
