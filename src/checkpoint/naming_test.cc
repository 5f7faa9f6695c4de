// Saves under names of their own, files that stay as they are, sums for other tools.
#include <fmt/core.h>

#include "checkpoint/directory.h"
#include "checkpoint/manifest.h"
#include "checkpoint/names.h"
#include "checkpoint/plan.h"
#include "checkpoint/sha256.h"
#include "checkpoint/test_support.h"
#include "io/faulty_file_system.h"

namespace penstock::checkpoint {
namespace {

using io::FaultyFileSystem;
using ::testing::IsEmpty;

constexpr const char* kNamedPath = "/runs/one";

CheckpointerOptions named_options(io::FileSystem& fs) {
  CheckpointerOptions options;
  options.directory = kNamedPath;
  options.fs = &fs;
  options.copy_threads = 1;
  return options;
}

void save_durably(Checkpointer& saver, uint64_t step, const State& state,
                  const SaveOptions& options = {}) {
  const auto save = saver.save(step, state, options);
  ASSERT_THAT(save, IsOk());
  ASSERT_THAT((*save)->durable(), IsOk());
}

void expect_at(io::FileSystem& fs, const std::string& name, uint64_t seed) {
  const auto reader = open_checkpoint_at(fs, join(kNamedPath, name));
  ASSERT_THAT(reader, IsOk());
  expect_state(**reader, small_state(seed).state);
}

TEST(NamedCheckpoints, AreReplacedOrRefused) {
  io::MemoryFileSystem fs;
  const auto saver = Checkpointer::open(named_options(fs));
  ASSERT_THAT(saver, IsOk());
  save_durably(**saver, 1, small_state(1).state, {.name = "last.ckpt"});
  EXPECT_EQ((*saver)->save(2, small_state(2).state, {.name = "last.ckpt"}).error().code,
            ErrorCode::kExists);
  save_durably(**saver, 2, small_state(2).state, {.name = "last.ckpt", .replace = true});
  expect_at(fs, "last.ckpt", 2);
  for (const char* name : {"a/b", ".hidden", "latest", ".."}) {
    EXPECT_EQ((*saver)->save(3, small_state(3).state, {.name = name}).error().code,
              ErrorCode::kInvalid)
        << name;
  }
  EXPECT_THAT(*list_steps(fs, kNamedPath), IsEmpty());
  ASSERT_THAT((*saver)->remove("last.ckpt"), IsOk());
  EXPECT_FALSE(fs.stat(join(kNamedPath, "last.ckpt")).ok());
  EXPECT_EQ((*saver)->remove("last.ckpt").error().code, ErrorCode::kNotFound);
}

// As some network file systems are.
class WithoutExchange final : public io::MemoryFileSystem {
 public:
  Result<void> rename(const std::string& from, const std::string& to,
                      io::RenameMode mode) override {
    if (mode == io::RenameMode::kExchange)
      return make_error(ErrorCode::kUnsupported, "rename: Invalid argument");
    return MemoryFileSystem::rename(from, to, mode);
  }
};

// Killed at any call: the name leads to the old one or the new one.
TEST(NamedCheckpoints, AreReplacedInTwoStepsWhereNamesCannotBeExchanged) {
  for (uint64_t n = 1;; ++n) {
    WithoutExchange disk;
    {
      const auto saver = Checkpointer::open(named_options(disk));
      ASSERT_THAT(saver, IsOk());
      save_durably(**saver, 1, small_state(1).state, {.name = "last.ckpt"});
    }
    FaultyFileSystem fs({.fail_at = n, .for_good = true}, disk);
    bool durable = false;
    if (const auto saver = Checkpointer::open(named_options(fs)); saver.ok()) {
      const SaveOptions replacing{.name = "last.ckpt", .replace = true};
      const auto save = (*saver)->save(2, small_state(2).state, replacing);
      durable = save.ok() && (*save)->durable().ok();
    }
    SCOPED_TRACE(fmt::format("call {}", n));
    ASSERT_THAT(Checkpointer::open(named_options(disk)), IsOk());
    const auto reader = open_checkpoint_at(disk, join(kNamedPath, "last.ckpt"));
    ASSERT_THAT(reader, IsOk());
    const uint64_t step = (*reader)->step();
    EXPECT_TRUE(step == 2 || (step == 1 && !durable));
    expect_state(**reader, small_state(step).state);
    expect_no_leftovers(disk, kNamedPath);
    if (!fs.fault_hit()) break;
  }
}

// A file of another program can have the name.
TEST(NamedCheckpoints, ReplaceFilesToo) {
  io::MemoryFileSystem fs;
  const auto saver = Checkpointer::open(named_options(fs));
  ASSERT_THAT(io::write_file_durably(fs, join(kNamedPath, "last.ckpt"), "old"), IsOk());
  save_durably(**saver, 1, small_state(1).state, {.name = "last.ckpt", .replace = true});
  expect_at(fs, "last.ckpt", 1);
}

// Nor a run, nor anything else that a path was typed wrongly for.
TEST(NamedCheckpoints, ReplaceAndRemoveNoOtherDirectory) {
  io::MemoryFileSystem fs;
  const auto saver = Checkpointer::open(named_options(fs));
  ASSERT_THAT(io::make_directories(fs, join(kNamedPath, "project/src")), IsOk());
  const SaveOptions there{.name = "project", .replace = true};
  EXPECT_EQ((*saver)->save(1, small_state(1).state, there).error().code, ErrorCode::kExists);
  EXPECT_EQ((*saver)->remove("project").error().code, ErrorCode::kExists);
  EXPECT_TRUE(fs.stat(join(kNamedPath, "project/src")).ok());
  ASSERT_THAT(fs.remove_directory(join(kNamedPath, "project/src")), IsOk());
  save_durably(**saver, 1, small_state(1).state, there);
  expect_at(fs, "project", 1);
}

TEST(NamedCheckpoints, ThePowerMayGoWhileOneIsReplaced) {
  for (uint64_t n = 1;; ++n) {
    io::FaultyFileSystem fs({.cut_at = n});
    uint64_t durable = 0;
    {
      const auto saver = Checkpointer::open(named_options(fs));
      for (uint64_t step = 1; saver.ok() && step <= 3; ++step) {
        const auto save =
            (*saver)->save(step, small_state(step).state, {.name = "last.ckpt", .replace = true});
        if (save.ok() && (*save)->durable().ok()) durable = step;
      }
    }
    for (uint64_t seed = 0; seed < 8; ++seed) {
      const auto after = fs.power_cut(seed);
      const auto reader = open_checkpoint_at(*after, join(kNamedPath, "last.ckpt"));
      if (!reader.ok()) {
        ASSERT_EQ(durable, 0u) << "cut at " << n << ": " << reader.error().to_string();
        continue;
      }
      ASSERT_GE((*reader)->step(), durable);
      expect_state(**reader, small_state((*reader)->step()).state);
      ASSERT_THAT((*reader)->verify(), IsEmpty());
    }
    if (!fs.fault_hit()) break;
  }
}

// Two files, of which one changes.
TestState large_state(uint64_t seed) {
  TestState state;
  state.add("frozen", "F32", {5 * kMiB}, 1);
  state.add("head", "F32", {5 * kMiB}, seed);
  return state;
}

CheckpointerOptions incremental_in(io::FileSystem& fs) {
  CheckpointerOptions options = named_options(fs);
  options.incremental = true;
  return options;
}

TEST(IncrementalCheckpoints, LinkWhatDidNotChange) {
  io::MemoryFileSystem fs;
  CheckpointerOptions options = incremental_in(fs);
  options.keep.keep_last = 1;
  for (uint64_t step = 1; step <= 4; ++step) {
    // A new run each second time: it finds what the one before saved.
    static std::unique_ptr<Checkpointer> saver;
    if (step % 2 == 1) {
      saver.reset();
      saver = std::move(*Checkpointer::open(options));
    }
    const TestState state = large_state(step == 4 ? 3 : step);
    const auto save = saver->save(step, state.state);
    ASSERT_THAT(save, IsOk());
    ASSERT_THAT((*save)->replicated(), IsOk());  // And old ones are gone.
    const uint64_t linked = (*save)->report().linked_bytes;
    const uint64_t one_file = 20 * kMiB + kDataAlignment;
    EXPECT_EQ(linked, step == 1 ? 0 : step == 4 ? 2 * one_file : one_file) << step;
    const auto reader = open_checkpoint(fs, kNamedPath, step);
    ASSERT_THAT(reader, IsOk());
    expect_state(**reader, state.state);
    EXPECT_EQ(list_steps(fs, kNamedPath)->size(), 1u);
    if (step == 4) saver.reset();
  }
}

TEST(IncrementalCheckpoints, ThePowerMayGoAtAnyCall) {
  const auto small = [](uint64_t seed) { return small_state(seed / 2); };
  for (uint64_t n = 1;; ++n) {
    io::FaultyFileSystem fs({.cut_at = n});
    uint64_t durable = 0;
    CheckpointerOptions options = incremental_in(fs);
    options.keep.keep_last = 1;
    {
      const auto saver = Checkpointer::open(options);
      for (uint64_t step = 1; saver.ok() && step <= 4; ++step) {
        const auto save = (*saver)->save(step, small(step).state);
        if (save.ok() && (*save)->durable().ok()) durable = step;
      }
    }
    for (uint64_t seed = 0; seed < 8; ++seed) {
      const auto after = fs.power_cut(seed);
      const auto reader = open_newest(*after, kNamedPath);
      if (!reader.ok()) {
        ASSERT_EQ(durable, 0u) << "cut at " << n;
        continue;
      }
      ASSERT_GE((*reader)->step(), durable);
      ASSERT_THAT((*reader)->verify(), IsEmpty()) << "cut at " << n << ", seed " << seed;
      expect_state(**reader, small((*reader)->step()).state);
    }
    if (!fs.fault_hit()) break;
  }
}

TEST(CheckpointSums, AreThoseOfTheFiles) {
  io::MemoryFileSystem fs;
  CheckpointerOptions options = named_options(fs);
  options.sha256_sums = true;
  {
    const auto saver = Checkpointer::open(options);
    save_durably(**saver, 1, small_state(1).state);
  }
  const std::string folder = join(kNamedPath, step_name(1));
  const std::string sums = *io::read_file(fs, join(folder, kSumsName), kMiB);
  for (const std::string name : {"data-00000.safetensors", "manifest.json"}) {
    const std::string text = *io::read_file(fs, join(folder, name), kMiB);
    Sha256 sum;
    sum.update(std::as_bytes(std::span(text)));
    EXPECT_THAT(sums, ::testing::HasSubstr(fmt::format("{}  {}\n", sum.hex(), name)));
  }
}

TEST(Sha256, IsWhatTheStandardSays) {
  Sha256 sum;
  sum.update(std::as_bytes(std::span("abc", 3)));
  EXPECT_EQ(sum.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace penstock::checkpoint
