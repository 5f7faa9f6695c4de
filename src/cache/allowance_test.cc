#include "cache/allowance.h"

#include "cache/testing.h"

namespace penstock::cache {

namespace {

constexpr uint64_t kBlock = kBlockBytes;

TEST(Allowance, GivesOutWhatWasGrantedOnce) {
  Allowance allowance;
  EXPECT_FALSE(allowance.reserve(test_name(1, 1)));
  allowance.adopt({.ceiling = 10 * kBlock, .counter = 3, .open_bytes = 10 * kBlock, .invited = {}});
  EXPECT_EQ(allowance.open_bytes(), 10 * kBlock);
  EXPECT_FALSE(allowance.reserve(test_name(1, 11)));
  EXPECT_TRUE(allowance.reserve(test_name(1, 4)));
  EXPECT_FALSE(allowance.runs_out());
  EXPECT_TRUE(allowance.reserve(test_name(2, 6)));
  EXPECT_TRUE(allowance.runs_out());
  EXPECT_FALSE(allowance.reserve(test_name(3, 1)));
  allowance.cancelled(test_name(2, 6));
  allowance.added(test_name(1, 4));
  EXPECT_EQ(allowance.open_bytes(), 6 * kBlock);
  EXPECT_EQ(allowance.standing(), (Standing{4 * kBlock, 0, 3, 10 * kBlock}));
  // A new grant counts what was published: the ceiling is for life.
  allowance.adopt({.ceiling = 5 * kBlock, .counter = 4, .open_bytes = 1, .invited = {}});
  EXPECT_EQ(allowance.open_bytes(), kBlock);
  allowance.adopt({.ceiling = 2 * kBlock, .counter = 5, .open_bytes = 1, .invited = {}});
  EXPECT_EQ(allowance.open_bytes(), 0u);
  EXPECT_FALSE(allowance.reserve(test_name(3, 1)));
}

TEST(Allowance, SomeOfItIsForTheInvited) {
  Allowance allowance;
  const EntryName guest = test_name(1, 2);
  allowance.adopt(
      {.ceiling = 10 * kBlock, .open_bytes = 60, .invited_bytes = 40, .invited = {guest.id}});
  EXPECT_EQ(allowance.open_bytes(), 6 * kBlock);
  EXPECT_FALSE(allowance.reserve(test_name(2, 7)));
  EXPECT_TRUE(allowance.reserve(guest));
  EXPECT_EQ(allowance.open_bytes(), 6 * kBlock);  // Took of its own.
  EXPECT_TRUE(allowance.reserve(test_name(2, 6)));
  EXPECT_FALSE(allowance.reserve(test_name(3, 1)));
  EXPECT_TRUE(allowance.reserve(guest));
  EXPECT_FALSE(allowance.reserve(guest));
}

}  // namespace

}  // namespace penstock::cache
