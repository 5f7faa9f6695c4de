// What a policy counts and promises, against a model that is too simple to be wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "cache/policy.h"
#include "penstock/units.h"

namespace penstock::cache {
namespace {

EntryId id_of(uint64_t number) {
  return {number * 0x9E3779B97F4A7C15U, number};
}

struct PolicyModel {
  struct Item {
    uint32_t blocks = 0;
    bool confirmed = false;
  };
  std::map<EntryId, Item> items;
  uint64_t clock = 0;

  uint64_t used_bytes() const {
    uint64_t sum = 0;
    for (const auto& [id, item] : items) sum += EntryName{id, item.blocks}.file_bytes();
    return sum;
  }
};

class Pair {
 public:
  explicit Pair(uint64_t seed) : random_(seed) { policy_->set_capacity(256 * kMiB); }

  void step() {
    const EntryId id = id_of(random_() % 700);
    const uint64_t bytes = random_() % (2 * kMiB);
    switch (random_() % 12) {
      case 0:
      case 1:
      case 2:
        return add(id, static_cast<uint32_t>(1 + random_() % 1027));
      case 3:
        return remove(id);
      case 4:
      case 5:
      case 6:
        return use(id, bytes);
      case 7:
        return miss(id, bytes);
      case 8:
        return policy_->expected(id);
      case 9:
        return policy_->finished(id, random_() % 2 == 0);
      case 10:
        return take(static_cast<Policy::Need>(random_() % 3));
      default:
        return rare();
    }
  }

  void compare() const {
    ASSERT_EQ(policy_->entries(), model_.items.size());
    ASSERT_EQ(policy_->used_bytes(), model_.used_bytes());
    ASSERT_EQ(policy_->clock_bytes(), model_.clock);
    for (uint64_t i = 0; i < 700; ++i) {
      ASSERT_EQ(policy_->contains(id_of(i)), model_.items.contains(id_of(i)));
    }
  }

 private:
  void add(const EntryId& id, uint32_t blocks) {
    policy_->added({id, blocks});
    model_.items.try_emplace(id, PolicyModel::Item{blocks}).first->second.confirmed = true;
  }
  void remove(const EntryId& id) {
    policy_->removed(id);
    model_.items.erase(id);
  }
  void use(const EntryId& id, uint64_t bytes) {
    policy_->used(id, bytes);
    model_.clock += bytes;
  }
  void miss(const EntryId& id, uint64_t bytes) {
    policy_->missed(id, bytes, static_cast<uint32_t>(random_() % 3 * 500));
    model_.clock += bytes;
  }
  // A victim is one that is there, and of its size.
  void take(Policy::Need need) {
    const std::optional<EntryName> name = policy_->victim(need);
    if (need == Policy::Need::kSpace) {
      ASSERT_EQ(name.has_value(), !model_.items.empty());
    }
    if (!name) return;
    const auto found = model_.items.find(name->id);
    ASSERT_NE(found, model_.items.end());
    EXPECT_EQ(found->second.blocks, name->blocks);
    ASSERT_TRUE(policy_->contains(name->id)) << "counted until removed";
    remove(name->id);
  }
  void rare() {
    switch (random_() % 40) {
      case 0:
        return scan();
      case 1:
        return renew();
      case 2:
        return policy_->set_capacity(kMiB << random_() % 12);
      default:
        check_invited();
    }
  }
  void scan() {
    policy_->begin_scan();
    for (auto& [id, item] : model_.items) item.confirmed = false;
    for (uint64_t i = 0; i < 700; ++i) {
      const EntryId id = id_of(i);
      const auto found = model_.items.find(id);
      if (random_() % 4 == 0) continue;
      if (found != model_.items.end()) {
        policy_->seen({id, found->second.blocks});
        found->second.confirmed = true;
      } else if (random_() % 8 == 0) {
        add(id, 7);
      }
    }
    policy_->end_scan();
    std::erase_if(model_.items, [](const auto& item) { return !item.second.confirmed; });
  }
  void renew() {
    const std::string snapshot = snapshot_of(*policy_);
    std::unique_ptr<Policy> next = make_policy();
    ASSERT_TRUE(restore_from(*next, snapshot).ok());
    EXPECT_TRUE(snapshot_of(*next) == snapshot);
    next->set_capacity(256 * kMiB);
    policy_ = std::move(next);
  }
  void check_invited() {
    const std::vector<EntryId> invited = policy_->invited();
    EXPECT_LE(invited.size(), Policy::kInvitedMax);
    EXPECT_TRUE(std::is_sorted(invited.begin(), invited.end()));
    for (const EntryId& id : invited) EXPECT_FALSE(policy_->contains(id));
  }

