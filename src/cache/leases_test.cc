#include "cache/leases.h"

#include <deque>
#include <random>
#include <set>

#include "cache/testing.h"

namespace penstock::cache {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const SteadyTime kStart = SteadyTime() + std::chrono::hours(1);

Standing standing(uint64_t published, uint32_t reserved_blocks, uint32_t adopted,
                  uint64_t ceiling) {
  return {published, reserved_blocks, adopted, ceiling};
}

Leases::Round round(uint64_t room, uint32_t counter, bool own_active, SteadyTime now) {
  return {.room = room, .counter = counter, .own_active = own_active, .now = now};
}

TEST(Leases, ANewcomerGetsAShare) {
  Leases leases;
  leases.heard("a", {}, kStart);
  EXPECT_EQ(leases.ceiling("a"), 0u);
  leases.share(round(1000, 1, true, kStart));
  EXPECT_EQ(leases.ceiling("a"), 496u);  // Half, in whole units.
  EXPECT_EQ(leases.outstanding(), 496u);
  EXPECT_EQ(leases.ceiling("b"), 0u);
}

TEST(Leases, ALoweredCeilingCountsUntilTheMemberGoesByIt) {
  Leases leases;
  leases.heard("a", {}, kStart);
  leases.share(round(1000, 1, true, kStart));
  leases.heard("a", standing(0, 0, 1, 496), kStart);
  leases.share(round(100, 2, true, kStart));
  EXPECT_LT(leases.ceiling("a"), 100u);
  EXPECT_EQ(leases.outstanding(), 496u);
  leases.heard("a", standing(400, 0, 1, 496), kStart);  // Went on under the old one.
  EXPECT_EQ(leases.outstanding(), 96u);
  leases.share(round(0, 3, true, kStart));
  leases.heard("a", standing(400, 0, 3, 400), kStart);
  EXPECT_EQ(leases.outstanding(), 0u);
}

TEST(Leases, FillsUnderWayAreNotTakenBack) {
  Leases leases;
  leases.heard("a", {}, kStart);
  leases.share(round(100 * kBlockBytes, 1, false, kStart));
  leases.heard("a", standing(0, 5, 1, leases.ceiling("a")), kStart);
  leases.share(round(0, 2, false, kStart));
  EXPECT_EQ(leases.ceiling("a"), 5 * kBlockBytes);
  leases.heard("a", standing(0, 5, 2, 0), kStart);
  EXPECT_EQ(leases.outstanding(), 5 * kBlockBytes);
}

TEST(Leases, WhoFillsGetsMore) {
  Leases leases;
  leases.heard("busy", {}, kStart);
  leases.heard("idle", {}, kStart);
  const SteadyTime later = kStart + seconds(10);
  leases.heard("busy", standing(kBlockBytes, 0, 0, 0), later);
  leases.share(round(1 << 20, 1, false, later));
  EXPECT_GT(leases.ceiling("busy"), 10 * leases.ceiling("idle"));
  EXPECT_GT(leases.ceiling("idle"), 0u);
}

// Where there is not enough for all, one after the other gets what is of use.
TEST(Leases, NobodyIsGivenLessThanAGrain) {
  Leases leases;
  for (const char* member : {"a", "b", "c"}) leases.heard(member, {}, kStart);
  Leases::Round next = round(130, 0, false, kStart);
  next.grain = 100;
  std::set<std::string> served;
  for (uint64_t turn = 0; turn < 8; ++turn) {
    next.turn = turn / 2;
    ++next.counter;
    leases.share(next);
    for (const char* member : {"a", "b", "c"}) {
      const uint64_t ceiling = leases.ceiling(member);
      EXPECT_TRUE(ceiling == 0 || ceiling == 100) << ceiling;
      if (ceiling > 0) served.insert(member);
      leases.heard(member, standing(0, 0, next.counter, ceiling), kStart);
    }
    EXPECT_LE(leases.outstanding(), 130u);
  }
  EXPECT_EQ(served.size(), 3u);
}

TEST(Leases, WhoMissesCountsAsFilling) {
  Leases leases;
  leases.heard("a", {}, kStart);
  leases.heard("b", {}, kStart);
  const SteadyTime later = kStart + seconds(10);
  leases.wants("b", later);
  leases.wants("stranger", later);
  leases.share(round(1000, 1, false, later));
  EXPECT_GT(leases.ceiling("b"), 10 * leases.ceiling("a"));
}

TEST(Leases, ARestoredLeaseHoldsUntilItsMemberSpeaks) {
  Leases leases;
  StateRow row;
  row.ceiling = 100;
  row.ceiling_max = 300;
  row.changed = 7;
  leases.restore("a", row);
  EXPECT_EQ(leases.outstanding(), 300u);
  leases.heard("a", standing(50, 0, 6, 300), kStart);
  EXPECT_EQ(leases.outstanding(), 250u);
  leases.heard("a", standing(50, 0, 7, 100), kStart);
  EXPECT_EQ(leases.outstanding(), 50u);
  leases.forget("a");
  EXPECT_EQ(leases.outstanding(), 0u);
}

TEST(Leases, NothingChangesWhereNothingHappens) {
  Leases leases;
  leases.heard("a", {}, kStart);
  leases.heard("b", {}, kStart);
  leases.share(round(1000000, 1, false, kStart));
  const uint64_t ceiling = leases.ceiling("a");
  // A little less room is no reason to bother anybody.
  leases.share(round(990000, 2, false, kStart));
  EXPECT_EQ(leases.ceiling("a"), ceiling);
}

// Members and an evictor that hear of each other late, in a world with one truth: what is on the
// drive and being filled never exceeds the limit.
class Simulation {
 public:
  Simulation(unsigned seed, size_t members)
      : random_(seed), grain_(seed % 2 == 0 ? 0 : 20 * kBlockBytes), members_(members) {}

