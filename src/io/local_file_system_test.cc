// The real file system, with both engines: the conformance suite, and what only a real kernel can
// show.
#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>
#include <random>

#include "base/log.h"
#include "io/file_system_conformance.h"
#include "penstock/buffer.h"
#include "penstock/io.h"

namespace penstock::io {
namespace {

// A directory of its own under the build's working directory: a real disk, where /tmp may be
// memory.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string name = "io_test-XXXXXX";
    path_ = (std::filesystem::current_path() / ::mkdtemp(name.data())).string();
  }
  ~ScratchDirectory() {
    const auto fs = open_local_file_system({.engine = EngineKind::kThreads, .threads = 1});
    EXPECT_TRUE(remove_tree(**fs, path_).ok());
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class LocalTarget final : public ConformanceTarget {
 public:
  explicit LocalTarget(std::unique_ptr<LocalFileSystem> fs) : fs_(std::move(fs)) {}
  FileSystem& fs() override { return *fs_; }
  std::string directory() const override { return scratch_.path(); }

 private:
  ScratchDirectory scratch_;
  std::unique_ptr<LocalFileSystem> fs_;
};

std::vector<ConformanceParam> local_params(EngineKind engine) {
  return conformance_params([engine]() -> Result<std::unique_ptr<ConformanceTarget>> {
    LocalOptions options{.engine = engine};
    if (engine == EngineKind::kUring) options.threads = 2;
    auto fs = PENSTOCK_TRY(open_local_file_system(options));
    return std::unique_ptr<ConformanceTarget>(std::make_unique<LocalTarget>(std::move(fs)));
  });
}

INSTANTIATE_TEST_SUITE_P(Uring, FileSystemConformance,
                         testing::ValuesIn(local_params(EngineKind::kUring)), conformance_name);
INSTANTIATE_TEST_SUITE_P(Threads, FileSystemConformance,
                         testing::ValuesIn(local_params(EngineKind::kThreads)), conformance_name);

class LocalFileSystemTest : public testing::TestWithParam<EngineKind> {
 protected:
  void SetUp() override {
    auto fs = open_local_file_system({.engine = GetParam()});
    if (!fs.ok() && fs.error().code == ErrorCode::kUnsupported)
      GTEST_SKIP() << fs.error().to_string();
    ASSERT_TRUE(fs.ok()) << fs.error().to_string();
    fs_ = std::move(*fs);
  }

  std::string path(const std::string& name) const { return scratch_.path() + "/" + name; }

  std::unique_ptr<File> make_file(const std::string& name, size_t size, CacheMode mode) {
    auto file = *fs_->open(
        path(name), {.access = Access::kReadWrite, .create = Create::kTruncate, .mode = mode});
    const std::vector<std::byte> bytes(size, std::byte{7});
    EXPECT_TRUE(file->write(0, bytes).ok());
    return file;
  }

  ScratchDirectory scratch_;
  std::unique_ptr<LocalFileSystem> fs_;
};

std::string engine_name(const testing::TestParamInfo<EngineKind>& param) {
  return param.param == EngineKind::kUring ? "Uring" : "Threads";
}

INSTANTIATE_TEST_SUITE_P(Engines, LocalFileSystemTest,
                         testing::Values(EngineKind::kUring, EngineKind::kThreads), engine_name);

// A chain of requests, each submitted from the completion of the one before.
struct ReadChain {
  File* file;
  BufferProvider* buffers;
  std::atomic<int> left;
  std::atomic<int> live;
  std::promise<void> finished;

  void step(const Buffer& buffer, unsigned turn) {
    const uint64_t offset = turn * 7919 % 256 * 4096;
    file->submit(IoRequest::read(offset, buffer.slice(), [this, &buffer, turn](Result<size_t> got) {
      EXPECT_TRUE(got.ok() && *got == buffer.size());
      if (left.fetch_sub(1) > 0) return step(buffer, turn + 1);
      if (live.fetch_sub(1) == 1) finished.set_value();
    }));
  }
};

TEST_P(LocalFileSystemTest, ManyChainsOfRegisteredReadsFromCompletions) {
  const auto file = make_file("f", kMiB, CacheMode::kDirect);
  const auto buffers =
      *BufferProvider::create({.budget_bytes = 8 * kMiB, .registrar = fs_->registrar()});
  std::vector<Buffer> held;
  for (int i = 0; i < 40; ++i) held.push_back(*buffers->take(4096));
  ReadChain chain{file.get(), buffers.get(), 5000, 40, {}};
  auto finished = chain.finished.get_future();
  for (unsigned i = 0; i < held.size(); ++i) chain.step(held[i], i);
  finished.wait();
  for (const Buffer& buffer : held) EXPECT_EQ(buffer.data()[4095], std::byte{7});
}

// A region's id is given to other memory before the rings have heard that the first is gone.
TEST_P(LocalFileSystemTest, AReusedRegionIsNotDroppedWithItsPredecessor) {
  const auto file = make_file("f", kMiB, CacheMode::kDirect);
  const auto buffers = *BufferProvider::create({.budget_bytes = 8 * kMiB});
  const std::array<Buffer, 2> memory = {*buffers->take(kMiB), *buffers->take(kMiB)};
  MemoryRegistrar& registrar = *fs_->registrar();
  for (size_t turn = 0; turn < 1000; ++turn) {
    const Buffer& buffer = memory[turn % 2];
    const uint32_t region = registrar.add_region(buffer.bytes());
    IoRequest request = IoRequest::read(0, MemorySlice(buffer.data(), 4096, region), {});
    const Result<void> got = run_all(*file, std::span(&request, 1));
    if (region != 0) registrar.remove_region(region);
    ASSERT_TRUE(got.ok()) << turn << ": " << got.error().to_string();
  }
}

TEST_P(LocalFileSystemTest, ASmallQueueStillTakesALargeBatch) {
  fs_ = *open_local_file_system(
      {.engine = GetParam(), .threads = 1, .queue_depth = 2, .pending_limit = 3});
  const auto file = make_file("f", kMiB, CacheMode::kBuffered);
  std::vector<std::byte> memory(kMiB);
  std::vector<IoRequest> requests;
  for (size_t i = 0; i < 256; ++i) {
    requests.push_back(IoRequest::read(i * 4096, std::span(memory).subspan(i * 4096, 4096), {}));
  }
  std::vector<Result<size_t>> results;
  ASSERT_TRUE(run_all(*file, requests, &results).ok());
  EXPECT_EQ(memory, std::vector<std::byte>(kMiB, std::byte{7}));
  EXPECT_EQ(results.size(), 256u);
}

TEST_P(LocalFileSystemTest, MoreUnalignedReadsThanBounceBuffers) {
  const auto file = make_file("f", kMiB, CacheMode::kDirect);
  std::vector<std::vector<std::byte>> memory(500, std::vector<std::byte>(999));
  std::vector<IoRequest> requests;
  for (size_t i = 0; i < memory.size(); ++i)
    requests.push_back(IoRequest::read(1 + i * 1001, std::span(memory[i]), {}));
  ASSERT_TRUE(run_all(*file, requests).ok());
  for (const auto& bytes : memory) EXPECT_EQ(bytes, std::vector<std::byte>(999, std::byte{7}));
}

// Neighbours that share blocks write at the same time, directly: nobody's bytes may be lost.
TEST_P(LocalFileSystemTest, ConcurrentUnalignedDirectWritesKeepEachOthersBytes) {
  const auto file = make_file("f", 0, CacheMode::kDirect);
  constexpr size_t kPiece = 5001;
  constexpr size_t kPieces = 200;
  std::vector<std::vector<std::byte>> pieces;
  std::vector<IoRequest> requests;
  for (size_t i = 0; i < kPieces; ++i) pieces.emplace_back(kPiece, std::byte(i % 251));
  for (size_t i = 0; i < kPieces; ++i) {
    requests.push_back(IoRequest::write(i * kPiece, std::span<const std::byte>(pieces[i]), {}));
  }
  ASSERT_TRUE(run_all(*file, requests).ok());
  std::vector<std::byte> all(kPiece * kPieces);
  const auto reader = *fs_->open(path("f"), {});
  ASSERT_EQ(*reader->read(0, all), all.size());
  EXPECT_EQ(reader->stat()->size, all.size());
  for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], std::byte(i / kPiece % 251)) << i;
}