  std::mt19937_64 random_;
  std::unique_ptr<Policy> policy_ = make_policy();
  PolicyModel model_;
};

TEST(PolicyModel, CountsWhatIsThere) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    Pair pair(seed);
    for (int i = 0; i < 100; ++i) {
      for (int j = 0; j < 50; ++j) pair.step();
      pair.compare();
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

class PolicyRules : public testing::Test {
 protected:
  static constexpr uint64_t kFile = 1027 * uint64_t{kBlockBytes};
  static constexpr uint64_t kRead = 4 * kMiB;

  PolicyRules() { policy_->set_capacity(100 * kFile); }
  void add(uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; ++i) policy_->added({id_of(i), 1027});
  }
  void use(uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; ++i) policy_->used(id_of(i), kRead);
  }
  void miss(uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; ++i) policy_->missed(id_of(i), kRead, 1027);
  }
  std::unique_ptr<Policy> policy_ = make_policy();
};

TEST_F(PolicyRules, AnEmptyOneHasNoVictim) {
  for (const auto need :
       {Policy::Need::kRoomForOthers, Policy::Need::kRoomForInvited, Policy::Need::kSpace}) {
    EXPECT_EQ(policy_->victim(need), std::nullopt);
  }
}

TEST_F(PolicyRules, NothingGoesForOthersWhileNothingIsKnown) {
  add(0, 100);
  miss(1000, 1900);
  EXPECT_EQ(policy_->victim(Policy::Need::kRoomForOthers), std::nullopt);
  miss(2000, 2200);  // Ten times the cache, and nothing came back.
  EXPECT_NE(policy_->victim(Policy::Need::kRoomForOthers), std::nullopt);
}

TEST_F(PolicyRules, FinishedOnesGoFirstInTheirOrder) {
  add(0, 100);
  policy_->finished(id_of(7), false);
  policy_->finished(id_of(3), false);
  policy_->finished(id_of(9), false);
  policy_->used(id_of(3), kRead);  // Somebody else came for it.
  EXPECT_EQ(policy_->victim(Policy::Need::kRoomForOthers)->id, id_of(7));
  policy_->removed(id_of(7));
  EXPECT_EQ(policy_->victim(Policy::Need::kSpace)->id, id_of(9));
  policy_->removed(id_of(9));
  EXPECT_EQ(policy_->victim(Policy::Need::kRoomForOthers), std::nullopt);
}

TEST_F(PolicyRules, FinishedUntilTheNextEpochGoesOnlyForWhatIsExpected) {
  add(0, 100);
  use(0, 100);
  for (uint64_t i = 0; i < 50; ++i) policy_->finished(id_of(i), true);
  EXPECT_EQ(policy_->victim(Policy::Need::kRoomForOthers), std::nullopt);
  policy_->invited();
  EXPECT_EQ(policy_->victim(Policy::Need::kRoomForInvited), std::nullopt);
  policy_->expected(id_of(1000));
  EXPECT_EQ(policy_->invited(), std::vector{id_of(1000)});
  EXPECT_EQ(policy_->victim(Policy::Need::kRoomForInvited)->id, id_of(49)) << "the newest";
}

