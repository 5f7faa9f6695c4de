// Several ranks in one process, each with a thread and a Checkpointer of its own, over one directory.
#include <fmt/core.h>

#include <thread>

#include "checkpoint/directory.h"
#include "checkpoint/meeting.h"
#include "checkpoint/names.h"
#include "checkpoint/session.h"
#include "checkpoint/test_support.h"
#include "io/faulty_file_system.h"

namespace penstock::checkpoint {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kRanksPath = "/runs/shared";
constexpr uint32_t kRanks = 3;

CheckpointerOptions options_of(io::FileSystem& fs, uint32_t rank,
                               Nanoseconds timeout = std::chrono::seconds(20)) {
  CheckpointerOptions options;
  options.directory = kRanksPath;
  options.fs = &fs;
  options.copy_threads = 1;
  options.ranks = {.rank = rank, .count = kRanks, .timeout = timeout};
  return options;
}

// Runs `work` once per rank, all at the same time.
template <typename Work>
void with_ranks(const Work& work, uint32_t count = kRanks) {
  std::vector<std::jthread> threads;
  for (uint32_t rank = 0; rank < count; ++rank) threads.emplace_back([&work, rank] { work(rank); });
}

// What went wrong, wherever it came out.
Result<void> save_one_durably(Checkpointer& saver, uint64_t step, const State& state) {
  const std::shared_ptr<Save> save = PENSTOCK_TRY(saver.save(step, state));
  return save->durable();
}

TestState state_of(uint32_t rank, uint64_t step) {
  return small_state(step * 100 + rank);
}

// Loads each rank's part and compares.
void expect_whole(io::FileSystem& fs, uint64_t step) {
  const auto reader = open_checkpoint(fs, kRanksPath, step);
  ASSERT_THAT(reader, IsOk());
  ASSERT_EQ((*reader)->trees().size(), kRanks);
  EXPECT_THAT((*reader)->verify(), IsEmpty());
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    const TestState expected = state_of(rank, step);
    EXPECT_EQ((*reader)->trees()[rank], expected.state.tree);
    for (const Tensor& tensor : expected.state.tensors) {
      const auto& all = (*reader)->tensors();
      const auto found = std::ranges::find_if(all, [&](const TensorInfo& info) {
        return info.rank == rank && info.name == tensor.name;
      });
      ASSERT_NE(found, all.end()) << tensor.name;
      Bytes bytes(found->bytes);
      const std::vector<LoadTarget> target{{static_cast<size_t>(found - all.begin()), bytes}};
      ASSERT_THAT((*reader)->load(target), IsOk());
      EXPECT_TRUE(std::ranges::equal(bytes, std::span(tensor.data, bytes.size())));
    }
  }
}

TEST(CheckpointRanks, EachWritesItsPartAndAllBecomeOne) {
  io::MemoryFileSystem fs;
  with_ranks([&](uint32_t rank) {
    const auto saver = Checkpointer::open(options_of(fs, rank));
    ASSERT_THAT(saver, IsOk());
    for (const uint64_t step : {1, 2}) {
      const auto save = (*saver)->save(step, state_of(rank, step).state);
      ASSERT_THAT(save, IsOk());
      ASSERT_THAT((*save)->durable(), IsOk());
      EXPECT_TRUE(fs.stat(join(kRanksPath, step_name(step))).ok()) << "durable, and not there";
    }
    EXPECT_THAT((*saver)->close(), IsOk());
  });
  expect_whole(fs, 1);
  expect_whole(fs, 2);
  expect_no_leftovers(fs, kRanksPath);
}

