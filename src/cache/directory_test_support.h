// Cache directories for the tests of this layer, in memory and on a real disk.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "cache/directory.h"
#include "cache/entry_test_data.h"
#include "io/memory_file_system.h"
#include "penstock/io.h"

namespace penstock::cache {

// A directory of its own under the working directory: a real disk, where /tmp may be memory.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string name = "cache_test-XXXXXX";
    path_ = (std::filesystem::current_path() / ::mkdtemp(name.data())).string();
  }
  ~ScratchDirectory() {
    std::error_code failure;
    std::filesystem::remove_all(path_, failure);
    EXPECT_FALSE(failure) << failure.message();
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

template <typename T>
::testing::AssertionResult succeeded(const Result<T>& result) {
  if (result.ok()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << result.error().to_string();
}

template <typename T>
::testing::AssertionResult failed_with(const Result<T>& result, ErrorCode code) {
  if (result.ok()) return ::testing::AssertionFailure() << "it succeeded";
  if (result.error().code == code) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << result.error().to_string();
}

inline constexpr std::string_view kTestMarker =
    "penstock cache\n"
    "version 1\n"
    "compatible 0\n"
    "incompatible 0\n";

inline std::unique_ptr<CacheDirectory> open_cache(io::FileSystem& fs, const std::string& path,
                                                  io::CacheMode mode = io::CacheMode::kDirect) {
  Result<std::unique_ptr<CacheDirectory>> directory = CacheDirectory::open(fs, path, mode);
  EXPECT_TRUE(succeeded(directory));
  return directory.ok() ? std::move(*directory) : nullptr;
}

inline void put_file(io::FileSystem& fs, const std::string& path, std::string_view text) {
  const auto file = fs.open(path, {.access = io::Access::kWrite, .create = io::Create::kTruncate});
  ASSERT_TRUE(succeeded(file));
  ASSERT_TRUE(succeeded((*file)->write(0, std::as_bytes(std::span(text)))));
}

inline std::string get_file(io::FileSystem& fs, const std::string& path) {
  const Result<std::string> text = io::read_file(fs, path, 1 << 20);
  return text.ok() ? *text : fmt::format("<{}>", text.error().to_string());
}

// The names in a directory, in order.
inline std::vector<std::string> names_in(io::FileSystem& fs, const std::string& path) {
  std::vector<std::string> names;
  EXPECT_TRUE(succeeded(fs.list(path, [&](const io::DirectoryEntry& entry) {
    names.push_back(entry.name);
    return true;
  })));
  std::ranges::sort(names);
  return names;
}

inline std::vector<EntryName> scanned(CacheDirectory& directory) {
  std::vector<EntryName> names;
  EXPECT_TRUE(succeeded(directory.scan([&](const EntryName& name) {
    names.push_back(name);
    return true;
  })));
  return names;
}

inline Result<void> publish(CacheDirectory& directory, const EntryKey& key, uint64_t seed = 1) {
  Bytes file = make_entry(key, seed);
  return directory.publish(name_of(key), std::span(file));
}

// What a reader makes of the entry: its data when all checks out. kNotFound, kCorrupt (also for
// what is short), or what the file system says.
inline Result<Bytes> read_entry(CacheDirectory& directory, const EntryKey& key) {
  const std::unique_ptr<io::File> file = PENSTOCK_TRY(directory.open_entry(name_of(key)));
  Bytes bytes(file_bytes(key));
  const size_t count = PENSTOCK_TRY(file->read(0, bytes));
  if (count < bytes.size()) return make_error(ErrorCode::kCorrupt, "short");
  const BlockSums sums = PENSTOCK_TRY(read_header(header_of(bytes, key), key));
  if (!sums.verify(0, data_of(bytes, key))) return make_error(ErrorCode::kCorrupt, "data");
  const auto data = data_of(bytes, key).first(key.length);
  return Bytes(data.begin(), data.end());
}

enum class Disk { kMemory, kReal };

class CacheDirectoryTest : public ::testing::TestWithParam<Disk> {
 protected:
  void SetUp() override {
    if (GetParam() == Disk::kMemory) {
      memory_ = std::make_unique<io::MemoryFileSystem>();
      ASSERT_TRUE(succeeded(memory_->make_directory("/base")));
      base_ = "/base";
    } else {
      scratch_ = std::make_unique<ScratchDirectory>();
      local_ = std::move(*io::open_local_file_system({.threads = 1}));
      base_ = scratch_->path();
    }
  }

  io::FileSystem& fs() {
    if (memory_ != nullptr) return *memory_;
    return *local_;
  }
  std::string base(std::string_view name) const { return fmt::format("{}/{}", base_, name); }
  std::string root(std::string_view name = {}) const {
    return name.empty() ? base("cache") : base(fmt::format("cache/{}", name));
  }
  std::unique_ptr<CacheDirectory> open(io::CacheMode mode = io::CacheMode::kDirect) {
    return open_cache(fs(), root(), mode);
  }
  Result<std::unique_ptr<CacheDirectory>> try_open(bool must_exist = false) {
    return CacheDirectory::open(fs(), root(), io::CacheMode::kDirect, must_exist);
  }
  void make_link(const std::string& target, const std::string& path) {
    if (memory_ != nullptr) {
      ASSERT_TRUE(succeeded(memory_->make_symlink(target, path)));
    } else {
      std::filesystem::create_symlink(target, path);
    }
  }

  std::unique_ptr<ScratchDirectory> scratch_;
  std::unique_ptr<io::MemoryFileSystem> memory_;
  std::unique_ptr<io::LocalFileSystem> local_;
  std::string base_;
};

}  // namespace penstock::cache