TEST_F(PolicyRules, ExpectedOnesGoLast) {
  add(0, 100);
  use(0, 100);
  for (uint64_t i = 0; i < 99; ++i) policy_->expected(id_of(i));
  // Only one is free to go, and is found after a while.
  int others = 0;
  for (int i = 0; i < 200; ++i) others += policy_->victim(Policy::Need::kSpace)->id != id_of(99);
  EXPECT_LT(others, 180);
  policy_->removed(id_of(99));
  EXPECT_NE(policy_->victim(Policy::Need::kSpace), std::nullopt) << "space is needed";
}

TEST_F(PolicyRules, ExpectedBeforeItCameIsExpectedAfter) {
  policy_->expected(id_of(5));
  add(0, 100);
  EXPECT_TRUE(policy_->invited().empty());
  for (uint64_t i = 0; i < 100; ++i) {
    if (i != 5) policy_->expected(id_of(i));
  }
  use(6, 7);
  int others = 0;
  for (int i = 0; i < 400; ++i) others += policy_->victim(Policy::Need::kSpace)->id == id_of(5);
  EXPECT_LT(others, 100) << "6 goes before it whenever it is among those looked at";
}

TEST_F(PolicyRules, WhatNobodyCameForIsNotProtectedForEver) {
  add(0, 100);
  for (uint64_t i = 0; i < 100; ++i) policy_->expected(id_of(i));
  for (int epoch = 0; epoch < 10; ++epoch) miss(1000, 1200);  // Loops of two caches.
  EXPECT_NE(policy_->victim(Policy::Need::kRoomForOthers), std::nullopt);
}

TEST_F(PolicyRules, InvitationsEndByTimeAndAreBounded) {
  add(0, 100);
  for (uint64_t i = 0; i < 2 * Policy::kInvitedMax; ++i) policy_->expected(id_of(1000 + i));
  EXPECT_EQ(policy_->invited().size(), Policy::kInvitedMax);
  policy_->finished(id_of(1000), false);  // No longer.
  EXPECT_EQ(policy_->invited().size(), Policy::kInvitedMax - 1);
  miss(100'000, 100'101);
  EXPECT_TRUE(policy_->invited().empty());
}

TEST_F(PolicyRules, WhoIsInvitedDisplacesNobodyWhoIsUsedAsOften) {
  add(0, 8);
  for (int epoch = 0; epoch < 4; ++epoch) {
    use(0, 8);
    miss(1000, 1200);
  }
  for (int turn = 0; turn < 4; ++turn) {
    miss(5000, 5001);
    miss(6000 + turn * 40, 6040 + turn * 40);
  }
  EXPECT_EQ(policy_->invited(), std::vector{id_of(5000)});
  EXPECT_NE(policy_->victim(Policy::Need::kRoomForInvited), std::nullopt);
  for (int turn = 0; turn < 7; ++turn) use(0, 8);  // Now they are in use again.
  EXPECT_EQ(policy_->invited(), std::vector{id_of(5000)});
  EXPECT_EQ(policy_->victim(Policy::Need::kRoomForInvited), std::nullopt);
}

TEST_F(PolicyRules, MissesOfUnknownSizeAreTakenForUsualOnes) {
  add(0, 100);
  for (int epoch = 0; epoch < 4; ++epoch) {
    for (uint64_t i = 1000; i < 1010; ++i) policy_->missed(id_of(i), kRead);
    miss(2000 + epoch * 100, 2100 + epoch * 100);
  }
  EXPECT_EQ(policy_->invited().size(), 10U);
}

TEST_F(PolicyRules, MemoryStaysBelowWhatIsPromised) {
  const auto promised = [](uint64_t entries) { return 64 * entries + 8 * kMiB; };
  for (uint64_t i = 0; i < 300'000; ++i) {
    policy_->added({id_of(i), 1027});
    ASSERT_LE(policy_->memory_bytes(), promised(i + 1)) << i;
  }
  for (uint64_t i = 0; i < 299'000; ++i) policy_->removed(id_of(i));
  EXPECT_LE(policy_->memory_bytes(), promised(1000)) << "and is given back";
}

}  // namespace
}  // namespace penstock::cache