size_t cached_pages(const std::string& path, size_t size) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* map = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  std::vector<unsigned char> pages(size / 4096);
  EXPECT_EQ(::mincore(map, size, pages.data()), 0);
  ::munmap(map, size);
  ::close(fd);
  return static_cast<size_t>(
      std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; }));
}

TEST_P(LocalFileSystemTest, OnlyBufferedReadsLeavePagesBehind) {
  constexpr size_t kSize = 4 * kMiB;
  {
    const auto file = make_file("f", kSize, CacheMode::kBuffered);
    ASSERT_TRUE(file->sync().ok());
  }
  std::vector<std::byte> memory(kSize);
  for (const CacheMode mode : {CacheMode::kDirect, CacheMode::kUncached, CacheMode::kBuffered}) {
    const auto file = fs_->open(path("f"), {.mode = mode});
    if (!file.ok() && file.error().code == ErrorCode::kUnsupported) continue;
    ASSERT_TRUE((*file)->advise(Advice::kDontNeed, 0, 0).ok());
    ASSERT_EQ(cached_pages(path("f"), kSize), 0u);
    ASSERT_EQ(*(*file)->read(0, memory), kSize);
    if (mode == CacheMode::kBuffered) {
      EXPECT_EQ(cached_pages(path("f"), kSize), kSize / 4096);
    } else {
      EXPECT_EQ(cached_pages(path("f"), kSize), 0u) << cache_mode_name(mode);
    }
  }
}

