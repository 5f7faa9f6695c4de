#include "mount/requests_under_way.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace penstock::mount {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StrEq;

RequestFacts read_of(uint64_t number) {
  return {.number = number,
          .opcode = 15,
          .ino = 7,
          .offset = 4096,
          .length = 100,
          .begun = RequestFacts::Clock::now()};
}

TEST(RequestsUnderWay, IsSeenFromItsBeginningToItsEnd) {
  RequestsUnderWay under_way;
  EXPECT_THAT(under_way.all(), IsEmpty());
  const RequestFacts request = read_of(3);
  under_way.begin(request);
  ASSERT_THAT(under_way.all(), SizeIs(1));
  const RequestFacts seen = under_way.all()[0].request;
  EXPECT_EQ(seen.number, 3u);
  EXPECT_EQ(seen.opcode, 15u);
  EXPECT_EQ(seen.ino, 7u);
  EXPECT_EQ(seen.offset, 4096u);
  EXPECT_EQ(seen.length, 100u);
  EXPECT_EQ(seen.begun, request.begun);
  under_way.end();
  EXPECT_THAT(under_way.all(), IsEmpty());
}

TEST(RequestsUnderWay, AThreadKnowsItsOwnByTheNumber) {
  RequestsUnderWay under_way;
  EXPECT_EQ(under_way.mine(3), nullptr);
  under_way.begin(read_of(3));
  ASSERT_NE(under_way.mine(3), nullptr);
  EXPECT_EQ(under_way.mine(4), nullptr);
  EXPECT_EQ(under_way.mine(0), nullptr);
  std::thread([&] { EXPECT_EQ(under_way.mine(3), nullptr); }).join();
  under_way.end();
  EXPECT_EQ(under_way.mine(3), nullptr);
}

TEST(RequestsUnderWay, AnotherThreadCanGoOnWithIt) {
  RequestsUnderWay under_way;
  under_way.begin(read_of(3));
  const RequestFacts request = under_way.hand_over();
  EXPECT_EQ(under_way.mine(3), nullptr);
  EXPECT_THAT(under_way.all(), IsEmpty());
  std::thread([&] {
    under_way.begin(request);
    EXPECT_NE(under_way.mine(3), nullptr);
    EXPECT_THAT(under_way.all(), SizeIs(1));
    under_way.end();
  }).join();
  EXPECT_EQ(under_way.hand_over().number, 0u);
}

TEST(RequestsUnderWay, WhatItsThreadWaitsForIsSeenToo) {
  RequestsUnderWay under_way;
  under_way.begin(read_of(3));
  EXPECT_EQ(under_way.all()[0].waits_for, nullptr);
  {
    const WaitingFor wait("the store");
    EXPECT_THAT(under_way.all()[0].waits_for, StrEq("the store"));
  }
  EXPECT_EQ(under_way.all()[0].waits_for, nullptr);
  under_way.end();
}

TEST(RequestsUnderWay, OneThatComesLaterDoesNotSeeWhatWasOfAnother) {
  auto first = std::make_unique<RequestsUnderWay>();
  first->begin(read_of(3));
  first = std::make_unique<RequestsUnderWay>();
  EXPECT_THAT(first->all(), IsEmpty());
  EXPECT_EQ(first->mine(3), nullptr);
  first->end();
  first->begin(read_of(5));
  EXPECT_THAT(first->all(), SizeIs(1));
}

TEST(RequestsUnderWay, PlacesOfThreadsThatEndedAreUsedAgain) {
  RequestsUnderWay under_way;
  for (uint64_t i = 1; i <= 100; ++i) {
    std::thread([&] {
      under_way.begin(read_of(i));
      EXPECT_THAT(under_way.all(), SizeIs(1)) << i;
      under_way.end();
    }).join();
  }
}

// Fields that belong together: what is seen is one of those that were.
TEST(RequestsUnderWay, WhoLooksWhileOthersWorkSeesWholeOnes) {
  RequestsUnderWay under_way;
  std::atomic<bool> stop = false;
  std::vector<std::thread> workers;
  for (uint64_t worker = 0; worker < 3; ++worker) {
    workers.emplace_back([&, worker] {
      for (uint64_t i = 1; !stop; ++i) {
        const uint64_t number = i * 4 + worker;
        under_way.begin({.number = number, .ino = number, .offset = number, .length = number});
        under_way.end();
      }
    });
  }
  for (int look = 0; look < 2000; ++look) {
    for (const RequestsUnderWay::Seen& seen : under_way.all()) {
      EXPECT_EQ(seen.request.ino, seen.request.number);
      EXPECT_EQ(seen.request.offset, seen.request.number);
      EXPECT_EQ(seen.request.length, seen.request.number);
    }
  }
  stop = true;
  for (std::thread& worker : workers) worker.join();
}

}  // namespace
}  // namespace penstock::mount
