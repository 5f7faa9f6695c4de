// What dead members left goes; nothing else does.
#include "cache/directory_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "cache/directory_test_support.h"
#include "io/faulty_file_system.h"

namespace penstock::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::string kDead = "123-00112233445566aa";
const std::string kAlive = "124-00112233445566bb";

TEST(Sweep, KnowsTheNamesOfMembers) {
  EXPECT_EQ(member_of_temporary(kDead + "-0"), kDead);
  EXPECT_EQ(member_of_temporary(kDead + "-123456"), kDead);
  EXPECT_EQ(member_of_lock(kDead + ".lock"), kDead);
  EXPECT_EQ(member_of_log(kDead + ".log"), kDead);
  EXPECT_EQ(member_of_log(kDead + ".17.log"), kDead);
  for (const std::string& other :
       {std::string(), std::string("-"), std::string("x"), kDead, kDead + "-", kDead + "-x",
        kDead + "-1x", kDead + "--1", "-" + kDead + "-1", "x" + kDead + "-1", kDead + "0-1",
        std::string("-00112233445566aa-1"), std::string("123-00112233445566AA-1"),
        std::string("123-0011223344556-1"), std::string("123-00112233445566ag-1")}) {
    EXPECT_FALSE(member_of_temporary(other)) << other;
  }
  for (const std::string& other :
       {std::string(), std::string("."), std::string(".lock"), std::string(".log"), kDead,
        kDead + ".", kDead + ".lck", kDead + ".lock.old", kDead + "-1.lock", "x" + kDead + ".log",
        kDead + ".log~", kDead + "..log", kDead + ".x.log", kDead + ".1.2.log",
        kDead + ".1.lock"}) {
    EXPECT_FALSE(member_of_lock(other)) << other;
    EXPECT_FALSE(member_of_log(other)) << other;
  }
}

class SweepTest : public CacheDirectoryTest {
 protected:
  void SetUp() override {
    CacheDirectoryTest::SetUp();
    directory_ = open();
    ASSERT_NE(directory_, nullptr);
  }
  std::string lock_path(const std::string& member) { return root("members/" + member + ".lock"); }
  std::unique_ptr<io::FileLock> live(const std::string& member) {
    return std::move(*fs().try_lock(lock_path(member)));
  }
  void leave(const std::string& member) {
    put_file(fs(), root("tmp/" + member + "-0"), "half");
    put_file(fs(), root("tmp/" + member + "-17"), "half");
    put_file(fs(), root("members/" + member + ".log"), "notes");
    put_file(fs(), root("members/" + member + ".3.log"), "notes");
  }
  std::vector<std::string> temporaries() { return names_in(fs(), root("tmp")); }
  std::vector<std::string> members() { return names_in(fs(), root("members")); }

  std::unique_ptr<CacheDirectory> directory_;
};

INSTANTIATE_TEST_SUITE_P(On, SweepTest, ::testing::Values(Disk::kMemory, Disk::kReal),
                         [](const auto& param) {
                           return param.param == Disk::kMemory ? "Memory" : "RealDisk";
                         });

TEST_P(SweepTest, TakesTheDeadAndLeavesTheLiving) {
  leave(kDead);
  put_file(fs(), lock_path(kDead), "");
  leave(kAlive);
  std::unique_ptr<io::FileLock> lock = live(kAlive);
  ASSERT_TRUE(succeeded(directory_->sweep()));
  EXPECT_THAT(temporaries(), ElementsAre(kAlive + "-0", kAlive + "-17"));
  EXPECT_THAT(members(), ElementsAre(kAlive + ".3.log", kAlive + ".lock", kAlive + ".log"));
  lock.reset();  // It dies.
  ASSERT_TRUE(succeeded(directory_->sweep()));
  EXPECT_THAT(temporaries(), IsEmpty());
  EXPECT_THAT(members(), IsEmpty());
}

TEST_P(SweepTest, WhoHasNoLockIsDead) {
  leave(kDead);
  put_file(fs(), root("members/" + kAlive + ".log"), "notes");
  ASSERT_TRUE(succeeded(directory_->sweep()));
  EXPECT_THAT(temporaries(), IsEmpty());
  EXPECT_THAT(members(), IsEmpty());
}