TEST_P(LocalFileSystemTest, DirectWhereItCannotBeIsRefusedOrSaid) {
  const std::string place = "/proc/self/status";
  const auto refused = fs_->open(place, {.mode = CacheMode::kDirect});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  std::vector<std::string> lines;
  set_log_sink([&](std::string_view line) { lines.emplace_back(line); });
  const auto buffered = fs_->open(place, {.mode = CacheMode::kDirect, .require_mode = false});
  set_log_sink({});
  ASSERT_TRUE(buffered.ok());
  EXPECT_EQ((*buffered)->mode(), CacheMode::kBuffered);
}

// A ring that kept a closed file registered would keep its space, and its locks.
TEST_P(LocalFileSystemTest, ACloseLetsGoOfTheFileEverywhere) {
  const std::unique_ptr<File> file = make_file("f", kMiB, CacheMode::kDirect);
  const auto buffers =
      *BufferProvider::create({.budget_bytes = 4 * kMiB, .registrar = fs_->registrar()});
  const Buffer buffer = *buffers->take(4096);
  for (int i = 0; i < 200; ++i) {  // Enough for the ring to register the file.
    IoRequest request = IoRequest::read(0, buffer.slice(), {});
    ASSERT_TRUE(run_all(*file, std::span(&request, 1)).ok());
  }
  const int fd = ::open(path("f").c_str(), O_RDWR | O_CLOEXEC);
  // The kernel grants a write lease only to the one who has the file open alone.
  EXPECT_EQ(::fcntl(fd, F_SETLEASE, F_WRLCK), -1);
  ASSERT_TRUE(file->close().ok());
  EXPECT_EQ(::fcntl(fd, F_SETLEASE, F_WRLCK), 0);
  ::close(fd);
}

TEST_P(LocalFileSystemTest, ALockDiesWithItsProcess) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const int fd = ::open(path("lock").c_str(), O_RDWR | O_CREAT, 0644);
    const char state = ::syscall(SYS_flock, fd, 2 /* LOCK_EX */) == 0 ? 'y' : 'n';
    (void)!::write(ready[1], &state, 1);
    ::pause();
    ::_exit(0);
  }
  char state = 0;
  ASSERT_EQ(::read(ready[0], &state, 1), 1);
  ASSERT_EQ(state, 'y');
  const auto busy = fs_->try_lock(path("lock"));
  EXPECT_EQ(busy.error().code, ErrorCode::kBusy);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(fs_->try_lock(path("lock")).ok());
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_P(LocalFileSystemTest, PlainOnlyDoesNotWaitForAPipe) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (const Access access : {Access::kRead, Access::kWrite, Access::kReadWrite}) {
    for (const std::string& planted : {path("pipe"), std::string("/dev/null")}) {
      const auto file = fs_->open(planted, {.access = access, .plain_only = true});
      ASSERT_FALSE(file.ok()) << planted;
      EXPECT_EQ(file.error().code, ErrorCode::kInvalid) << file.error().to_string();
    }
  }
}

