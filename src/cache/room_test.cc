#include "cache/room.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "penstock/units.h"

namespace penstock::cache {
namespace {

constexpr uint32_t kBlocks = 1027;
constexpr uint64_t kFile = kBlocks * uint64_t{kBlockBytes};
constexpr uint64_t kRead = 4 * kMiB;

EntryName name_of(uint64_t number) {
  return {{number * 7919, number}, kBlocks};
}

class RoomTest : public testing::Test {
 protected:
  RoomTest() { room_.set_capacity(256 * kFile); }

  void fill(uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; ++i) policy_->added(name_of(i));
  }
  void miss(uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; ++i) policy_->missed(name_of(i).id, kRead, kBlocks);
  }
  void use(uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; ++i) policy_->used(name_of(i).id, kRead);
  }
  uint32_t tick() {
    return room_.tick([&](const EntryName& name) {
      dropped_.push_back(name);
      return drop_works_;
    });
  }

  std::unique_ptr<Policy> policy_ = make_policy();
  Room room_{*policy_};
  std::vector<EntryName> dropped_;
  bool drop_works_ = true;
};

TEST_F(RoomTest, IsOpenUntilTheCacheIsFull) {
  tick();
  EXPECT_EQ(room_.state().open_bytes, 256 * kFile);
  fill(0, 200);
  tick();
  EXPECT_EQ(room_.state().open_bytes, 56 * kFile);
  fill(200, 256);
  tick();
  EXPECT_EQ(room_.state().open_bytes, 0U);
  EXPECT_TRUE(dropped_.empty());
}

TEST_F(RoomTest, ALoopMakesNoRoom) {
  fill(0, 256);
  for (int epoch = 0; epoch < 5; ++epoch) {
    use(0, 256);
    miss(256, 512);
    tick();
    EXPECT_EQ(room_.state().open_bytes + room_.state().invited_bytes, 0U);
  }
  EXPECT_TRUE(dropped_.empty());
}

TEST_F(RoomTest, WhatIsOverdueMakesRoomForAll) {
  fill(0, 256);
  for (int epoch = 0; epoch < 10; ++epoch) miss(1000, 1300);  // Only these are read any more.
  tick();
  EXPECT_GE(room_.state().open_bytes + room_.state().invited_bytes, 2 * kFile);
  EXPECT_LE(dropped_.size(), 40U) << "a sixteenth, and for those invited as much again";
  EXPECT_EQ(policy_->used_bytes(), (256 - dropped_.size()) * kFile);
}

TEST_F(RoomTest, TooFullGivesWay) {
  fill(0, 256);
  room_.set_capacity(100 * kFile);
  EXPECT_EQ(tick(), 156U);
  EXPECT_EQ(policy_->used_bytes(), 100 * kFile);
  room_.set_capacity(0);
  EXPECT_EQ(tick(), 100U);
  EXPECT_EQ(room_.state().open_bytes, 0U);
}

TEST_F(RoomTest, DropsSoManyAtATimeAndNoMore) {
  room_.set_capacity(3000 * kFile);
  fill(0, 3000);
  room_.set_capacity(kFile);
  EXPECT_EQ(tick(), Room::kDropsMax);
  EXPECT_EQ(tick(), Room::kDropsMax);
  EXPECT_EQ(tick(), 2999 - 2 * Room::kDropsMax);
}

TEST_F(RoomTest, AFailedDropEndsTheTick) {
  fill(0, 256);
  room_.set_capacity(100 * kFile);
  drop_works_ = false;
  EXPECT_EQ(tick(), 0U);
  EXPECT_EQ(dropped_.size(), 1U);
  EXPECT_EQ(policy_->entries(), 256U) << "still counted";
}

TEST_F(RoomTest, RoomAtTheCostOfOthersIsForThoseInvited) {
  fill(0, 256);
  for (int epoch = 0; epoch < 4; ++epoch) {
    use(0, 256);
    miss(2000, 2512);
  }
  for (int turn = 0; turn < 4; ++turn) miss(1000, 1010);  // Far more often.
  tick();
  const RoomState& state = room_.state();
  EXPECT_EQ(state.invited.size(), 10U);
  EXPECT_GE(state.invited_bytes, 2 * kFile);
  EXPECT_LT(state.invited_bytes, 11 * kFile);
  EXPECT_EQ(state.open_bytes, 0U);

  Admission admission;
  admission.set(state);
  EXPECT_FALSE(admission.reserve(name_of(2000)));
  EXPECT_TRUE(admission.reserve(name_of(1003)));
  admission.done(name_of(1003), true);
  policy_->added(name_of(1003));
  tick();
  EXPECT_EQ(room_.state().invited.size(), 9U);
}

TEST_F(RoomTest, RoomForThoseInvitedIsOpenWhenTheirTimeIsOver) {
  fill(0, 256);
  use(0, 256);
  policy_->expected(name_of(999).id);
  tick();
  EXPECT_GE(room_.state().invited_bytes, kFile);
  EXPECT_EQ(room_.state().open_bytes, 0U);
  miss(2000, 2300);  // A cache full, and nobody came.
  tick();
  EXPECT_EQ(room_.state().invited_bytes, 0U);
  EXPECT_GE(room_.state().open_bytes, kFile);
}

class AdmissionTest : public testing::Test {
 protected:
  AdmissionTest() { set(2, 2); }
  void set(uint64_t open, uint64_t invited) {
    admission_.set({.open_bytes = open * kFile,
                    .invited_bytes = invited * kFile,
                    .invited = {name_of(1).id, name_of(2).id, name_of(3).id, name_of(4).id}});
  }
  Admission admission_;
};

TEST_F(AdmissionTest, OthersGetOnlyWhatIsOpen) {
  EXPECT_TRUE(admission_.reserve(name_of(10)));
  EXPECT_TRUE(admission_.reserve(name_of(11)));
  EXPECT_FALSE(admission_.reserve(name_of(12)));
  EXPECT_TRUE(admission_.reserve(name_of(1)));
}

TEST_F(AdmissionTest, ThoseInvitedGetAll) {
  for (uint64_t i = 1; i <= 2; ++i) EXPECT_TRUE(admission_.reserve(name_of(i)));
  EXPECT_EQ(admission_.open_bytes(), 2 * kFile) << "theirs first";
  for (uint64_t i = 3; i <= 4; ++i) EXPECT_TRUE(admission_.reserve(name_of(i)));
  EXPECT_FALSE(admission_.reserve(name_of(1)));
}

TEST_F(AdmissionTest, WhatCameToNothingMayBeGivenOutAgain) {
  EXPECT_TRUE(admission_.reserve(name_of(10)));
  EXPECT_TRUE(admission_.reserve(name_of(11)));
  admission_.done(name_of(10), false);
  EXPECT_TRUE(admission_.reserve(name_of(12)));
  admission_.done(name_of(12), true);
  EXPECT_FALSE(admission_.reserve(name_of(13)));
}

TEST_F(AdmissionTest, WhatIsUnderWayIsTakenOffANewState) {
  EXPECT_TRUE(admission_.reserve(name_of(10)));
  set(2, 0);
  EXPECT_EQ(admission_.open_bytes(), kFile);
  set(0, 2);
  EXPECT_TRUE(admission_.reserve(name_of(1)));
  EXPECT_FALSE(admission_.reserve(name_of(2)));
  admission_.done(name_of(10), true);
  admission_.done(name_of(1), true);
  set(1, 0);
  EXPECT_EQ(admission_.open_bytes(), kFile);
}

}  // namespace
}  // namespace penstock::cache
