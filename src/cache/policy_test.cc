// How well the policy does, driven as the keeper drives it, over traces of training jobs. The
// figures are what docs/CACHING.md promises; bench/cache_policies.cc compares them with others.
#include "cache/policy.h"

#include <gtest/gtest.h>

#include <list>
#include <unordered_map>

#include "cache/simulation.h"

namespace penstock::cache {
namespace {

using namespace simulation;

constexpr uint32_t kCapacity = 500;  // Windows.

uint32_t times(double share) {
  return static_cast<uint32_t>(kCapacity * share);
}

// The least recently used goes first, and every miss comes in.
class Lru {
 public:
  bool access(uint32_t window) {
    const auto found = where_.find(window);
    const bool hit = found != where_.end();
    if (hit) order_.erase(found->second);
    order_.push_back(window);
    where_[window] = std::prev(order_.end());
    if (order_.size() > kCapacity) {
      where_.erase(order_.front());
      order_.pop_front();
    }
    return hit;
  }

 private:
  std::list<uint32_t> order_;
  std::unordered_map<uint32_t, std::list<uint32_t>::iterator> where_;
};

// After `warm` epochs of `epochs`: the hit rate, and fills per byte read.
SimulatedTally steady(const Stream& stream, uint32_t epochs, uint32_t warm) {
  SimulatedCache cache(kCapacity);
  const auto at = stream.begin() + static_cast<ptrdiff_t>(stream.size() / epochs * warm);
  cache.run({stream.begin(), at});
  return cache.run({at, stream.end()});
}

void expect_loop(const Stream& stream, uint32_t epochs, double at_least) {
  const SimulatedTally tally = steady(stream, epochs, 2);
  EXPECT_GE(tally.hit_rate(), at_least);
  EXPECT_LT(tally.fill_rate(), 0.01);
}

struct Rates {
  double ours = 0;
  double lru = 0;
};

// Of the job numbered `job`, from access `from` on.
Rates rates_of(const Stream& stream, uint8_t job, size_t from) {
  SimulatedCache cache(kCapacity);
  Lru lru;
  SimulatedTally ours;
  SimulatedTally theirs;
  for (size_t i = 0; i < stream.size(); ++i) {
    const bool hit = cache.access(stream[i]);
    const bool lru_hit = lru.access(stream[i].window);
    if (stream[i].stream != job || i < from) continue;
    ours.bytes += stream[i].bytes;
    theirs.bytes += stream[i].bytes;
    ours.hit_bytes += hit ? stream[i].bytes : 0;
    theirs.hit_bytes += lru_hit ? stream[i].bytes : 0;
  }
  return {ours.hit_rate(), theirs.hit_rate()};
}

TEST(PolicyLoop, WhatFitsIsKeptAfterOnePass) {
  const SimulatedTally tally = steady(cyclic(0, times(0.98), 4), 4, 1);
  EXPECT_EQ(tally.hit_bytes, tally.bytes);
  EXPECT_EQ(tally.fill_bytes, 0U);
  const SimulatedTally random = steady(shuffled(0, times(0.98), 6, 1), 6, 1);
  EXPECT_EQ(random.hit_bytes, random.bytes);
}

TEST(PolicyLoop, InFileOrder) {
  expect_loop(cyclic(0, times(1.1), 6), 6, 0.89);
  expect_loop(cyclic(0, times(2), 6), 6, 0.49);
  expect_loop(cyclic(0, times(4), 6), 6, 0.24);
  expect_loop(cyclic(0, times(20), 5), 5, 0.048);
}

TEST(PolicyLoop, ShuffledAnewEachEpoch) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    expect_loop(shuffled(0, times(1.1), 8, seed), 8, 0.88);
    expect_loop(shuffled(0, times(2), 8, seed), 8, 0.48);
    expect_loop(shuffled(0, times(4), 8, seed), 8, 0.235);
    expect_loop(shuffled(0, times(20), 5, seed), 5, 0.045);
  }
}

// The gaps between two samples of a window are of any length. None must look like an end.
TEST(PolicyLoop, ShuffledSamples) {
  expect_loop(shuffled_samples(0, times(2), 5, 1), 5, 0.49);
  expect_loop(shuffled_samples(0, times(8), 4, 2), 4, 0.12);
}