TEST_P(SweepTest, NeverTakesItsOwn) {
  leave(directory_->member());
  ASSERT_TRUE(succeeded(directory_->sweep()));
  put_file(fs(), lock_path(directory_->member()), "");
  ASSERT_TRUE(succeeded(directory_->sweep()));
  EXPECT_EQ(temporaries().size(), 2u);
  EXPECT_EQ(members().size(), 3u);
}

TEST_P(SweepTest, LeavesForeignFilesAlone) {
  const std::vector<std::string> foreign = {"core", "notes.txt", kDead + "-x", "x-" + kDead + "-1"};
  for (const std::string& name : foreign) put_file(fs(), root("tmp/" + name), "theirs");
  put_file(fs(), root("members/README"), "theirs");
  put_file(fs(), root("members/" + kDead + ".log.old"), "theirs");
  leave(kDead);
  ASSERT_TRUE(succeeded(directory_->sweep()));
  EXPECT_THAT(temporaries(), ::testing::UnorderedElementsAreArray(foreign));
  EXPECT_THAT(members(), ElementsAre(kDead + ".log.old", "README"));
}

// A link would choose which file is made or locked: its member is nobody's to judge.
TEST_P(SweepTest, DoesNotFollowLinks) {
  put_file(fs(), base("victim"), "precious");
  make_link(base("victim"), lock_path(kAlive));
  make_link(base("nothing"), lock_path("9-00112233445566cc"));
  leave(kAlive);
  make_link(base("victim"), root("tmp/" + kDead + "-1"));
  make_link(base("victim"), root("members/" + kDead + ".log"));
  ASSERT_TRUE(succeeded(directory_->sweep()));
  EXPECT_THAT(temporaries(), ElementsAre(kAlive + "-0", kAlive + "-17"));
  EXPECT_EQ(get_file(fs(), base("victim")), "precious");
  EXPECT_TRUE(failed_with(fs().stat(base("nothing")), ErrorCode::kNotFound));
}

TEST_P(SweepTest, ManyAtOnce) {
  std::vector<std::unique_ptr<io::FileLock>> locks;
  std::vector<std::string> kept;
  for (int i = 0; i < 180; ++i) {
    const std::string member = fmt::format("{}-{:016x}", i, i);
    put_file(fs(), root(fmt::format("tmp/{}-{}", member, i)), "");
    if (i % 3 != 0) put_file(fs(), lock_path(member), "");
    if (i % 3 == 2) locks.push_back(live(member));
    if (i % 3 == 2) kept.push_back(fmt::format("{}-{}", member, i));
  }
  for (int i = 0; i < 1100; ++i) put_file(fs(), root(fmt::format("tmp/{}-{}", kDead, i)), "");
  ASSERT_TRUE(succeeded(directory_->sweep()));
  EXPECT_THAT(temporaries(), ::testing::UnorderedElementsAreArray(kept));
  EXPECT_EQ(members().size(), kept.size());
}

TEST_P(SweepTest, SeveralSweepersAtOnce) {
  for (int i = 0; i < 50; ++i) leave(fmt::format("{}-{:016x}", i, i));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { EXPECT_TRUE(succeeded(open()->sweep())); });
  }
  for (std::thread& thread : threads) thread.join();
  // One may have taken a member for alive while another was removing it.
  ASSERT_TRUE(succeeded(directory_->sweep()));
  EXPECT_THAT(temporaries(), IsEmpty());
  EXPECT_THAT(members(), IsEmpty());
}

TEST_P(SweepTest, WhereThereIsNothingToSweep) {
  ASSERT_TRUE(succeeded(fs().remove_directory(root("tmp"))));
  ASSERT_TRUE(succeeded(fs().remove_directory(root("members"))));
  EXPECT_TRUE(succeeded(directory_->sweep()));
}

// A member without a lock may lose its temporary file. It hears of it as of no ill drive.
TEST(Sweep, ALostTemporaryFileIsRetryable) {
  class Thief final : public io::MemoryFileSystem {
   public:
    Result<void> rename(const std::string& from, const std::string& to,
                        io::RenameMode mode) override {
      if (from.find("/tmp/") != std::string::npos) (void)remove(from);
      return MemoryFileSystem::rename(from, to, mode);
    }
  } fs;
  const auto directory = open_cache(fs, "/cache");
  const Result<void> published = publish(*directory, test_key());
  ASSERT_TRUE(failed_with(published, ErrorCode::kBusy));
  EXPECT_TRUE(published.error().retryable);
  EXPECT_THAT(names_in(fs, "/cache/tmp"), IsEmpty());
}