TEST(CheckpointRanks, SavesMayOverlap) {
  io::MemoryFileSystem fs;
  with_ranks([&](uint32_t rank) {
    CheckpointerOptions options = options_of(fs, rank);
    options.when_busy = WhenBusy::kQueue;
    options.keep.keep_last = 2;
    const auto saver = Checkpointer::open(options);
    ASSERT_THAT(saver, IsOk());
    for (uint64_t step = 1; step <= 5; ++step)
      ASSERT_THAT((*saver)->save(step, state_of(rank, step).state), IsOk());
    EXPECT_THAT((*saver)->close(), IsOk());
  });
  expect_whole(fs, 4);
  expect_whole(fs, 5);
  EXPECT_EQ(list_steps(fs, kRanksPath)->size(), 2u);
}

// What an earlier run left, or said, is none of this one's.
TEST(CheckpointRanks, WhatDeadRunsLeftDoesNotMixIn) {
  io::MemoryFileSystem fs;
  ASSERT_THAT(io::make_directories(fs, kRanksPath), IsOk());
  const auto leave = [&](const std::string& name, const std::string& text) {
    ASSERT_THAT(io::write_file_durably(fs, join(kRanksPath, name), text), IsOk());
  };
  leave(".penstock-tmp-hello-1-3-00000000deadbeef", "");
  leave(".penstock-tmp-hello-2-7-00000000deadbeef", "");
  leave(".penstock-tmp-answer", "0123456789abcdef\n00000000deadbeef\n");
  ASSERT_THAT(io::make_directories(fs, join(kRanksPath, ".penstock-tmp-0123456789abcdef")), IsOk());
  leave(".penstock-tmp-0123456789abcdef/save-0-step-0000000001.1", "+nonsense");
  with_ranks([&](uint32_t rank) {
    // Rank 0 last: the others have looked around by then.
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const auto saver = Checkpointer::open(options_of(fs, rank));
    ASSERT_THAT(saver, IsOk());
    const auto save = (*saver)->save(1, state_of(rank, 1).state);
    ASSERT_THAT(save, IsOk());
    ASSERT_THAT((*save)->durable(), IsOk());
  });
  expect_whole(fs, 1);
  expect_no_leftovers(fs, kRanksPath);
}

TEST(CheckpointRanks, AMissingRankIsNamedAndNothingHangs) {
  io::MemoryFileSystem fs;
  with_ranks([&](uint32_t rank) {
    const auto saver = Checkpointer::open(options_of(fs, rank, std::chrono::seconds(4)));
    ASSERT_THAT(saver, IsOk());
    const auto first = (*saver)->save(1, state_of(rank, 1).state);
    ASSERT_THAT(first, IsOk());
    ASSERT_THAT((*first)->durable(), IsOk());
    if (rank == 2) return;  // Dies, as far as the others can tell.
    const auto second = (*saver)->save(2, state_of(rank, 2).state);
    ASSERT_THAT(second, IsOk());
    const Result<void> durable = (*second)->durable();
    ASSERT_FALSE(durable.ok());
    EXPECT_THAT(durable.error().detail, HasSubstr("rank 2 did not come")) << "rank " << rank;
    EXPECT_NE(durable.error().code, ErrorCode::kTimeout) << "that means: not yet";
  });
  expect_whole(fs, 1);
  EXPECT_FALSE(fs.stat(join(kRanksPath, step_name(2))).ok());
}

TEST(CheckpointRanks, RanksThatNeverComeAreNamed) {
  io::MemoryFileSystem fs;
  const auto saver = Checkpointer::open(options_of(fs, 0, std::chrono::milliseconds(200)));
  ASSERT_THAT(saver, IsOk());
  const auto save = (*saver)->save(1, state_of(0, 1).state);
  ASSERT_FALSE(save.ok());
  EXPECT_EQ(save.error().code, ErrorCode::kTimeout);
  EXPECT_THAT(save.error().detail, HasSubstr("ranks 1, 2 did not come"));
  const auto other = Checkpointer::open(options_of(fs, 1, std::chrono::milliseconds(200)));
  ASSERT_THAT(other, IsOk());
  EXPECT_THAT((*other)->save(1, state_of(1, 1).state).error().detail,
              HasSubstr("rank 0 did not answer"));
}

