#include "base/waiting.h"

#include <gtest/gtest.h>

#include <string_view>
#include <thread>

namespace penstock {
namespace {

using std::string_view_literals::operator""sv;

TEST(Waiting, IsShownWhileItLasts) {
  WaitBoard board = nullptr;
  show_waits_on(&board);
  {
    const WaitingFor outer("the store");
    EXPECT_EQ(board.load(), "the store"sv);
    {
      const WaitingFor inner("memory");
      EXPECT_EQ(board.load(), "memory"sv);
    }
    EXPECT_EQ(board.load(), "the store"sv);
  }
  EXPECT_EQ(board.load(), nullptr);
  show_waits_on(nullptr);
}

TEST(Waiting, OtherThreadsHaveTheirOwn) {
  WaitBoard board = nullptr;
  show_waits_on(&board);
  std::thread([] { const WaitingFor nobody_looks("anything"); }).join();
  EXPECT_EQ(board.load(), nullptr);
  show_waits_on(nullptr);
  const WaitingFor nowhere("anything");
  EXPECT_EQ(board.load(), nullptr);
}

}  // namespace
}  // namespace penstock
