#include "mount/metrics_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "base/result_matchers.h"
#include "io/memory_file_system.h"
#include "volume/log_lines.h"

namespace penstock::mount {
namespace {

using namespace std::chrono_literals;
using io::MemoryFileSystem;

const std::string kPath = "/metrics.prom";

Result<std::string> content(io::FileSystem& fs) {
  return io::read_file(fs, kPath, kMiB);
}

TEST(MetricsFile, IsThereFromTheBeginningAndGoneAtTheEnd) {
  MemoryFileSystem fs;
  {
    const auto file = MetricsFile::start(fs, kPath, [] { return std::string("a 1\n"); });
    ASSERT_THAT(file, IsOk());
    EXPECT_EQ(*content(fs), "a 1\n");
    EXPECT_THAT(fs.stat(kPath + ".tmp"), FailsWith(ErrorCode::kNotFound));
  }
  EXPECT_THAT(fs.stat(kPath), FailsWith(ErrorCode::kNotFound));
}

TEST(MetricsFile, IsWrittenAnew) {
  MemoryFileSystem fs;
  std::atomic<int> times = 0;
  const auto text = [&]() -> Result<std::string> { return std::to_string(++times); };
  const auto file = MetricsFile::start(fs, kPath, text, 1ms);
  ASSERT_THAT(file, IsOk());
  // Whoever looks finds a whole one, always.
  while (times < 10) {
    const Result<std::string> found = content(fs);
    ASSERT_THAT(found, IsOk());
    EXPECT_FALSE(found->empty());
  }
}

TEST(MetricsFile, WhereItCannotBeThatIsAnErrorAtOnce) {
  MemoryFileSystem fs;
  const auto text = [] { return std::string("a 1\n"); };
  EXPECT_THAT(MetricsFile::start(fs, "/not/there/metrics.prom", text),
              FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(
      MetricsFile::start(fs, kPath,
                         []() -> Result<std::string> { return make_error(ErrorCode::kIo, "no"); }),
      FailsWith(ErrorCode::kIo));
  EXPECT_THAT(fs.stat(kPath), FailsWith(ErrorCode::kNotFound));
}

TEST(MetricsFile, WhatADeadProcessLeftIsReplaced) {
  MemoryFileSystem fs;
  ASSERT_THAT(fs.make_symlink("/elsewhere", kPath + ".tmp"), IsOk());
  const auto file = MetricsFile::start(fs, kPath, [] { return std::string("a 1\n"); });
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(*content(fs), "a 1\n");
  EXPECT_THAT(fs.stat("/elsewhere"), FailsWith(ErrorCode::kNotFound));
}

TEST(MetricsFile, AFailureLaterOnIsToldOnceAndTriedAgain) {
  MemoryFileSystem fs;
  const volume::LogLines log;
  std::atomic<int> times = 0;
  const auto text = [&]() -> Result<std::string> {
    const int time = ++times;
    if (time > 1 && time < 10) return make_error(ErrorCode::kIo, "not now");
    return std::string(time == 1 ? "first" : "later");
  };
  const auto file = MetricsFile::start(fs, kPath, text, 1ms);
  ASSERT_THAT(file, IsOk());
  while (*content(fs) != "later") std::this_thread::sleep_for(1ms);
  EXPECT_EQ(log.count("metrics cannot be written"), 1u);
}

}  // namespace
}  // namespace penstock::mount