TEST_P(LocalFileSystemTest, AFullDeviceIsReported) {
  const auto file = fs_->open("/dev/full", {.access = Access::kWrite});
  ASSERT_TRUE(file.ok());
  const std::vector<std::byte> bytes(4096);
  const Result<void> written = (*file)->write(0, bytes);
  EXPECT_EQ(written.error().code, ErrorCode::kNoSpace);
  EXPECT_EQ(written.error().os_errno, ENOSPC);
  IoRequest request = IoRequest::write(0, std::span<const std::byte>(bytes), {});
  EXPECT_EQ(run_all(**file, std::span(&request, 1)).error().os_errno, ENOSPC);
}

TEST(LocalFileSystemOptions, AreRefusedBeforeAnyThreadStarts) {
  for (const LocalOptions& options :
       {LocalOptions{.queue_depth = 0}, LocalOptions{.queue_depth = 5000},
        LocalOptions{.threads = 9999}, LocalOptions{.pending_limit = 0},
        LocalOptions{.rings_min = 0}, LocalOptions{.rings_min = 5}}) {
    EXPECT_EQ(open_local_file_system(options).error().code, ErrorCode::kInvalid);
  }
}

// As a container's seccomp profile does.
void refuse_call(uint32_t number) {
  const sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{4, const_cast<sock_filter*>(filter)};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    ::_exit(9);
  }
}

// In a process of their own, begun anew: other tests may have left threads that a fork would cut off.
class LocalFileSystemFallback : public testing::Test {
 protected:
  LocalFileSystemFallback() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(LocalFileSystemFallback, ThreadsWhereIoUringIsRefusedAndSaidOnce) {
  EXPECT_EXIT(
      {
        refuse_call(SYS_io_uring_setup);
        int lines = 0;
        set_log_sink([&](std::string_view line) {
          lines += line.find("using threads") != std::string_view::npos;
        });
        const auto fs = open_local_file_system({});
        const auto again = open_local_file_system({});
        const auto insisted = open_local_file_system({.engine = EngineKind::kUring});
        const bool fell_back = fs.ok() && again.ok() && (*fs)->engine() == EngineKind::kThreads;
        const bool refused = !insisted.ok() && insisted.error().code == ErrorCode::kUnsupported;
        ::_exit(fell_back && refused && lines == 1 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(LocalFileSystemFallback, LinksAreRefusedPartByPartWhereTheKernelCannot) {
  const ScratchDirectory scratch;
  const std::string& path = scratch.path();
  EXPECT_EXIT(
      {
        refuse_call(SYS_openat2);
        const auto fs = std::move(*open_local_file_system({.engine = EngineKind::kThreads}));
        const auto open = [&](const std::string& name, Create create) {
          const auto file = fs->open(
              path + name, {.access = Access::kReadWrite, .create = create, .follow_links = false});
          return file.ok() ? 0 : file.error().os_errno;
        };
        const bool made = fs->make_directory(path + "/d").ok() &&
                          fs->make_symlink("d", path + "/to-d").ok() &&
                          fs->make_symlink("f", path + "/d/to-f").ok();
        const bool right =
            open("/d/f", Create::kMustNotExist) == 0 && open("/d/f", Create::kNever) == 0 &&
            open("/to-d/f", Create::kNever) == ELOOP &&
            open("/to-d/new", Create::kIfMissing) == ELOOP &&
            open("/d/to-f", Create::kNever) == ELOOP && open("/no/f", Create::kNever) == ENOENT &&
            open("/d/f", Create::kMustNotExist) == EEXIST;
        ::_exit(made && right ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace penstock::io
