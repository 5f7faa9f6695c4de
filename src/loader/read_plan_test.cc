#include "loader/read_plan.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace penstock::loader {
namespace {

constexpr uint64_t kPlannedShard = 10'000'123;
const auto shard_bytes = [](uint32_t, uint32_t) { return kPlannedShard; };

// Whatever is wanted: every byte has its place, no read leaves its shard, places do not overlap, and
// a unit has all that its slots want.
TEST(ReadPlan, BringsAllThatIsWanted) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 500; ++round) {
    ReadRules rules;
    rules.alignment = random() % 2 == 0 ? 1 : 4096;
    rules.gap_max = random() % 100'000;
    rules.piece_max = 4096 + random() % 2'000'000;
    rules.unit_min = random() % 500'000;
    std::vector<Wanted> wanted;
    const auto slots = static_cast<uint32_t>(1 + random() % 64);
    for (uint32_t slot = 0; slot < slots; ++slot) {
      const uint32_t shard = static_cast<uint32_t>(random() % 3);
      const uint64_t near = random() % (kPlannedShard - 1'000'000);
      for (uint32_t field = 0; field < 1 + random() % 3; ++field) {
        const uint64_t offset = near + random() % 500'000;
        wanted.push_back(
            {0, shard, offset, random() % 400'000, slot, field, random() % 8 == 0 ? slot + 1 : 0});
      }
    }
    const ReadPlan plan = plan_reads(wanted, rules, shard_bytes);
    ASSERT_EQ(plan.places.size(), wanted.size());
    uint64_t before = 0;
    for (const Piece& piece : plan.pieces) {
      ASSERT_LE(piece.offset + piece.length, kPlannedShard);
      ASSERT_EQ(piece.offset % rules.alignment, 0U);
      ASSERT_EQ(piece.at % rules.alignment, 0U);
      ASSERT_GE(piece.at, before);
      before = piece.at + piece.length;
    }
    ASSERT_LE(before, plan.raw_bytes);

    std::set<uint32_t> seen;
    for (const Unit& unit : plan.units) {
      for (uint32_t i = 0; i < unit.slots; ++i) {
        const uint32_t slot = plan.slots[unit.first_slot + i];
        ASSERT_TRUE(seen.insert(slot).second);
        for (size_t w = 0; w < wanted.size(); ++w) {
          if (wanted[w].slot != slot) continue;
          bool inside = false;
          for (uint32_t p = unit.first_piece; p < unit.first_piece + unit.pieces; ++p) {
            const Piece& piece = plan.pieces[p];
            inside |= piece.shard == wanted[w].shard && piece.object == wanted[w].object &&
                      plan.places[w] >= piece.at &&
                      plan.places[w] + wanted[w].size <= piece.at + piece.length &&
                      plan.places[w] - piece.at == wanted[w].offset - piece.offset;
          }
          ASSERT_TRUE(inside);
        }
      }
    }
    ASSERT_EQ(seen.size(), slots);
  }
}

TEST(ReadPlan, NeighboursAreReadTogetherUpToALimit) {
  std::vector<Wanted> wanted;
  for (uint32_t slot = 0; slot < 20; ++slot)
    wanted.push_back({0, 0, slot * 100'512U, 100'000, slot, 0, 0});
  const ReadPlan plan = plan_reads(wanted, {.piece_max = 1'000'000}, shard_bytes);
  EXPECT_EQ(plan.pieces.size(), 3U);
  EXPECT_EQ(plan.units.size(), 3U);
  const ReadPlan apart = plan_reads(wanted, {.gap_max = 100, .piece_max = 1'000'000}, shard_bytes);
  EXPECT_EQ(apart.pieces.size(), 20U);
}

TEST(ReadPlan, AnEmptyFieldIsWantedToo) {
  const std::vector<Wanted> wanted = {{0, 0, kPlannedShard, 0, 0, 0, 0}};
  const ReadPlan plan = plan_reads(wanted, {.alignment = 4096}, shard_bytes);
  ASSERT_EQ(plan.pieces.size(), 1U);
  EXPECT_LE(plan.pieces[0].offset + plan.pieces[0].length, kPlannedShard);
}

}  // namespace
}  // namespace penstock::loader
