#include "checkpoint/replica.h"

#include <fmt/core.h>

#include "checkpoint/names.h"
#include "checkpoint/open_source.h"
#include "checkpoint/test_support.h"
#include "io/faulty_file_system.h"

namespace penstock::checkpoint {
namespace {

constexpr const char* kReplicatedPath = "/runs/one";

class ReplicaTest : public ::testing::Test {
 protected:
  void save(uint64_t step) {
    CheckpointerOptions options;
    options.directory = kReplicatedPath;
    options.fs = &fs_;
    const auto saver = Checkpointer::open(options);
    ASSERT_THAT(saver, IsOk());
    const auto saved = (*saver)->save(step, small_state(step).state);
    ASSERT_THAT(saved, IsOk());
    ASSERT_THAT((*saved)->durable(), IsOk());
  }
  std::unique_ptr<Source> local(uint64_t step) {
    return directory_source(fs_, fmt::format("{}/{}", kReplicatedPath, step_name(step)));
  }
  void expect_replica(const Replica& replica, uint64_t step) {
    const auto reader = open_source(replica.source(step), step);
    ASSERT_THAT(reader, IsOk());
    expect_state(**reader, small_state(step).state);
    EXPECT_THAT((*reader)->verify(), ::testing::IsEmpty());
  }
  Result<void> copy(Replica& replica, uint64_t step) {
    RateLimiter unlimited(0, 0);
    return replica.copy(*local(step), step, {.limiter = unlimited});
  }