TEST(SweepFaults, AnyCallFails) {
  for (uint64_t n = 1;; ++n) {
    SCOPED_TRACE(fmt::format("failure at call {}", n));
    auto disk = std::make_unique<io::MemoryFileSystem>();
    ASSERT_NE(open_cache(*disk, "/cache"), nullptr);
    for (int i = 0; i < 3; ++i) {
      const std::string member = fmt::format("{}-{:016x}", i, i);
      put_file(*disk, fmt::format("/cache/tmp/{}-1", member), "half");
      put_file(*disk, fmt::format("/cache/members/{}.log", member), "notes");
      if (i > 0) put_file(*disk, fmt::format("/cache/members/{}.lock", member), "");
    }
    io::FaultyFileSystem fs({.fail_at = n}, std::move(disk));
    const auto lock = fs.disk().try_lock("/cache/members/2-0000000000000002.lock");
    const auto directory = CacheDirectory::open(fs, "/cache", io::CacheMode::kDirect);
    const bool swept = directory.ok() && (*directory)->sweep().ok();
    EXPECT_EQ(swept, !fs.fault_hit());
    const auto after = open_cache(fs.disk(), "/cache");
    ASSERT_TRUE(succeeded(after->sweep()));
    EXPECT_THAT(names_in(fs.disk(), "/cache/tmp"), ElementsAre("2-0000000000000002-1"));
    EXPECT_THAT(names_in(fs.disk(), "/cache/members"),
                ElementsAre("2-0000000000000002.lock", "2-0000000000000002.log"));
    if (!fs.fault_hit() || ::testing::Test::HasFailure()) break;
  }
}

// Real processes, of which one is killed in the middle.
TEST(CacheDirectoryProcesses, OpenAtOnceAndAreSweptWhenKilled) {
  constexpr int kProcesses = 5;
  const ScratchDirectory scratch;
  const std::string root = scratch.path() + "/cache";
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child > 0) {
      children.push_back(child);
      continue;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto fs = io::open_local_file_system({.engine = io::EngineKind::kThreads, .threads = 1});
    const auto directory = CacheDirectory::open(**fs, root, io::CacheMode::kDirect);
    if (!directory.ok()) ::_exit(1);
    const std::string& member = (*directory)->member();
    const auto lock = (*fs)->try_lock(fmt::format("{}/members/{}.lock", root, member));
    const auto file =
        (*fs)->open(fmt::format("{}/tmp/{}-99", root, member),
                    {.access = io::Access::kWrite, .create = io::Create::kMustNotExist});
    const bool good = lock.ok() && file.ok() && publish(**directory, test_key()).ok();
    if (::write(ready[1], good ? "y" : "n", 1) != 1) ::_exit(2);
    while (true) ::pause();
  }
  ::close(ready[1]);
  std::string answers(kProcesses, ' ');
  for (char& answer : answers) ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answers, std::string(kProcesses, 'y'));
  ::close(ready[0]);

  const auto fs = std::move(*io::open_local_file_system({.threads = 1}));
  const auto directory = open_cache(*fs, root);
  EXPECT_EQ(*read_entry(*directory, test_key()), random_bytes(10'000, 1));
  for (int alive = kProcesses; alive > 0; --alive) {
    ASSERT_TRUE(succeeded(directory->sweep()));
    EXPECT_EQ(names_in(*fs, root + "/tmp").size(), static_cast<size_t>(alive));
    EXPECT_EQ(names_in(*fs, root + "/members").size(), static_cast<size_t>(alive));
    ASSERT_EQ(::kill(children.back(), SIGKILL), 0);
    ASSERT_EQ(::waitpid(children.back(), nullptr, 0), children.back());
    children.pop_back();
  }
  ASSERT_TRUE(succeeded(directory->sweep()));
  EXPECT_THAT(names_in(*fs, root + "/tmp"), IsEmpty());
  EXPECT_THAT(names_in(*fs, root + "/members"), IsEmpty());
}

}  // namespace
}  // namespace penstock::cache
