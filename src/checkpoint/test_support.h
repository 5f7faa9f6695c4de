// States to save, and what must come back.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/result_matchers.h"
#include "checkpoint/names.h"
#include "checkpoint/safetensors.h"
#include "io/memory_file_system.h"
#include "penstock/checkpoint.h"

namespace penstock::checkpoint {

using Bytes = std::vector<std::byte>;

// A state that owns its memory.
struct TestState {
  State state;
  std::vector<Bytes> memory;

  void add(const std::string& name, const std::string& dtype, std::vector<uint64_t> shape,
           uint64_t seed) {
    Bytes bytes(*tensor_bytes(dtype, shape));
    std::mt19937_64 random(seed);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    memory.push_back(std::move(bytes));
    state.tensors.push_back({name, dtype, std::move(shape), memory.back().data()});
  }
};

// All kinds of tensors, few bytes, other ones for each seed.
inline TestState small_state(uint64_t seed) {
  TestState made;
  made.add("model.weight", "F32", {33, 7}, seed);
  made.add("model.half", "BF16", {5}, seed + 1);
  made.add("scalar", "I64", {}, seed + 2);
  made.add("nothing", "F32", {0, 4}, seed + 3);
  made.add("flags", "BOOL", {3}, seed + 4);
  made.add("optim.\"odd\"/\u00e4", "F8_E4M3", {1, 1, 11}, seed + 5);
  made.state.tree = R"({"step": )" + std::to_string(seed) + "}";
  made.state.metadata = {{"seed", std::to_string(seed)}};
  return made;
}

// Nothing under a temporary name is left in a run's directory.
inline void expect_no_leftovers(io::FileSystem& fs, const std::string& directory) {
  ASSERT_THAT(fs.list(directory,
                      [](const io::DirectoryEntry& entry) {
                        EXPECT_FALSE(entry.name.starts_with(kTemporaryPrefix)) << entry.name;
                        EXPECT_FALSE(entry.name.starts_with(kAsidePrefix)) << entry.name;
                        return true;
                      }),
              IsOk());
}

// Loads everything and compares.
inline void expect_state(Reader& reader, const State& expected) {
  ASSERT_EQ(reader.trees().size(), 1u);
  EXPECT_EQ(reader.trees()[0], expected.tree);
  EXPECT_EQ(reader.metadata(), expected.metadata);
  std::map<std::string, const Tensor*> by_name;
  for (const Tensor& tensor : expected.tensors) by_name[tensor.name] = &tensor;
  ASSERT_EQ(reader.tensors().size(), by_name.size());
  std::vector<Bytes> memory;
  for (const TensorInfo& info : reader.tensors()) memory.emplace_back(info.bytes);
  std::vector<LoadTarget> targets;
  for (size_t i = 0; i < memory.size(); ++i) targets.push_back({i, memory[i]});
  ASSERT_THAT(reader.load(targets), IsOk());
  for (size_t i = 0; i < memory.size(); ++i) {
    const TensorInfo& info = reader.tensors()[i];
    ASSERT_TRUE(by_name.contains(info.name)) << info.name;
    const Tensor& tensor = *by_name[info.name];
    EXPECT_EQ(info.dtype, tensor.dtype);
    EXPECT_EQ(info.shape, tensor.shape);
    const std::span<const std::byte> was(tensor.data, info.bytes);
    EXPECT_TRUE(std::ranges::equal(was, memory[i])) << info.name;
  }
}

}  // namespace penstock::checkpoint
