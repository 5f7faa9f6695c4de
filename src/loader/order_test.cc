#include "loader/order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <vector>

#include "loader/deal.h"
#include "loader/mixture.h"
#include "loader/shuffle_quality.h"

namespace penstock::loader {
namespace {

constexpr Shuffle kAllShuffles[] = {Shuffle::kNone, Shuffle::kGlobal, Shuffle::kLocal};

TEST(Permutation, IsABijectionOfEverySize) {
  for (uint64_t size = 1; size < 600; ++size) {
    const Permutation permutation(size * 31, size);
    std::vector<bool> seen(size);
    for (uint64_t i = 0; i < size; ++i) {
      const uint64_t to = permutation(i);
      ASSERT_LT(to, size);
      ASSERT_FALSE(seen[to]) << size;
      seen[to] = true;
    }
  }
}

// Saved positions of users depend on it.
TEST(Permutation, StaysTheSameFromVersionToVersion) {
  const Permutation permutation(1, 1'000'000'007);
  EXPECT_EQ(permutation(0), Permutation(1, 1'000'000'007)(0));
  uint64_t sum = 0;
  for (uint64_t i = 0; i < 1000; ++i) sum = mix(sum, permutation(i * 999'983));
  EXPECT_EQ(sum, 9775999369577645969U);
}

// Chi-square over where the first and the last element go, for sizes with few bits too.
TEST(Permutation, SendsAnElementAnywhereEquallyOften) {
  for (const uint64_t size : {2U, 3U, 5U, 8U, 16U, 37U, 100U}) {
    for (const uint64_t element : {uint64_t{0}, size - 1}) {
      const uint64_t draws = size * 400;
      std::vector<double> hits(size);
      for (uint64_t seed = 0; seed < draws; ++seed) ++hits[Permutation(seed, size)(element)];
      double chi = 0;
      for (const double hit : hits) chi += (hit - 400) * (hit - 400) / 400;
      const auto freedom = static_cast<double>(size - 1);
      EXPECT_LT(chi, freedom + 5 * std::sqrt(2 * freedom) + 5) << size << " " << element;
    }
  }
}

// How far apart neighbours end up: a third of the size on average.
TEST(Permutation, TearsNeighboursApart) {
  constexpr uint64_t kSize = 100'000;
  const Permutation permutation(5, kSize);
  double apart = 0;
  for (uint64_t i = 0; i + 1 < kSize; ++i) {
    apart +=
        std::abs(static_cast<double>(permutation(i)) - static_cast<double>(permutation(i + 1)));
  }
  EXPECT_NEAR(apart / kSize / kSize, 1.0 / 3, 0.01);
}

std::vector<uint64_t> random_shards(std::mt19937_64& random, size_t count) {
  std::vector<uint64_t> samples(count);
  for (uint64_t& one : samples) one = random() % 7 == 0 ? 0 : random() % 200;
  samples.back() += 1;
  return samples;
}

TEST(Order, HasEverySampleOnceInEveryEpoch) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    const std::vector<uint64_t> shards = random_shards(random, 1 + random() % 20);
    OrderOptions options;
    options.shuffle = kAllShuffles[random() % 3];
    options.seed = random();
    options.streams = static_cast<uint32_t>(1 + random() % 800);
    options.window_samples = 1 + random() % 50;
    const Order order(options, shards);
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      const Order::Epoch one(order, epoch);
      std::vector<bool> seen(order.samples());
      for (uint64_t p = 0; p < order.samples(); ++p) {
        const uint64_t sample = one.sample(p);
        ASSERT_LT(sample, order.samples());
        ASSERT_FALSE(seen[sample]);
        seen[sample] = true;
      }
    }
  }
}

TEST(Order, EpochsDifferUnlessNothingIsShuffled) {
  const std::vector<uint64_t> shards(30, 100);
  for (const Shuffle shuffle : kAllShuffles) {
    const Order order({.shuffle = shuffle, .seed = 9, .streams = 12, .window_samples = 40}, shards);
    const Order::Epoch first(order, 0);
    const Order::Epoch second(order, 1);
    size_t same = 0;
    for (uint64_t p = 0; p < order.samples(); ++p) same += first.sample(p) == second.sample(p);
    if (shuffle == Shuffle::kNone) {
      EXPECT_EQ(same, order.samples());
    } else {
      EXPECT_LT(same, order.samples() / 10);
    }
  }
}

// What a node's cache lives on.
TEST(Order, ARankReadsTheSameShardsInEveryEpochWhenLocal) {
  const std::vector<uint64_t> shards(240, 50);
  const Order order({.shuffle = Shuffle::kLocal, .seed = 4, .streams = 120, .window_samples = 16},
                    shards);
  for (const uint32_t world : {2U, 4U, 8U}) {
    std::vector<std::set<uint64_t>> first(world);
    std::vector<std::set<uint64_t>> later(world);
    for (uint64_t p = 0; p < order.samples(); ++p) {
      first[p % world].insert(Order::Epoch(order, 0).sample(p) / 50);
      later[p % world].insert(Order::Epoch(order, 7).sample(p) / 50);
    }
    for (uint32_t rank = 0; rank < world; ++rank) {
      EXPECT_EQ(first[rank], later[rank]);
      EXPECT_LE(first[rank].size(), 240 / world + 120 / world);
    }
  }
}

TEST(Order, LocalWindowsStayTogether) {
  const std::vector<uint64_t> shards(10, 1000);
  const Order order({.shuffle = Shuffle::kLocal, .seed = 4, .streams = 10, .window_samples = 100},
                    shards);
  const Order::Epoch epoch(order, 2);
  for (uint64_t stream = 0; stream < 10; ++stream) {
    for (uint64_t window = 0; window < 10; ++window) {
      std::set<uint64_t> places;
      for (uint64_t i = 0; i < 100; ++i) {
        places.insert(epoch.sample((window * 100 + i) * 10 + stream) / 100);
      }
      EXPECT_EQ(places.size(), 1U);
    }
  }
}

TEST(Order, ResampledDrawsWithReplacementAndEvenly) {
  const Order order({.shuffle = Shuffle::kResampled, .seed = 4}, {1000});
  const Order::Epoch epoch(order, 0);
  std::set<uint64_t> seen;
  for (uint64_t p = 0; p < 1000; ++p) seen.insert(epoch.sample(p));
  EXPECT_NEAR(static_cast<double>(seen.size()), 1000 * (1 - std::exp(-1.0)), 40);
}

// Ranks, batch sizes and restarts as they come: every position is taken once, none twice.
TEST(Deal, EveryPositionOnceWhateverChangesMidway) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 500; ++round) {
    const uint64_t positions = 1 + random() % 2000;
    std::vector<int> taken(positions);
    uint64_t begin = 0;
    while (true) {
      Deal deal{.positions = positions,
                .begin = begin,
                .world_size = static_cast<uint32_t>(1 + random() % 9),
                .batch_size = static_cast<uint32_t>(1 + random() % 40),
                .last = Last::kPad};
      if (deal.steps() == 0) break;
      const uint64_t steps = 1 + random() % deal.steps();
      for (uint64_t step = 0; step < steps; ++step) {
        for (deal.rank = 0; deal.rank < deal.world_size; ++deal.rank) {
          for (uint32_t slot = 0; slot < deal.batch_size; ++slot) {
            const Deal::Taken one = deal.take(step, slot);
            ASSERT_LT(one.position, positions);
            if (one.padding) continue;
            ASSERT_EQ(one.position % deal.world_size, deal.rank);
            ++taken[one.position];
          }
        }
      }
      begin += steps * deal.step_positions();
    }
    for (const int count : taken) ASSERT_EQ(count, 1);
  }
}

TEST(Deal, DropsPadsOrRefusesWhatIsLeftOver) {
  Deal deal{.positions = 103, .world_size = 4, .batch_size = 5};
  EXPECT_EQ(deal.steps(), 5U);
  deal.last = Last::kPad;
  EXPECT_EQ(deal.steps(), 6U);
  EXPECT_TRUE(deal.check().ok());
  deal.last = Last::kExact;
  const Result<void> refused = deal.check();
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().detail.find("3 are left over"), std::string::npos);
  deal.positions = 100;
  EXPECT_TRUE(deal.check().ok());
  deal.rank = 4;
  EXPECT_FALSE(deal.check().ok());
}

TEST(ShuffleQuality, TellsAShuffleFromNone) {
  const std::vector<uint64_t> shards(50, 400);
  const auto measure = [&](OrderOptions options) {
    return measure_shuffle(Order(options, shards), shards, 256);
  };
  const ShuffleQuality none = measure({.shuffle = Shuffle::kNone});
  const ShuffleQuality global = measure({.shuffle = Shuffle::kGlobal});
  const ShuffleQuality local =
      measure({.shuffle = Shuffle::kLocal, .streams = 120, .window_samples = 50});
  EXPECT_LT(none.shards_per_batch, 3);
  EXPECT_LT(none.neighbours_apart, 0.001);
  EXPECT_NEAR(global.shards_per_batch, global.shards_per_batch_perfect, 0.5);
  EXPECT_NEAR(global.neighbours_apart, 1.0 / 3, 0.02);
  EXPECT_GT(local.shards_per_batch, 45);
}

TEST(Mixture, GivesEachSourceItsShareAndCountsIt) {
  const Result<Mixture> mixture = Mixture::create({5, 3, 1, 0.01}, 77);
  ASSERT_TRUE(mixture.ok());
  std::vector<uint64_t> counts(4);
  std::vector<std::set<uint64_t>> seen(4);
  for (uint64_t p = 0; p < 2 * Mixture::kBlock; ++p) {
    const Mixture::Pick pick = mixture->pick(p);
    ++counts[pick.source];
    EXPECT_TRUE(seen[pick.source].insert(pick.index).second);
  }
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(counts[i], 2 * mixture->shares()[i]);
    EXPECT_EQ(*seen[i].rbegin() + 1, counts[i]);
  }
  EXPECT_NEAR(static_cast<double>(counts[0]), 2 * Mixture::kBlock * 5 / 9.01, 2);
}

TEST(Mixture, RefusesWeightsThatMakeNoSense) {
  EXPECT_FALSE(Mixture::create({}, 0).ok());
  EXPECT_FALSE(Mixture::create({1, 0}, 0).ok());
  EXPECT_FALSE(Mixture::create({1, -2}, 0).ok());
  EXPECT_FALSE(Mixture::create({1, std::nan("")}, 0).ok());
  EXPECT_FALSE(Mixture::create({1, 1e-9}, 0).ok());
}

}  // namespace
}  // namespace penstock::loader