TEST(CheckpointRanks, OfAnotherNumberOrTwiceTheSameAreRefused) {
  io::MemoryFileSystem fs;
  for (const bool twice : {true, false}) {
    with_ranks([&](uint32_t thread) {
      CheckpointerOptions options = options_of(fs, thread == 0 ? 0 : 1, std::chrono::seconds(4));
      if (!twice && thread > 0) options.ranks.count = 2;
      if (thread > 0 && !twice && thread > 1) return;
      const auto saver = Checkpointer::open(options);
      ASSERT_THAT(saver, IsOk());
      const auto save = (*saver)->save(1, state_of(0, 1).state);
      ASSERT_FALSE(save.ok());
      if (thread != 0) return;
      EXPECT_THAT(save.error().detail,
                  HasSubstr(twice ? "say that they are rank 1" : "rank 1 of 2 came to a run of 3"));
    });
  }
  const auto invalid = [&](Ranks ranks, WhenBusy when) {
    CheckpointerOptions options = options_of(fs, 0);
    options.ranks = ranks;
    options.when_busy = when;
    return Checkpointer::open(options).error().code;
  };
  EXPECT_EQ(invalid({.rank = 3, .count = 3}, WhenBusy::kWait), ErrorCode::kInvalid);
  EXPECT_EQ(invalid({.rank = 0, .count = 2}, WhenBusy::kSkip), ErrorCode::kInvalid);
}

// The failure of one is a failure of all, and says whose; the next save goes on.
TEST(CheckpointRanks, OneThatCannotSaveFailsAll) {
  io::MemoryFileSystem fs;
  with_ranks([&](uint32_t rank) {
    const auto saver = Checkpointer::open(options_of(fs, rank));
    ASSERT_THAT(saver, IsOk());
    TestState state = state_of(rank, 1);
    if (rank == 1) state.state.tensors[0].dtype = "NONSENSE";
    const Result<void> saved = save_one_durably(**saver, 1, state.state);
    ASSERT_FALSE(saved.ok());
    if (rank == 1) {
      EXPECT_EQ(saved.error().code, ErrorCode::kInvalid);
    } else {
      EXPECT_THAT(saved.error().detail, HasSubstr("rank 1: "));
    }
    EXPECT_THAT(save_one_durably(**saver, 2, state_of(rank, 2).state), IsOk());
  });
  EXPECT_FALSE(fs.stat(join(kRanksPath, step_name(1))).ok());
  expect_whole(fs, 2);
  expect_no_leftovers(fs, kRanksPath);
}

// Rank 0 first or another: nobody waits for the time that ranks are given.
TEST(CheckpointRanks, OneThatRefusesFailsAllAtOnce) {
  for (const uint32_t refusing : {0u, 2u}) {
    io::MemoryFileSystem fs;
    const auto begun = std::chrono::steady_clock::now();
    with_ranks([&](uint32_t rank) {
      const auto saver = Checkpointer::open(options_of(fs, rank, std::chrono::minutes(5)));
      ASSERT_THAT(saver, IsOk());
      if (rank == refusing) {
        EXPECT_THAT((*saver)->refuse("no such state"), IsOk());
      } else {
        const Result<void> saved = save_one_durably(**saver, 1, state_of(rank, 1).state);
        ASSERT_FALSE(saved.ok());
        EXPECT_THAT(saved.error().detail,
                    HasSubstr(fmt::format("rank {}: no such state", refusing)));
      }
      EXPECT_THAT(save_one_durably(**saver, 2, state_of(rank, 2).state), IsOk());
    });
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::minutes(1));
    expect_whole(fs, 2);
    expect_no_leftovers(fs, kRanksPath);
  }
}