// 400,000 windows, of which half as many can be remembered: a sample of them tells.
TEST(PolicyLoop, FarBeyondWhatIsRemembered) {
  SimulatedCache cache(20'000, 256);
  EXPECT_LT(cache.run(shuffled(0, 400'000, 1, 1)).fill_rate(), 0.11) << "20 C, replaced once";
  const SimulatedTally tally = cache.run(shuffled(0, 400'000, 1, 2));
  EXPECT_GE(tally.hit_rate(), 0.045);
  EXPECT_LT(tally.fill_rate(), 0.01);
}

TEST(PolicyLoop, TicksMayBeFarApart) {
  for (const uint32_t tick_every : {1U, 256U, 1024U}) {
    SCOPED_TRACE(tick_every);
    SimulatedCache cache(kCapacity, tick_every);
    cache.run(shuffled(0, times(2), 4, 1));
    EXPECT_GE(cache.run(shuffled(0, times(2), 4, 2)).hit_rate(), 0.45);
  }
}

// Training, then a pass over a validation set, in each epoch: one loop in two parts.
TEST(PolicyLoop, WithValidation) {
  for (const double validation : {0.2, 1.0}) {
    Stream stream;
    for (uint64_t epoch = 0; epoch < 8; ++epoch) {
      append(stream, shuffled(0, times(2), 1, epoch));
      append(stream, shuffled(times(2), times(validation), 1, 100 + epoch));
    }
    expect_loop(stream, 8, 0.95 / (2 + validation));
  }
}

TEST(PolicyTwoJobs, OverDifferentDataShareTheCache) {
  expect_loop(mixed(cyclic(0, times(2), 8), shuffled(times(2), times(2), 8, 1), 1), 8, 0.235);
}

TEST(PolicyTwoJobs, OverTheSameDataAtDifferentPositions) {
  for (const double apart : {0.04, 0.2, 0.6, 1.0}) {
    SCOPED_TRACE(apart);
    const Stream ahead = cyclic(0, times(2), 10, times(apart));
    const SimulatedTally tally = steady(mixed(cyclic(0, times(2), 10), ahead, 1), 10, 4);
    EXPECT_GE(tally.hit_rate(), 0.48);
    EXPECT_LT(tally.fill_rate(), 0.02);
  }
  const Stream other = shuffled(0, times(2), 10, 2);
  expect_loop(mixed(shuffled(0, times(2), 10, 1), other, 1), 10, 0.47);
}

TEST(PolicyTwoJobs, TheSmallerOneIsKeptWhole) {
  const Stream small = shuffled(0, times(0.5), 40, 1);
  const Stream stream = mixed(small, shuffled(times(2), times(5), 4, 2), 1);
  EXPECT_GE(rates_of(stream, 0, stream.size() / 2).ours, 0.99);
}

// The windows of the second are asked for forty times as often, for a fortieth each time.
TEST(PolicyTwoJobs, SamplesAreNotTakenForHeat) {
  const Stream whole = shuffled(0, times(0.8), 30, 1);
  const Stream stream = mixed(whole, shuffled_samples(times(1), times(8), 3, 2), 1);
  EXPECT_GE(rates_of(stream, 0, stream.size() / 4 * 3).ours, 0.95);
}

TEST(PolicyHotSet, SurvivesAScan) {
  const Stream hot = shuffled(0, times(0.5), 8, 1);
  const Stream stream = mixed(shuffled(0, times(0.5), 24, 2), cyclic(times(1), times(16), 1), 1);
  Stream all = hot;  // Alone at first.
  append(all, stream);
  const Rates rates = rates_of(all, 0, hot.size());
  EXPECT_GE(rates.ours, 0.95);
  EXPECT_GE(rates.ours, rates.lru - 0.02);
}

TEST(PolicyHotSet, SurvivesAScanWhenItIsUnevenlyHot) {
  const Stream hot = zipf(0, times(0.5), times(10), 0.8, 1);
  Stream all = hot;
  append(all, mixed(zipf(0, times(0.5), times(20), 0.8, 1), cyclic(times(1), times(30), 1), 1));
  const Rates rates = rates_of(all, 0, hot.size());
  EXPECT_GE(rates.ours, 0.95);
  EXPECT_GE(rates.ours, rates.lru - 0.02);
}

TEST(PolicyHotSet, ComesIntoACacheFullOfAScan) {
  const Stream scan = cyclic(times(50), times(4), 1);
  Stream all = scan;
  append(all, mixed(shuffled(0, times(0.5), 12, 1), cyclic(times(1), times(20), 1), 1));
  const Rates whole = rates_of(all, 0, scan.size());
  EXPECT_GE(whole.ours, whole.lru - 0.02);
  EXPECT_GE(rates_of(all, 0, scan.size() + times(3)).ours, 0.95);
}

TEST(PolicyHotSet, Zipf) {
  for (const double skew : {0.7, 0.9, 1.1}) {
    SCOPED_TRACE(skew);
    const Stream stream = zipf(0, times(10), times(60), skew, 1);
    const Rates rates = rates_of(stream, 0, stream.size() / 3);
    EXPECT_GE(rates.ours, rates.lru + 0.02);
  }
}

// In the second and third epoch of other data.
std::pair<double, double> after_switch(const Stream& before, const Stream& epoch1,
                                       const Stream& epoch2, const Stream& epoch3) {
  SimulatedCache cache(kCapacity, 16);
  cache.run(before);
  EXPECT_EQ(cache.run(epoch1).hit_bytes, 0U);
  const double second = cache.run(epoch2).hit_rate();
  return {second, cache.run(epoch3).hit_rate()};
}

TEST(PolicySwitch, LoopToLoop) {
  const Stream b = cyclic(times(2), times(2), 1);
  const auto [second, third] = after_switch(cyclic(0, times(2), 5), b, b, b);
  EXPECT_GE(second, 0.45);
  EXPECT_GE(third, 0.48);
}

TEST(PolicySwitch, Shuffled) {
  const auto [second, third] =
      after_switch(shuffled(0, times(2), 6, 1), shuffled(times(2), times(2), 1, 2),
                   shuffled(times(2), times(2), 1, 3), shuffled(times(2), times(2), 1, 4));
  EXPECT_GE(second, 0.15);
  EXPECT_GE(third, 0.45);
}

TEST(PolicySwitch, FromMuchMoreDataToWhatFits) {
  const Stream b = shuffled(times(20), times(0.8), 1, 2);
  SimulatedCache cache(kCapacity);
  cache.run(shuffled(0, times(8), 4, 1));
  for (int epoch = 0; epoch < 6; ++epoch) cache.run(b);
  EXPECT_GE(cache.run(b).hit_rate(), 0.99);
}

TEST(PolicySwitch, AfterOneReadThatNeverCameBack) {
  SimulatedCache cache(kCapacity);
  cache.run(cyclic(0, times(4), 1));
  cache.run(shuffled(times(4), times(2), 3, 1));
  EXPECT_GE(cache.run(shuffled(times(4), times(2), 2, 2)).hit_rate(), 0.45);
}

TEST(PolicyQuota, LoweredAndRaised) {
  SimulatedCache cache(kCapacity);
  cache.run(shuffled(0, times(2), 4, 1));
  cache.resize(kCapacity / 2);
  cache.tick();
  EXPECT_LE(cache.policy().used_bytes(), kCapacity / 2 * kFileBytes);
  EXPECT_GE(cache.run(shuffled(0, times(2), 2, 2)).hit_rate(), 0.22);
  cache.resize(kCapacity);
  cache.run(shuffled(0, times(2), 1, 3));
  EXPECT_GE(cache.run(shuffled(0, times(2), 2, 4)).hit_rate(), 0.47);
}

// A reader that says what comes next, `ahead` windows before, and what it is done with.
SimulatedTally staged(SimulatedCache& cache, const Stream& stream, size_t ahead, bool again) {
  SimulatedTally tally;
  size_t told = 0;
  size_t next = 0;
  for (size_t i = 0; i < stream.size(); ++i) {
    for (; told < std::min(stream.size(), i + ahead); ++told) cache.expect(stream[told].window);
    bool filled = false;
    next = std::max(next, i + 1);
    for (int fills = 0; next < told && fills < 4; fills += filled, ++next) {
      if (!cache.stage(stream[next].window, &filled)) break;
      tally.fill_bytes += filled ? kWindowBytes : 0;
    }
    tally.hit_bytes += cache.access(stream[i], &filled) ? stream[i].bytes : 0;
    tally.fill_bytes += filled ? kWindowBytes : 0;
    tally.bytes += stream[i].bytes;
    cache.finish(stream[i].window, again);
  }
  return tally;
}

TEST(PolicyStaging, LoopKeepsAllButWhatIsAhead) {
  for (const bool in_order : {true, false}) {
    SimulatedCache cache(kCapacity, 16);
    const auto stream = [&](uint32_t epochs, uint64_t seed) {
      return in_order ? cyclic(0, times(2), epochs) : shuffled(0, times(2), epochs, seed);
    };
    staged(cache, stream(2, 1), times(0.125), true);
    const SimulatedTally tally = staged(cache, stream(3, 2), times(0.125), true);
    EXPECT_GE(tally.hit_rate(), 0.98) << "staged in time, but for the start";
    // The ideal: 1 - (1 - 0.125) / 2.
    EXPECT_LE(tally.fill_rate(), 0.58);
  }
}

TEST(PolicyStaging, BesideAHotSetTakesOnlyWhatIsAhead) {
  SimulatedCache cache(kCapacity, 16);
  const Stream hot = shuffled(0, times(0.5), 1, 1);
  for (int i = 0; i < 4; ++i) cache.run(hot);
  // Read once: nothing of it is kept.
  const SimulatedTally tally = staged(cache, cyclic(times(2), times(4), 1), times(0.125), false);
  EXPECT_GE(tally.hit_rate(), 0.99);
  EXPECT_EQ(cache.run(hot).hit_rate(), 1.0);
}

}  // namespace
}  // namespace penstock::cache
