#include <fmt/core.h>

#include <algorithm>
#include <thread>

#include "checkpoint/directory.h"
#include "checkpoint/names.h"
#include "checkpoint/plan.h"
#include "checkpoint/test_support.h"

namespace penstock::checkpoint {
namespace {

constexpr const char* kPath = "/runs/one";

class CheckpointerTest : public ::testing::Test {
 protected:
  CheckpointerOptions options() {
    CheckpointerOptions options;
    options.directory = kPath;
    options.fs = &fs_;
    options.copy_threads = 2;
    return options;
  }
  std::unique_ptr<Checkpointer> open(const CheckpointerOptions& options) {
    Result<std::unique_ptr<Checkpointer>> opened = Checkpointer::open(options);
    EXPECT_THAT(opened, IsOk());
    return std::move(*opened);
  }
  void expect_newest(uint64_t step, const State& state) {
    Result<std::unique_ptr<Reader>> reader = open_newest(fs_, kPath);
    ASSERT_THAT(reader, IsOk());
    EXPECT_EQ((*reader)->step(), step);
    expect_state(**reader, state);
    EXPECT_THAT((*reader)->verify(), ::testing::IsEmpty());
  }
  std::vector<uint64_t> steps() { return *list_steps(fs_, kPath); }

  io::MemoryFileSystem fs_;
};

TEST_F(CheckpointerTest, WhatWasSavedIsLoaded) {
  const auto saver = open(options());
  const TestState state = small_state(1);
  const auto save = saver->save(7, state.state);
  ASSERT_THAT(save, IsOk());
  ASSERT_THAT((*save)->durable(), IsOk());
  ASSERT_THAT((*save)->replicated(), IsOk());
  EXPECT_TRUE((*save)->done());
  EXPECT_EQ((*save)->report().tensors, state.state.tensors.size());
  expect_newest(7, state.state);
  EXPECT_EQ(*io::read_file(fs_, std::string(kPath) + "/latest", 100), "step-0000000007\n");
}

TEST_F(CheckpointerTest, LaterChangesDoNotLeakIn) {
  const auto saver = open(options());
  TestState state = small_state(1);
  const TestState before = small_state(1);
  ASSERT_THAT(saver->save(1, state.state), IsOk());
  for (Bytes& bytes : state.memory) std::ranges::fill(bytes, std::byte{0});
  ASSERT_THAT(saver->close(), IsOk());
  expect_newest(1, before.state);
}

// Several files, several pieces, tensors across their borders; an arena of less than the state.
TEST_F(CheckpointerTest, LargeStatesComeBackFromAnyArena) {
  TestState state;
  state.add("a", "F32", {kPieceBytes * 5 / 4 + 123}, 1);
  state.add("b", "U8", {kPieceBytes * 2 + 1}, 2);
  state.add("c", "BF16", {kPieceBytes / 2 - 2048}, 3);
  for (uint64_t i = 0; i < 300; ++i)
    state.add(fmt::format("small.{}", i), "F32", {i * 7 % 5000}, i);
  uint64_t step = 0;
  for (const uint64_t arena : {uint64_t{0}, 4 * kPieceBytes}) {
    CheckpointerOptions with = options();
    with.arena_bytes = arena;
    const auto saver = open(with);
    const auto save = saver->save(++step, state.state);
    ASSERT_THAT(save, IsOk());
    ASSERT_THAT((*save)->durable(), IsOk());
    expect_newest(step, state.state);
  }
}

TEST_F(CheckpointerTest, PlansFillTheFilesAlike) {
  State state;
  const Bytes none(1);  // Nothing is read.
  for (int i = 0; i < 100; ++i) {
    state.tensors.push_back({fmt::format("t{}", i), "F32", {4 * kMiB / 4}, none.data()});
  }
  const Result<Plan> plan = make_plan(state.tensors, {.files_max = 4});
  ASSERT_THAT(plan, IsOk());
  ASSERT_EQ(plan->files.size(), 4u);
  for (const FilePlan& file : plan->files) {
    EXPECT_EQ(file.entry.tensors.size(), 25u);
    EXPECT_EQ(file.entry.data_start % kDataAlignment, 0u);
  }
}

TEST_F(CheckpointerTest, WhatCannotBeSavedIsRefusedByName) {
  const auto saver = open(options());
  const Bytes bytes(16);
  const auto refused = [&](std::vector<Tensor> tensors, const std::string& word) {
    State state;
    state.tensors = std::move(tensors);
    const auto save = saver->save(1, state);
    ASSERT_FALSE(save.ok());
    EXPECT_EQ(save.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(save.error().detail, ::testing::HasSubstr(word));
  };
  refused({{"x", "F32", {4}, bytes.data()}, {"x", "F32", {4}, bytes.data()}}, "'x' comes twice");
  refused({{"weird", "Q7", {4}, bytes.data()}}, "weird");
  refused({{"nodata", "F32", {4}, nullptr}}, "nodata");
  refused({{"", "F32", {4}, bytes.data()}}, "name");
  refused({{"\xff", "F32", {4}, bytes.data()}}, "name");
  EXPECT_THAT(steps(), ::testing::IsEmpty());
}

TEST_F(CheckpointerTest, AStepIsSavedOnce) {
  const auto saver = open(options());
  const TestState state = small_state(1);
  ASSERT_THAT((*saver->save(1, state.state))->durable(), IsOk());
  EXPECT_EQ(saver->save(1, small_state(2).state).error().code, ErrorCode::kExists);
  expect_newest(1, state.state);
}

TEST_F(CheckpointerTest, OneWriterPerDirectory) {
  auto saver = open(options());
  const auto second = Checkpointer::open(options());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kBusy);
  EXPECT_THAT(second.error().detail, ::testing::HasSubstr(kPath));
  saver.reset();
  EXPECT_THAT(Checkpointer::open(options()), IsOk());
}

TEST_F(CheckpointerTest, LeftoversOfDeadRunsGo) {
  open(options()).reset();
  const std::string left = fmt::format("{}/{}dead", kPath, kTemporaryPrefix);
  ASSERT_THAT(io::make_directories(fs_, left), IsOk());
  ASSERT_THAT(io::write_file_durably(fs_, left + "/data", "half"), IsOk());
  ASSERT_THAT(io::write_file_durably(fs_, std::string(kPath) + "/notes.txt", "mine"), IsOk());
  open(options()).reset();
  EXPECT_FALSE(fs_.stat(left).ok());
  EXPECT_THAT(fs_.stat(std::string(kPath) + "/notes.txt"), IsOk());
}

TEST_F(CheckpointerTest, RetentionKeepsTheLastAndTheRound) {
  EXPECT_THAT(steps_to_remove({10, 20, 25, 30}, {.keep_last = 0}), ::testing::IsEmpty());
  EXPECT_THAT(steps_to_remove({10, 20, 25, 30}, {.keep_last = 9}), ::testing::IsEmpty());
  EXPECT_THAT(steps_to_remove({10, 20, 25, 30}, {.keep_every = 20}),
              ::testing::ElementsAre(10, 25));
  EXPECT_THAT(steps_to_remove({10, 20, 25, 30}, {.keep_last = 1, .keep_every = 20}),
              ::testing::ElementsAre(10, 25));
  CheckpointerOptions with = options();
  with.keep.keep_last = 2;
  with.keep.keep_every = 4;
  const auto saver = open(with);
  for (uint64_t step = 1; step <= 7; ++step) {
    ASSERT_THAT((*saver->save(step, small_state(step).state))->replicated(), IsOk());
  }
  EXPECT_THAT(steps(), ::testing::ElementsAre(4, 6, 7));
  expect_newest(7, small_state(7).state);
}

TEST_F(CheckpointerTest, BusyOnesWaitSkipOrQueue) {
  for (const WhenBusy when : {WhenBusy::kWait, WhenBusy::kSkip, WhenBusy::kQueue}) {
    CheckpointerOptions with = options();
    with.directory = fmt::format("/runs/{}", static_cast<int>(when));
    with.when_busy = when;
    with.arena_bytes = 64 * kMiB;
    with.max_bandwidth = 10 * kMiB;  // The first piece passes at once, the next takes its time.
    TestState state;
    state.add("x", "U8", {2 * kPieceBytes}, 1);
    const auto saver = open(with);
    const auto first = saver->save(1, state.state);
    ASSERT_THAT(first, IsOk());
    const auto second = saver->save(2, state.state);
    ASSERT_THAT(second, IsOk());
    const Deadline now = std::chrono::steady_clock::now();
    EXPECT_EQ((*first)->durable(now).ok(), when == WhenBusy::kWait);
    EXPECT_EQ((*second)->report().skipped, when == WhenBusy::kSkip);
    if (when == WhenBusy::kSkip) {
      EXPECT_EQ((*second)->durable().error().code, ErrorCode::kCancelled);
    }
    ASSERT_THAT(saver->close(), IsOk());
    EXPECT_EQ(list_steps(fs_, with.directory)->size(), when == WhenBusy::kSkip ? 1u : 2u);
  }
}

TEST_F(CheckpointerTest, WaitingEndsAtTheDeadlineAndTheSaveGoesOn) {
  CheckpointerOptions with = options();
  with.max_bandwidth = 10 * kMiB;
  TestState state;
  state.add("x", "U8", {3 * kPieceBytes}, 1);
  const auto saver = open(with);
  const auto save = saver->save(1, state.state);
  ASSERT_THAT(save, IsOk());
  EXPECT_EQ((*save)->durable(deadline_in(std::chrono::milliseconds(1))).error().code,
            ErrorCode::kTimeout);
  EXPECT_THAT((*save)->durable(), IsOk());
}

TEST_F(CheckpointerTest, WhoWaitsForEarlierOnesMayGiveUp) {
  CheckpointerOptions with = options();
  with.max_bandwidth = 4 * kMiB;
  TestState state;
  state.add("x", "U8", {3 * kPieceBytes}, 1);
  const auto saver = open(with);
  const auto first = saver->save(1, state.state);
  ASSERT_THAT(first, IsOk());
  int asked = 0;
  const auto second = saver->save(2, state.state, {.give_up = [&] { return ++asked == 3; }});
  EXPECT_EQ(second.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(asked, 3);
  EXPECT_FALSE((*first)->done());
  EXPECT_THAT(saver->close(), IsOk());
  EXPECT_EQ(*list_steps(fs_, kPath), std::vector<uint64_t>{1});
}

// Straight into memory that lies as the file does, through buffers into any other: any tensor, cut
// anywhere.
TEST_F(CheckpointerTest, LoadsIntoMemoryOfAnyAlignment) {
  TestState state;
  uint64_t number = 0;
  for (const uint64_t bytes : {3ul, 300'000ul, kPieceBytes + 17, 4096ul, 2 * kPieceBytes, 700'001ul,
                               0ul, kPieceBytes - 3, 1'000'000ul}) {
    state.add(fmt::format("t{}", number), "U8", {bytes}, number);
    ++number;
  }
  const auto saver = open(options());
  ASSERT_THAT((*saver->save(1, state.state))->durable(), IsOk());
  const auto reader = open_newest(fs_, kPath);
  ASSERT_THAT(reader, IsOk());
  const std::vector<TensorInfo>& infos = (*reader)->tensors();
  for (uint64_t shift = 0; shift < 4; ++shift) {
    std::vector<Bytes> memory;
    std::vector<LoadTarget> targets;
    for (size_t i = 0; i < infos.size(); ++i) {
      if (shift == 3 && i % 2 == 1) continue;  // And not all of them.
      memory.emplace_back(infos[i].bytes + 2 * kDataAlignment);
      const auto address = reinterpret_cast<uintptr_t>(memory.back().data());
      // As in the file, or off by one, or as it comes.
      const uint64_t skip =
          shift == 2 ? 0 : (infos[i].offset + shift % 3 - address) % kDataAlignment;
      targets.push_back({i, std::span(memory.back()).subspan(skip, infos[i].bytes)});
    }
    ASSERT_THAT((*reader)->load(targets), IsOk());
    for (const LoadTarget& target : targets) {
      const auto& tensors = state.state.tensors;
      const auto saved = std::ranges::find(tensors, infos[target.tensor].name, &Tensor::name);
      EXPECT_TRUE(std::ranges::equal(target.into, std::span(saved->data, target.into.size())))
          << saved->name << ", " << shift;
    }
  }
}

TEST_F(CheckpointerTest, NothingToLoadSaysSo) {
  open(options()).reset();
  EXPECT_EQ(open_newest(fs_, kPath).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(open_checkpoint(fs_, kPath, 3).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(open_newest(fs_, "/nowhere").ok());
}

}  // namespace
}  // namespace penstock::checkpoint
