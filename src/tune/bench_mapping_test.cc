#include "tune/bench_mapping.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <thread>
#include <vector>

#include "penstock/units.h"
#include "tune/bench_facts.h"
#include "tune/bench_runner.h"

namespace penstock::tune {
namespace {

using testing::HasSubstr;

// A real file that was written whole.
class BenchMappingTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = kMiB;

  BenchMappingTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "mapping-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
    path_ = directory_ + "/data";
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const std::vector<char> contents(kBytes, 'x');
    EXPECT_EQ(::write(fd_, contents.data(), kBytes), static_cast<ssize_t>(kBytes));
  }
  ~BenchMappingTest() override {
    ::close(fd_);
    std::filesystem::remove_all(directory_);
  }

  std::string directory_;
  std::string path_;
  int fd_ = -1;
  std::array<std::byte, 4096> memory_{};
};

void* bus_error_handler() {
  struct sigaction action {};
  ::sigaction(SIGBUS, nullptr, &action);
  return reinterpret_cast<void*>(action.sa_sigaction);
}

TEST_F(BenchMappingTest, AFileThatShrinksIsAnErrorOfTheCopy) {
  void* const before = bus_error_handler();
  {
    const auto mapping = BenchMapping::open(path_, kBytes, true).value();
    ASSERT_TRUE(mapping->copy(kBytes - 4096, memory_).ok());
    EXPECT_EQ(memory_[0], std::byte{'x'});
    ASSERT_EQ(::ftruncate(fd_, 4096), 0);
    for (int i = 0; i < 2; ++i) {
      const auto copied = mapping->copy(kBytes - 4096, memory_);
      ASSERT_FALSE(copied.ok());
      EXPECT_EQ(copied.error().os_errno, EIO);
      EXPECT_THAT(copied.error().detail, HasSubstr("became shorter"));
    }
    EXPECT_TRUE(mapping->copy(0, memory_).ok());
  }
  EXPECT_EQ(bus_error_handler(), before);
}

TEST_F(BenchMappingTest, EveryThreadHasItsOwnError) {
  const auto mapping = BenchMapping::open(path_, kBytes, true).value();
  ASSERT_EQ(::ftruncate(fd_, 4096), 0);
  std::vector<std::thread> threads;
  std::array<bool, 4> as_expected{};
  for (size_t i = 0; i < as_expected.size(); ++i) {
    threads.emplace_back([&, i] {
      std::array<std::byte, 512> memory;
      as_expected[i] = true;
      for (int round = 0; round < 100; ++round) {
        const bool there = (static_cast<size_t>(round) + i) % 2 == 0;
        const bool copied = mapping->copy(there ? 0 : kBytes / 2, memory).ok();
        as_expected[i] = as_expected[i] && copied == there;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(as_expected, testing::Each(true));
}

TEST_F(BenchMappingTest, AMappedCaseOfAFileThatShrankEndsWithAnError) {
  const BenchCase read = parse_bench_case("read:random:mmap:4KiB:1x2").value();
  BenchOptions options;
  options.case_time = std::chrono::seconds(5);
  options.cases = {read};
  const BenchLimits limits{.target = BenchTarget::kFile, .existing_bytes = kBytes};
  const BenchPlan plan = make_bench_plan(options, limits).value();
  ASSERT_EQ(::ftruncate(fd_, 4096), 0);
  const auto fs = io::open_local_file_system({}).value();
  std::vector<CaseResult> results;
  const auto ran = run_file_bench({*fs, path_, BenchTarget::kFile}, plan, {}, results);
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.error().os_errno, EIO);
}

TEST_F(BenchMappingTest, KnowsWhatIsInThePageCache) {
  EXPECT_FALSE(cached_share(directory_ + "/missing", kBytes).has_value());
  const auto written = cached_share(path_, kBytes);
  if (!written) GTEST_SKIP() << "this kernel does not tell";
  EXPECT_GT(*written, 0.9);
  if (is_kept_in_memory(path_)) GTEST_SKIP() << "in memory for good";
  ASSERT_EQ(::fdatasync(fd_), 0);
  ASSERT_EQ(::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED), 0);
  EXPECT_LT(cached_share(path_, kBytes).value(), 0.1);
}

TEST_F(BenchMappingTest, PagesThatStayAreNotCalledCold) {
  if (!cached_share(path_, kBytes)) GTEST_SKIP() << "this kernel does not tell";
  BenchOptions options;
  options.case_time = std::chrono::milliseconds(1);
  options.cases = {parse_bench_case("read:sequential:buffered-cold:64KiB:1").value()};
  const BenchLimits limits{.target = BenchTarget::kFile, .existing_bytes = kBytes};
  const BenchPlan plan = make_bench_plan(options, limits).value();
  // Mapped and touched by somebody: the kernel does not drop such pages.
  const auto mapping = BenchMapping::open(path_, kBytes, false).value();
  std::vector<std::byte> all(kBytes);
  ASSERT_TRUE(mapping->copy(0, all).ok());
  const auto fs = io::open_local_file_system({}).value();
  std::vector<CaseResult> results;
  ASSERT_TRUE(run_file_bench({*fs, path_, BenchTarget::kFile}, plan, {}, results).ok());
  ASSERT_EQ(results.size(), 1U);
  EXPECT_THAT(results[0].skipped, HasSubstr("cold"));
}

TEST_F(BenchMappingTest, OnlyColdCasesDropThePagesOfAnExistingFile) {
  if (!cached_share(path_, kBytes)) GTEST_SKIP() << "this kernel does not tell";
  ASSERT_EQ(::fdatasync(fd_), 0);
  BenchOptions options;
  options.case_time = std::chrono::milliseconds(1);
  options.cases = {parse_bench_case("read:sequential:buffered:64KiB:1").value()};
  const BenchLimits limits{.target = BenchTarget::kFile, .existing_bytes = kBytes};
  const BenchPlan plan = make_bench_plan(options, limits).value();
  const auto fs = io::open_local_file_system({}).value();
  std::vector<CaseResult> results;
  ASSERT_TRUE(run_file_bench({*fs, path_, BenchTarget::kFile}, plan, {}, results).ok());
  EXPECT_GT(cached_share(path_, kBytes).value(), 0.9);
}

TEST_F(BenchMappingTest, HolesAreSeen) {
  const auto fs = io::open_local_file_system({}).value();
  BenchFacts facts;
  ASSERT_TRUE(inspect_bench_path(*fs, path_, facts).ok());
  EXPECT_FALSE(facts.has_holes);
  ASSERT_EQ(::ftruncate(fd_, 4 * kBytes), 0);
  ASSERT_TRUE(inspect_bench_path(*fs, path_, facts).ok());
  EXPECT_TRUE(facts.has_holes);
  ASSERT_TRUE(inspect_bench_path(*fs, directory_, facts).ok());
  EXPECT_FALSE(facts.has_holes);
}

TEST(BenchFactsTest, ErrorsShowNoControlCharacters) {
  const auto fs = io::open_local_file_system({}).value();
  const std::string directory =
      (std::filesystem::temp_directory_path() / ("bench-facts-" + std::to_string(::getpid())))
          .string();
  ASSERT_TRUE(std::filesystem::create_directory(directory));
  const std::string path = directory + "/\033]0;x\n";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  BenchFacts facts;
  const auto refused = inspect_bench_path(*fs, path, facts);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().detail, HasSubstr("\\x1b]0;x\\x0a is neither"));
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace penstock::tune