TEST(CheckpointRanks, DifferentStepsAreNamed) {
  io::MemoryFileSystem fs;
  with_ranks([&](uint32_t rank) {
    const auto saver = Checkpointer::open(options_of(fs, rank));
    ASSERT_THAT(saver, IsOk());
    const Result<void> saved =
        save_one_durably(**saver, rank == 1 ? 5 : 4, state_of(rank, 1).state);
    ASSERT_FALSE(saved.ok());
    EXPECT_THAT(saved.error().detail, HasSubstr("rank 1 saves step 5, rank 0 step 4"));
  });
  EXPECT_THAT(*list_steps(fs, kRanksPath), IsEmpty());
  expect_no_leftovers(fs, kRanksPath);
}

TEST(CheckpointRanks, AllGetTheSameAnswers) {
  io::MemoryFileSystem fs;
  with_ranks([&](uint32_t rank) {
    const auto saver = Checkpointer::open(options_of(fs, rank));
    ASSERT_THAT(saver, IsOk());
    for (int round = 0; round < 3; ++round) {
      const auto all = (*saver)->exchange("topic", fmt::format("{} of {}", round, rank));
      ASSERT_THAT(all, IsOk());
      ASSERT_EQ(all->size(), kRanks);
      for (uint32_t other = 0; other < kRanks; ++other)
        EXPECT_EQ((*all)[other], fmt::format("{} of {}", round, other));
    }
  });
}

// Whatever call of whichever rank fails: nobody hangs, and what was durable stays.
TEST(CheckpointRanks, AnyCallMayFail) {
  uint64_t calls = 0;
  for (uint64_t n = 1; n <= calls || calls == 0; n += 3) {
    io::FaultyFileSystem fs({.fail_at = n});
    std::array<bool, kRanks> durable{};
    with_ranks([&](uint32_t rank) {
      CheckpointerOptions options = options_of(fs, rank, std::chrono::milliseconds(150));
      const auto saver = Checkpointer::open(options);
      if (!saver.ok()) return;
      const auto save = (*saver)->save(1, state_of(rank, 1).state);
      durable[rank] = save.ok() && (*save)->durable().ok();
      (void)(*saver)->close();
    });
    calls = std::max(calls, fs.calls());
    const bool any = std::ranges::any_of(durable, std::identity());
    SCOPED_TRACE(fmt::format("call {} of {}", n, calls));
    if (any) expect_whole(fs.disk(), 1);
    if (HasFailure()) break;
  }
}

// By means of their own: parts, and one who commits.
TEST(CheckpointRanks, PartsAreCommittedByWhoeverKnowsThem) {
  io::MemoryFileSystem fs;
  const SaveOptions where{.name = "model", .replace = true, .attempt = make_run_id()};
  std::vector<std::string> parts(kRanks);
  const auto leader = Checkpointer::open(options_of(fs, 0));
  ASSERT_THAT(leader, IsOk());
  with_ranks([&](uint32_t rank) {
    std::unique_ptr<Checkpointer> own;
    if (rank > 0) own = std::move(*Checkpointer::open(options_of(fs, rank)));
    Checkpointer& saver = rank == 0 ? **leader : *own;
    const auto save = saver.save(7, state_of(rank, 7).state, where);
    ASSERT_THAT(save, IsOk());
    ASSERT_THAT((*save)->durable(), IsOk());
    parts[rank] = (*save)->part();
  });
  EXPECT_FALSE(fs.stat(join(kRanksPath, "model")).ok());
  ASSERT_THAT((*leader)->commit(7, where, parts, "{}", {{"a", "b"}}), IsOk());
  const auto reader = open_checkpoint_at(fs, join(kRanksPath, "model"));
  ASSERT_THAT(reader, IsOk());
  EXPECT_EQ((*reader)->trees(), std::vector<std::string>{"{}"});
  EXPECT_EQ((*reader)->tensors().size(), kRanks * state_of(0, 7).state.tensors.size());
  EXPECT_THAT((*reader)->verify(), IsEmpty());
  // Parts of another attempt are not taken.
  SaveOptions other = where;
  other.attempt = make_run_id();
  EXPECT_EQ((*leader)->commit(8, other, parts, "{}", {}).error().code, ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace penstock::checkpoint
