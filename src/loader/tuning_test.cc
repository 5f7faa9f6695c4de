#include "loader/tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::loader {

namespace {

using testing::ElementsAre;

TEST(Tuning, TriesFewerThanThereAreCoresAndMore) {
  EXPECT_THAT(thread_counts_to_try(1), ElementsAre(1, 2));
  EXPECT_THAT(thread_counts_to_try(2), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(thread_counts_to_try(64), ElementsAre(16, 32, 64, 96, 128));
}

TEST(Tuning, TakesTheFewestThatAreAboutAsFast) {
  EXPECT_EQ(best_threads({{1, 500}, {2, 980}, {3, 1000}, {4, 990}}), 2u);
  EXPECT_EQ(best_threads({{1, 500}, {2, 900}, {3, 1000}, {4, 1000}}), 3u);
  EXPECT_EQ(best_threads({{1, 1000}, {2, 700}}), 1u);
}

TEST(Tuning, SaysWhatItTried) {
  EXPECT_EQ(to_text({2, {{1, 640}, {2, 1200}}}), "2 threads (1: 640, 2: 1.20 k samples/s)");
  EXPECT_EQ(to_text({1, {{1, 640}}}), "1 thread (1: 640 samples/s)");
}

}  // namespace

}  // namespace penstock::loader
