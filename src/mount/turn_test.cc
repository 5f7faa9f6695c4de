#include "mount/turn.h"

#include <gtest/gtest.h>

#include <latch>
#include <vector>

namespace penstock::mount {
namespace {

TEST(Turn, IsOneThreadsAtATime) {
  Turn turn(/*stay_awake=*/false);
  int inside = 0;  // Not atomic: the turn protects it.
  int total = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        turn.take();
        EXPECT_EQ(++inside, 1);
        ++total;
        --inside;
        round % 3 == 0 ? turn.pass_on() : turn.keep();
      }
      turn.take();
      turn.pass_on();
    });
  }
  threads.clear();
  EXPECT_EQ(total, 2000);
}

TEST(Turn, IsTakenFromWhoeverIsStillAtIt) {
  Turn turn(/*stay_awake=*/false);
  std::latch kept(1);
  std::latch taken(1);
  std::jthread slow([&] {
    turn.take();
    turn.keep();
    kept.count_down();
    taken.wait();  // As an answer that waits for another one.
    turn.take();
    turn.pass_on();
  });
  kept.wait();
  turn.take();
  taken.count_down();
  turn.pass_on();
}

TEST(Turn, IsTakenAwayAfterALongRestToo) {
  Turn turn(/*stay_awake=*/false);
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  turn.take();
  turn.keep();
  std::jthread other([&] {
    turn.take();
    turn.pass_on();
  });
}

TEST(Turn, StaysWithWhoeverIsQuick) {
  Turn turn(/*stay_awake=*/false);
  for (int i = 0; i < 1000; ++i) {
    turn.take();
    turn.keep();
  }
}

}  // namespace
}  // namespace penstock::mount