  io::MemoryFileSystem fs_;
};

TEST_F(ReplicaTest, WhatIsCopiedIsReadThere) {
  save(7);
  Replica replica(store::make_memory_store());
  EXPECT_THAT(*replica.steps(), ::testing::IsEmpty());
  ASSERT_THAT(copy(replica, 7), IsOk());
  EXPECT_THAT(*replica.steps(), ::testing::ElementsAre(7));
  expect_replica(replica, 7);
}

TEST_F(ReplicaTest, ADirectoryIsOneTooAndCanBeLoadedAsTheFirst) {
  save(7);
  const auto replica = Replica::open("/far/run", fs_);
  ASSERT_THAT(replica, IsOk());
  ASSERT_THAT(copy(**replica, 7), IsOk());
  const auto reader = open_newest(fs_, "/far/run");
  ASSERT_THAT(reader, IsOk());
  expect_state(**reader, small_state(7).state);
}

TEST_F(ReplicaTest, DamageIsNotCopied) {
  save(7);
  const std::string data = fmt::format("{}/{}/{}", kReplicatedPath, step_name(7), data_name(0));
  const std::byte other{0x55};
  ASSERT_THAT((*fs_.open(data, {.access = io::Access::kWrite}))->write(4100, {&other, 1}), IsOk());
  Replica replica(store::make_memory_store());
  const Result<void> copied = copy(replica, 7);
  ASSERT_FALSE(copied.ok());
  EXPECT_EQ(copied.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(copied.error().detail, ::testing::HasSubstr("tensor"));
  EXPECT_THAT(*replica.steps(), ::testing::IsEmpty());
}

TEST_F(ReplicaTest, RetentionRemovesManifestsFirstAndHalvesToo) {
  const std::shared_ptr<store::ObjectStore> store = store::make_memory_store();
  Replica replica(store);
  for (const uint64_t step : {1, 2, 3, 4}) {
    save(step);
    ASSERT_THAT(copy(replica, step), IsOk());
  }
  ASSERT_THAT(store->remove(step_name(2) + "/manifest.json"),
              IsOk());  // As a killed copy leaves it.
  ASSERT_THAT(replica.retire({.keep_last = 1, .keep_every = 3}, 4), IsOk());
  EXPECT_THAT(*replica.steps(), ::testing::ElementsAre(3, 4));
  uint64_t objects = 0;
  ASSERT_THAT(store::for_each_object(*store, "",
                                     [&](const store::ObjectInfo&) {
                                       ++objects;
                                       return true;
                                     }),
              IsOk());
  EXPECT_EQ(objects, 4u);
}

class ReplicatorTest : public ReplicaTest {
 protected:
  std::unique_ptr<Checkpointer> open(std::vector<Tier> places, uint64_t keep_last = 0) {
    CheckpointerOptions options;
    options.directory = kReplicatedPath;
    options.fs = &fs_;
    options.replicate = std::move(places);
    options.keep.keep_last = keep_last;
    auto saver = Checkpointer::open(options);
    EXPECT_THAT(saver, IsOk());
    return std::move(*saver);
  }
  void expect_newest(const std::string& directory, uint64_t step) {
    const auto reader = open_newest(fs_, directory);
    ASSERT_THAT(reader, IsOk());
    EXPECT_EQ((*reader)->step(), step);
    expect_state(**reader, small_state(step).state);
  }
};

TEST_F(ReplicatorTest, SavesComeToAllPlaces) {
  const auto saver = open({{"/far/a"}, {"/far/b"}}, 2);
  for (uint64_t step = 1; step <= 4; ++step) {
    const auto saved = saver->save(step, small_state(step).state);
    ASSERT_THAT(saved, IsOk());
    ASSERT_THAT((*saved)->replicated(), IsOk());
    EXPECT_TRUE((*saved)->done());
    EXPECT_GT((*saved)->report().replicated.count(), (*saved)->report().durable.count());
    for (const char* place : {kReplicatedPath, "/far/a", "/far/b"}) expect_newest(place, step);
  }
  for (const char* place : {kReplicatedPath, "/far/a"}) {
    EXPECT_THAT(*list_steps(fs_, place), ::testing::ElementsAre(3, 4));
  }
}

TEST_F(ReplicatorTest, EachPlaceKeepsWhatItIsToldTo) {
  const auto saver = open({{"/far/as-here"},
                           {"/far/every-third", Retention{.keep_last = 1, .keep_every = 3}},
                           {"/far/all", Retention{}}},
                          2);
  for (uint64_t step = 1; step <= 7; ++step) {
    const auto saved = saver->save(step, small_state(step).state);
    ASSERT_THAT(saved, IsOk());
    ASSERT_THAT((*saved)->replicated(), IsOk());
  }
  EXPECT_THAT(*list_steps(fs_, kReplicatedPath), ::testing::ElementsAre(6, 7));
  EXPECT_THAT(*list_steps(fs_, "/far/as-here"), ::testing::ElementsAre(6, 7));
  EXPECT_THAT(*list_steps(fs_, "/far/every-third"), ::testing::ElementsAre(3, 6, 7));
  EXPECT_EQ(list_steps(fs_, "/far/all")->size(), 7u);
}

// Saves that come faster than copies: none is deleted before it was copied.
TEST_F(ReplicatorTest, CopiesMayFallBehind) {
  {
    CheckpointerOptions options;
    options.directory = kReplicatedPath;
    options.fs = &fs_;
    options.replicate = {{"/far/last"}, {"/far/all", Retention{}}};
    options.keep.keep_last = 1;
    options.replicate_bandwidth = 100'000;  // Each takes a twentieth of a second.
    const auto saver = Checkpointer::open(options);
    ASSERT_THAT(saver, IsOk());
    for (uint64_t step = 1; step <= 8; ++step)
      ASSERT_THAT((*saver)->save(step, small_state(step).state), IsOk());
    EXPECT_THAT((*saver)->close(), IsOk());
  }
  EXPECT_EQ(list_steps(fs_, "/far/all")->size(), 8u);
  EXPECT_THAT(*list_steps(fs_, "/far/last"), ::testing::ElementsAre(8));
  EXPECT_THAT(*list_steps(fs_, kReplicatedPath), ::testing::ElementsAre(8));
}

TEST_F(ReplicatorTest, WhatAnEarlierRunDidNotCopyIsCopied) {
  save(7);
  open({{"/far/a"}}).reset();
  expect_newest("/far/a", 7);
}

TEST_F(ReplicatorTest, AFailureIsToldAndNothingOldGoes) {
  const auto saver = open({{"/far/a"}, {"/far/b"}}, 1);
  ASSERT_THAT(fs_.remove_directory("/far/a"), IsOk());
  ASSERT_THAT(io::write_file_durably(fs_, "/far/a", "in the way"), IsOk());
  for (uint64_t step = 1; step <= 2; ++step) {
    const auto saved = saver->save(step, small_state(step).state);
    ASSERT_THAT(saved, IsOk());
    ASSERT_THAT((*saved)->durable(), IsOk());
    const Result<void> replicated = (*saved)->replicated();
    ASSERT_FALSE(replicated.ok());
    EXPECT_THAT(replicated.error().detail, ::testing::HasSubstr("/far/a"));
    expect_newest("/far/b", step);
  }
  EXPECT_THAT(*list_steps(fs_, kReplicatedPath), ::testing::ElementsAre(1, 2));
}

// Killed, or out of power, at any call: what is there is whole, and the next try finishes.
TEST_F(ReplicaTest, ThePowerMayGoAtAnyCall) {
  save(7);
  for (uint64_t n = 1;; ++n) {
    io::FaultyFileSystem far({.cut_at = n});
    bool copied = false;
    {
      const auto replica = Replica::open("/far", far);
      copied = replica.ok() && copy(**replica, 7).ok();
    }
    for (uint64_t seed = 0; seed < 6; ++seed) {
      const auto after = far.power_cut(seed);
      SCOPED_TRACE(fmt::format("cut at {}, seed {}", n, seed));
      const auto replica = Replica::open("/far", *after);
      ASSERT_THAT(replica, IsOk());
      const auto steps = (*replica)->steps();
      ASSERT_THAT(steps, IsOk());
      ASSERT_GE(steps->size(), copied ? 1u : 0u);
      if (!steps->empty()) expect_replica(**replica, 7);
      ASSERT_THAT(copy(**replica, 7), IsOk());
      expect_replica(**replica, 7);
      if (HasFailure()) return;
    }
    if (!far.fault_hit()) break;
  }
}

}  // namespace
}  // namespace penstock::checkpoint
