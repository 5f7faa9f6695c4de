// Every failing call, every moment at which the power can go, every flipped bit: the old checkpoint
// loads or the new one, bit for bit.
#include <fmt/core.h>

#include "checkpoint/directory.h"
#include "checkpoint/names.h"
#include "checkpoint/test_support.h"
#include "io/faulty_file_system.h"

namespace penstock::checkpoint {
namespace {

using io::FaultOptions;
using io::FaultyFileSystem;

constexpr const char* kFaultyPath = "/runs/one";
constexpr uint64_t kSteps = 4;

CheckpointerOptions options_in(io::FileSystem& fs) {
  CheckpointerOptions options;
  options.directory = kFaultyPath;
  options.fs = &fs;
  options.copy_threads = 1;
  options.keep.keep_last = 2;
  return options;
}

// Saves the steps one after the other, whatever fails. Returns the last that was reported durable.
uint64_t save_steps(io::FileSystem& fs) {
  uint64_t durable = 0;
  const auto saver = Checkpointer::open(options_in(fs));
  if (!saver.ok()) return durable;
  for (uint64_t step = 1; step <= kSteps; ++step) {
    const auto save = (*saver)->save(step, small_state(step).state);
    if (save.ok() && (*save)->durable().ok()) durable = step;
    if (save.ok()) (void)(*save)->replicated();  // One thing after the other.
  }
  (void)(*saver)->close();
  return durable;
}

void expect_old_or_new(io::FileSystem& fs, uint64_t durable, const std::string& where) {
  SCOPED_TRACE(where);
  std::vector<Found> damaged;
  const auto reader = open_newest(fs, kFaultyPath, &damaged);
  EXPECT_THAT(damaged, ::testing::IsEmpty());
  if (!reader.ok()) {
    ASSERT_EQ(durable, 0u) << reader.error().to_string();
    return;
  }
  ASSERT_GE((*reader)->step(), durable);
  expect_state(**reader, small_state((*reader)->step()).state);
  EXPECT_THAT((*reader)->verify(), ::testing::IsEmpty());
}

// Whoever comes next can go on, and what was left is gone.
void expect_goes_on(io::FileSystem& fs, const std::string& where) {
  SCOPED_TRACE(where);
  const auto saver = Checkpointer::open(options_in(fs));
  ASSERT_THAT(saver, IsOk());
  const auto save = (*saver)->save(100, small_state(100).state);
  ASSERT_THAT(save, IsOk());
  ASSERT_THAT((*save)->durable(), IsOk());
  ASSERT_THAT((*saver)->close(), IsOk());
  expect_old_or_new(fs, 100, "after going on");
  expect_no_leftovers(fs, kFaultyPath);
}

TEST(CheckpointFaults, AnyCallMayFail) {
  for (const int error : {EIO, ENOSPC}) {
    for (uint64_t n = 1;; ++n) {
      FaultyFileSystem fs({.fail_at = n, .error = error});
      const uint64_t durable = save_steps(fs);
      expect_old_or_new(fs.disk(), durable, fmt::format("call {} failed", n));
      expect_goes_on(fs.disk(), fmt::format("call {} failed", n));
      if (!fs.fault_hit() || HasFailure()) break;
      // One failure costs one checkpoint at most.
      EXPECT_GE(durable, durable == 0 ? 0 : kSteps - 1) << fs.trace()[n - 1];
    }
  }
}

TEST(CheckpointFaults, ThePowerMayGoAtAnyCall) {
  for (uint64_t n = 1;; ++n) {
    FaultyFileSystem fs({.cut_at = n});
    const uint64_t durable = save_steps(fs);
    for (uint64_t seed = 0; seed < 12; ++seed) {
      const auto after = fs.power_cut(seed);
      const std::string where = fmt::format("cut at {}, seed {}", n, seed);
      if (!after->stat(kFaultyPath).ok()) {
        ASSERT_EQ(durable, 0u) << where;
        continue;
      }
      expect_old_or_new(*after, durable, where);
      if (seed < 3) expect_goes_on(*after, where);
      if (HasFailure()) return;
    }
    if (!fs.fault_hit()) break;
  }
}

// A device that loses what it was given: written again to new files, from memory.
TEST(CheckpointFaults, AFailedSyncIsWrittenAnew) {
  FaultyFileSystem fs({.fail_at = 1, .only = io::CallKind::kSync});
  const auto saver = Checkpointer::open(options_in(fs));
  ASSERT_THAT(saver, IsOk());
  const auto save = (*saver)->save(1, small_state(1).state);
  ASSERT_THAT(save, IsOk());
  ASSERT_THAT((*save)->durable(), IsOk());
  EXPECT_EQ((*save)->report().rewritten, 1u);
  expect_old_or_new(*fs.power_cut(0), 1, "after a failed sync");
}

TEST(CheckpointFaults, AFullDiskIsAnErrorOfSaveAndLeavesNothing) {
  FaultyFileSystem fs({.fail_at = 1, .only = io::CallKind::kAllocate, .error = ENOSPC});
  {
    const auto saver = Checkpointer::open(options_in(fs));
    ASSERT_THAT(saver, IsOk());
    const auto save = (*saver)->save(1, small_state(1).state);
    ASSERT_FALSE(save.ok());
    EXPECT_EQ(save.error().code, ErrorCode::kNoSpace);
  }
  EXPECT_THAT(*list_steps(fs.disk(), kFaultyPath), ::testing::IsEmpty());
  expect_goes_on(fs.disk(), "after it");
}

// Nobody asked the handle: the next save tells, and then goes on.
TEST(CheckpointFaults, WhatNobodySawComesOutOfTheNextCall) {
  FaultyFileSystem fs({.fail_at = 1, .only = io::CallKind::kRename});
  const auto saver = Checkpointer::open(options_in(fs));
  ASSERT_THAT(saver, IsOk());
  ASSERT_THAT((*saver)->save(1, small_state(1).state), IsOk());
  const auto second = (*saver)->save(2, small_state(2).state);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().detail, ::testing::HasSubstr("saving step 1 failed"));
  const auto third = (*saver)->save(2, small_state(2).state);
  ASSERT_THAT(third, IsOk());
  EXPECT_THAT((*saver)->close(), IsOk());
}

std::vector<std::string> files_of(io::FileSystem& fs, const std::string& path) {
  std::vector<std::string> names;
  EXPECT_TRUE(fs.list(path, [&](const io::DirectoryEntry& entry) {
                  names.push_back(entry.name);
                  return true;
                }).ok());
  return names;
}

TEST(CheckpointDamage, EveryFlippedByteIsFoundAndNamed) {
  io::MemoryFileSystem fs;
  ASSERT_EQ(save_steps(fs), kSteps);
  const std::string path = fmt::format("{}/{}", kFaultyPath, step_name(kSteps));
  const auto whole = open_checkpoint(fs, kFaultyPath, kSteps);
  ASSERT_THAT(whole, IsOk());
  for (const std::string& name : files_of(fs, path)) {
    const uint64_t size = fs.stat(path + "/" + name)->size;
    for (uint64_t at = 0; at < size; ++at) {
      const auto file = fs.open(path + "/" + name, {.access = io::Access::kReadWrite});
      ASSERT_THAT(file, IsOk());
      std::byte byte;
      ASSERT_THAT((*file)->read(at, {&byte, 1}), IsOk());
      const std::byte flipped = byte ^ std::byte{0x10};
      ASSERT_THAT((*file)->write(at, {&flipped, 1}), IsOk());
      std::vector<Found> damaged;
      const auto reader = open_newest(fs, kFaultyPath, &damaged);
      ASSERT_THAT(reader, IsOk());
      if (name == "manifest.json") {
        ASSERT_EQ((*reader)->step(), kSteps - 1) << at;
        ASSERT_EQ(damaged.size(), 1u);
      } else {
        const std::vector<Error> errors = (*reader)->verify();
        ASSERT_EQ(errors.size(), 1u) << at;
        ASSERT_THAT(errors[0].detail, ::testing::HasSubstr(name));
      }
      ASSERT_THAT((*file)->write(at, {&byte, 1}), IsOk());
    }
  }
  expect_old_or_new(fs, kSteps, "whole again");
}

TEST(CheckpointDamage, NeverReturned) {
  io::MemoryFileSystem fs;
  ASSERT_EQ(save_steps(fs), kSteps);
  const auto reader = open_newest(fs, kFaultyPath);
  ASSERT_THAT(reader, IsOk());
  for (size_t i = 0; i < (*reader)->tensors().size(); ++i) {
    const TensorInfo& tensor = (*reader)->tensors()[i];
    if (tensor.bytes == 0) continue;
    const auto file =
        fs.open((*reader)->path() + "/" + tensor.file, {.access = io::Access::kReadWrite});
    ASSERT_THAT(file, IsOk());
    const uint64_t at = tensor.offset + tensor.bytes - 1;
    std::byte byte;
    ASSERT_THAT((*file)->read(at, {&byte, 1}), IsOk());
    const std::byte flipped = byte ^ std::byte{1};
    ASSERT_THAT((*file)->write(at, {&flipped, 1}), IsOk());
    Bytes into(tensor.bytes);
    const LoadTarget target{i, into};
    const Result<void> loaded = (*reader)->load({&target, 1});
    ASSERT_FALSE(loaded.ok());
    EXPECT_EQ(loaded.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(loaded.error().detail, ::testing::HasSubstr(tensor.name));
    ASSERT_THAT((*file)->write(at, {&byte, 1}), IsOk());
  }
}

TEST(CheckpointDamage, CutAndMissingFilesAreSeenWithoutReadingThem) {
  io::MemoryFileSystem fs;
  ASSERT_EQ(save_steps(fs), kSteps);
  const std::string data = fmt::format("{}/{}/{}", kFaultyPath, step_name(kSteps), data_name(0));
  ASSERT_THAT((*fs.open(data, {.access = io::Access::kWrite}))->truncate(4100), IsOk());
  std::vector<Found> damaged;
  EXPECT_EQ((*open_newest(fs, kFaultyPath, &damaged))->step(), kSteps - 1);
  ASSERT_EQ(damaged.size(), 1u);
  EXPECT_THAT(damaged[0].damage->detail, ::testing::HasSubstr("has 4100 bytes"));
  ASSERT_THAT(fs.remove(data), IsOk());
  const auto listed = list_checkpoints(fs, kFaultyPath);
  ASSERT_THAT(listed, IsOk());
  ASSERT_EQ(listed->size(), 2u);
  EXPECT_THAT((*listed)[0].damage->detail, ::testing::HasSubstr("is missing"));
  EXPECT_FALSE((*listed)[1].damage.has_value());
}

}  // namespace
}  // namespace penstock::checkpoint
