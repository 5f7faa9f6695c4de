// One suite for every FileSystem: it checks what penstock/io.h promises, sentence by sentence, in a
// given cache mode. The tests are in file_conformance_test.cc, file_requests_conformance_test.cc
// and file_system_conformance_test.cc; whoever has a file system to check adds, in its own test
// file:
//
//   INSTANTIATE_TEST_SUITE_P(Memory, FileSystemConformance,
//                            testing::ValuesIn(conformance_params(make_target)),
//                            conformance_name);
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/io.h"

namespace penstock::io {

inline std::unique_ptr<File> create(FileSystem& fs, const std::string& path) {
  return *fs.open(path, {.access = Access::kReadWrite, .create = Create::kIfMissing});
}

// What the file holds, or the name of the error.
inline std::string see(FileSystem& fs, const std::string& path) {
  const Result<std::string> read = read_file(fs, path, kMiB);
  return read.ok() ? *read : std::string(error_code_name(read.error().code));
}

// A file system to check, with an empty directory of its own, which goes with it.
class ConformanceTarget {
 public:
  virtual ~ConformanceTarget() = default;
  virtual FileSystem& fs() = 0;
  virtual std::string directory() const = 0;
};

struct ConformanceParam {
  CacheMode mode = CacheMode::kBuffered;
  // kUnsupported skips the test, saying why; another error fails it.
  std::function<Result<std::unique_ptr<ConformanceTarget>>()> make;
};

// How the name of a failed test shows it.
inline void PrintTo(const ConformanceParam& param, std::ostream* out) {
  *out << cache_mode_name(param.mode);
}

// The three cache modes over one kind of target. Tests of a mode that the file system refuses are
// skipped.
inline std::vector<ConformanceParam> conformance_params(
    const std::function<Result<std::unique_ptr<ConformanceTarget>>()>& make) {
  return {{CacheMode::kBuffered, make}, {CacheMode::kDirect, make}, {CacheMode::kUncached, make}};
}

inline std::string conformance_name(const testing::TestParamInfo<ConformanceParam>& info) {
  return std::string(cache_mode_name(info.param.mode));
}

class FileSystemConformance : public testing::TestWithParam<ConformanceParam> {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<ConformanceTarget>> made = GetParam().make();
    if (!made.ok() && made.error().code == ErrorCode::kUnsupported) {
      GTEST_SKIP() << made.error().to_string();
    }
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    target_ = std::move(*made);
    const Result<std::unique_ptr<File>> probe = try_open("probe", Create::kMustNotExist);
    if (!probe.ok() && probe.error().code == ErrorCode::kUnsupported) {
      GTEST_SKIP() << probe.error().to_string();
    }
    ASSERT_TRUE(probe.ok()) << probe.error().to_string();
    ASSERT_TRUE(fs().remove(path("probe")).ok());
  }

  FileSystem& fs() { return target_->fs(); }
  std::string directory() const { return target_->directory(); }
  std::string path(std::string_view name) const { return directory() + "/" + std::string(name); }

  OpenOptions options(Create create, Access access = Access::kReadWrite) const {
    OpenOptions options;
    options.access = access;
    options.create = create;
    options.mode = GetParam().mode;
    return options;
  }
  // In the mode under test.
  Result<std::unique_ptr<File>> try_open(std::string_view name, Create create,
                                         Access access = Access::kReadWrite) {
    return fs().open(path(name), options(create, access));
  }
  // A fresh file; the test fails and null comes back when there is none.
  std::unique_ptr<File> make(std::string_view name, std::string_view contents = {}) {
    Result<std::unique_ptr<File>> file = try_open(name, Create::kTruncate);
    EXPECT_TRUE(file.ok()) << file.error().to_string();
    if (!file.ok()) return nullptr;
    const Result<void> written = (*file)->write(0, std::as_bytes(std::span(contents)));
    EXPECT_TRUE(written.ok()) << written.error().to_string();
    return std::move(*file);
  }
  // All that is in the file, through the page cache.
  std::string contents(std::string_view name) {
    const Result<std::string> read = read_file(fs(), path(name), 64 * kMiB);
    EXPECT_TRUE(read.ok()) << read.error().to_string();
    return read.ok() ? *read : "";
  }

 private:
  std::unique_ptr<ConformanceTarget> target_;
};

inline std::span<std::byte> bytes_of(std::string& text) {
  return std::as_writable_bytes(std::span(text));
}

inline std::string read_string(File& file, uint64_t offset, size_t size) {
  std::string text(size, '?');
  const Result<size_t> count = file.read(offset, bytes_of(text));
  EXPECT_TRUE(count.ok()) << count.error().to_string();
  text.resize(count.value_or(0));
  return text;
}

inline Result<void> write_string(File& file, uint64_t offset, std::string_view text) {
  return file.write(offset, std::as_bytes(std::span(text)));
}

template <typename T>
testing::AssertionResult succeeded(const Result<T>& result) {
  if (result.ok()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << result.error().to_string();
}

template <typename T>
testing::AssertionResult failed_with(const Result<T>& result, ErrorCode expected) {
  if (result.ok()) return testing::AssertionFailure() << "it succeeded";
  if (result.error().code == expected) return testing::AssertionSuccess();
  return testing::AssertionFailure() << result.error().to_string();
}

}  // namespace penstock::io

#define PENSTOCK_EXPECT_OK(expression) EXPECT_TRUE(::penstock::io::succeeded(expression))
#define PENSTOCK_EXPECT_ERROR(expression, code) \
  EXPECT_TRUE(::penstock::io::failed_with(expression, ::penstock::ErrorCode::code))