  void run() {
    for (int step = 0; step < 3000; ++step) {
      const size_t who = random_() % members_.size();
      switch (random_() % 7) {
        case 0:
        case 1:
          fill(members_[who]);
          break;
        case 2:
          publish(members_[who]);
          break;
        case 3:
          speak(members_[who]);
          break;
        case 4:
          adopt(members_[who]);
          break;
        case 5:
          fill(own_);
          break;
        default:
          evictor_tick(step);
      }
      ASSERT_LE(on_drive(), kLimit) << "step " << step;
    }
  }
  uint64_t published() const { return total_; }

 private:
  static constexpr uint64_t kLimit = 1000 * kBlockBytes;
  struct Member {
    uint64_t published = 0, reserved = 0, ceiling = 0;
    uint32_t adopted = 0;
    std::deque<Standing> said;
    std::deque<uint64_t> log;  // Bytes added, one entry per standing.
    uint64_t unsaid = 0;
  };

  uint64_t on_drive() const {
    uint64_t sum = truth_ + own_.reserved;
    for (const Member& member : members_) sum += member.reserved;
    return sum;
  }
  void fill(Member& member) {
    const uint64_t bytes = (1 + random_() % 20) * kBlockBytes;
    if (member.published + member.reserved + bytes <= member.ceiling) member.reserved += bytes;
  }
  void publish(Member& member) {
    truth_ += member.reserved;
    total_ += member.reserved;
    member.unsaid += member.reserved;
    member.published += member.reserved;
    member.reserved = 0;
  }
  void speak(Member& member) {
    member.said.push_back({member.published, static_cast<uint32_t>(member.reserved / kBlockBytes),
                           member.adopted, member.ceiling});
    member.log.push_back(std::exchange(member.unsaid, 0));
  }
  void adopt(Member& member) {
    const size_t index = static_cast<size_t>(&member - members_.data());
    if (states_.empty() || index >= states_.back().second.size()) return;
    member.adopted = states_.back().first;
    member.ceiling = states_.back().second[index];
  }
  void evictor_tick(int step) {
    const SteadyTime now = kStart + milliseconds(20 * step);
    const uint64_t own_counted = own_.published;
    counted_ += std::exchange(own_.unsaid, 0);
    for (size_t i = 0; i < members_.size(); ++i) {
      Member& member = members_[i];
      while (!member.said.empty() && random_() % 4 != 0) {
        counted_ += member.log.front();
        leases_.heard(std::to_string(i), member.said.front(), now);
        member.log.pop_front();
        member.said.pop_front();
      }
    }
    if (random_() % 3 == 0) {  // Evicts some of what it knows.
      const uint64_t bytes = std::min(counted_, (random_() % 300) * kBlockBytes);
      counted_ -= bytes;
      truth_ -= bytes;
    }
    fill(own_);  // Its process does not wait for it.
    if (random_() % 2 == 0) publish(own_);
    const uint64_t room = kLimit > counted_ ? kLimit - counted_ : 0;
    leases_.share({.room = room,
                   .grain = grain_,
                   .counter = ++counter_,
                   .own_active = random_() % 2 == 0,
                   .own_taken = own_.published + own_.reserved - own_counted,
                   .now = now,
                   .turn = static_cast<uint64_t>(step / 50)});
    own_.ceiling = own_counted + (room > leases_.outstanding() ? room - leases_.outstanding() : 0);
    std::vector<uint64_t> ceilings;
    for (size_t i = 0; i < members_.size(); ++i) {
      ceilings.push_back(leases_.ceiling(std::to_string(i)));
    }
    if (random_() % 4 != 0) states_.emplace_back(counter_, ceilings);
  }

  std::mt19937 random_;
  const uint64_t grain_;
  Leases leases_;
  Member own_;  // The process that evicts.
  std::vector<Member> members_;
  std::vector<std::pair<uint32_t, std::vector<uint64_t>>> states_;
  uint64_t truth_ = 0;    // On the drive.
  uint64_t counted_ = 0;  // Of that, known to the evictor.
  uint64_t total_ = 0;
  uint32_t counter_ = 0;
};

TEST(Leases, TogetherTheyNeverExceedTheLimit) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    Simulation simulation(seed, 1 + seed % 7);
    simulation.run();
    // And the room is used: many times the limit was filled.
    EXPECT_GT(simulation.published(), 5000 * kBlockBytes);
    if (::testing::Test::HasFailure()) break;
  }
}

}  // namespace

}  // namespace penstock::cache
