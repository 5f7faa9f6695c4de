#include "io/faulty_file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "io/file_system_conformance.h"

namespace penstock::io {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;

class FaultlessTarget : public ConformanceTarget {
 public:
  FaultlessTarget() : fs_({}, memory_) { PENSTOCK_EXPECT_OK(memory_.make_directory("/test")); }
  FileSystem& fs() override { return fs_; }
  std::string directory() const override { return "/test"; }

 private:
  MemoryFileSystem memory_;
  FaultyFileSystem fs_;
};

Result<std::unique_ptr<ConformanceTarget>> make_faultless() {
  return std::unique_ptr<ConformanceTarget>(std::make_unique<FaultlessTarget>());
}

INSTANTIATE_TEST_SUITE_P(FaultyWithoutFaults, FileSystemConformance,
                         testing::ValuesIn(conformance_params(make_faultless)), conformance_name);

Result<std::unique_ptr<File>> try_create(FileSystem& fs, const std::string& path) {
  return fs.open(path, {.access = Access::kReadWrite, .create = Create::kIfMissing});
}

TEST(FaultyFileSystem, CountsAndNamesEveryCall) {
  FaultyFileSystem fs(FaultOptions{});
  PENSTOCK_EXPECT_OK(fs.make_directory("/d"));
  const auto file = *try_create(fs, "/d/f");
  std::vector<IoRequest> requests;
  std::byte byte{};
  requests.push_back(IoRequest::write(0, std::span<const std::byte>(&byte, 1), nullptr));
  requests.push_back(IoRequest::read(0, std::span(&byte, 1), nullptr));
  requests.push_back(IoRequest::data_sync(nullptr));
  PENSTOCK_EXPECT_OK(run_all(*file, requests));
  PENSTOCK_EXPECT_OK(file->truncate(0));
  PENSTOCK_EXPECT_OK(file->set_attributes(0600, 1));
  PENSTOCK_EXPECT_OK(file->close());
  PENSTOCK_EXPECT_OK(file->close());
  PENSTOCK_EXPECT_ERROR(file->sync(), kClosed);
  PENSTOCK_EXPECT_OK(fs.rename("/d/f", "/g"));
  PENSTOCK_EXPECT_OK(fs.make_symlink("g", "/link"));
  EXPECT_THAT(fs.trace(),
              ElementsAre("1 make_directory /d", "2 open /d/f", "3 write /d/f", "4 read /d/f",
                          "5 sync /d/f", "6 truncate /d/f", "7 set_attributes /d/f", "8 close /d/f",
                          "9 rename /d/f to /g", "10 make_symlink /link"));
  EXPECT_EQ(fs.calls(), 10u);
  EXPECT_FALSE(fs.fault_hit());
}

TEST(FaultyFileSystem, FailsOneCall) {
  FaultyFileSystem fs({.fail_at = 2});
  PENSTOCK_EXPECT_OK(fs.make_directory("/a"));
  const Result<void> failed = fs.make_directory("/b");
  PENSTOCK_EXPECT_ERROR(failed, kIo);
  EXPECT_EQ(failed.error().os_errno, EIO);
  EXPECT_THAT(failed.error().detail, HasSubstr("make_directory /b (call 2"));
  EXPECT_TRUE(fs.fault_hit());
  EXPECT_EQ(fs.trace().back(), "2 make_directory /b: Input/output error");
  PENSTOCK_EXPECT_OK(fs.make_directory("/b"));  // It had not been made.
}

TEST(FaultyFileSystem, FailsCallsOfOneKindForGood) {
  FaultyFileSystem fs({.fail_at = 2, .only = CallKind::kWrite, .error = ENOSPC, .for_good = true});
  const auto file = *try_create(fs, "/f");
  PENSTOCK_EXPECT_OK(write_string(*file, 0, "abcd"));
  PENSTOCK_EXPECT_OK(file->sync());
  EXPECT_FALSE(fs.fault_hit());
  PENSTOCK_EXPECT_ERROR(write_string(*file, 4, "efgh"), kNoSpace);
  PENSTOCK_EXPECT_ERROR(write_string(*file, 8, "ijkl"), kNoSpace);
  PENSTOCK_EXPECT_OK(file->sync());
}

TEST(FaultyFileSystem, ADeadDiskStaysDead) {
  FaultyFileSystem fs({.fail_at = 2, .for_good = true});
  const auto file = *try_create(fs, "/f");
  PENSTOCK_EXPECT_ERROR(file->sync(), kIo);
  PENSTOCK_EXPECT_ERROR(file->stat(), kIo);
  PENSTOCK_EXPECT_ERROR(fs.stat("/f"), kIo);
  PENSTOCK_EXPECT_ERROR(try_create(fs, "/g"), kIo);
  PENSTOCK_EXPECT_ERROR(file->close(), kIo);
}

TEST(FaultyFileSystem, AFailedWriteHasWrittenHalf) {
  FaultyFileSystem fs({.fail_at = 1, .only = CallKind::kWrite});
  const auto file = *try_create(fs, "/f");
  PENSTOCK_EXPECT_ERROR(write_string(*file, 0, "abcd"), kIo);
  EXPECT_EQ(see(fs, "/f"), "ab");
}

TEST(FaultyFileSystem, AFailedCloseHasClosed) {
  FaultyFileSystem fs({.fail_at = 1, .only = CallKind::kClose});
  const auto file = *try_create(fs, "/f");
  PENSTOCK_EXPECT_ERROR(file->close(), kIo);
  PENSTOCK_EXPECT_ERROR(file->sync(), kClosed);
  PENSTOCK_EXPECT_OK(file->close());
}

TEST(FaultyFileSystem, SubmittedRequestsFailInTheirCompletion) {
  for (uint64_t n = 1; n <= 4; ++n) {
    FaultyFileSystem fs({.fail_at = n + 1});
    const auto file = *try_create(fs, "/f");
    const std::string text = "abcd";
    std::vector<IoRequest> requests;
    for (uint64_t i = 0; i < 4; ++i) {
      requests.push_back(
          IoRequest::write(i, std::as_bytes(std::span(text).subspan(i, 1)), nullptr));
    }
    std::vector<Result<size_t>> answers;
    PENSTOCK_EXPECT_ERROR(run_all(*file, requests, &answers), kIo);
    for (uint64_t i = 1; i <= 4; ++i) EXPECT_EQ(answers[i - 1].ok(), i != n);
    std::string expected = text;
    expected[n - 1] = '\0';
    EXPECT_EQ(see(fs, "/f"), n == 4 ? "abc" : expected);
  }
}

TEST(FaultyFileSystem, FailedRequestsAreWaitedForByClose) {
  FaultyFileSystem fs({.fail_at = 2, .for_good = true});
  auto file = *try_create(fs, "/f");
  std::atomic<int> completed = 0;
  const auto submitter = std::this_thread::get_id();
  for (int i = 0; i < 100; ++i) {
    file->submit(IoRequest::sync([&](Result<size_t> answer) {
      PENSTOCK_EXPECT_ERROR(answer, kIo);
      EXPECT_NE(std::this_thread::get_id(), submitter);
      ++completed;
    }));
  }
  file.reset();
  EXPECT_EQ(completed, 100);
}

TEST(FaultyFileSystem, RetryingAFailedSyncLosesData) {
  for (const bool submitted : {false, true}) {
    FaultyFileSystem fs({.fail_at = 1, .only = CallKind::kSync});
    const auto file = *try_create(fs, "/f");
    PENSTOCK_EXPECT_OK(fs.sync_directory("/"));
    PENSTOCK_EXPECT_OK(write_string(*file, 0, "abc"));
    std::vector<IoRequest> requests;
    requests.push_back(IoRequest::sync(nullptr));
    PENSTOCK_EXPECT_ERROR(submitted ? run_all(*file, requests) : file->data_sync(), kIo);
    PENSTOCK_EXPECT_OK(file->sync());
    EXPECT_EQ(see(*fs.power_cut(0), "/f"), "");
  }
}

TEST(FaultyFileSystem, RetryingAFailedSyncOfEverythingLosesData) {
  FaultyFileSystem fs({.fail_at = 1, .only = CallKind::kSyncFileSystem});
  PENSTOCK_EXPECT_OK(write_string(**try_create(fs, "/f"), 0, "abc"));
  PENSTOCK_EXPECT_ERROR(fs.sync_file_system("/"), kIo);
  PENSTOCK_EXPECT_OK(fs.sync_file_system("/"));
  EXPECT_EQ(see(*fs.power_cut(0), "/f"), "");
}

TEST(FaultyFileSystem, AfterAPowerCutNothingHappens) {
  FaultyFileSystem fs({.cut_at = 4});
  const auto file = *try_create(fs, "/f");
  PENSTOCK_EXPECT_OK(write_string(*file, 0, "abc"));
  PENSTOCK_EXPECT_OK(fs.sync_file_system("/"));
  PENSTOCK_EXPECT_ERROR(write_string(*file, 0, "xyz"), kIo);
  EXPECT_TRUE(fs.fault_hit());
  PENSTOCK_EXPECT_ERROR(file->truncate(0), kIo);
  PENSTOCK_EXPECT_ERROR(file->sync(), kIo);
  PENSTOCK_EXPECT_ERROR(fs.rename("/f", "/g"), kIo);
  PENSTOCK_EXPECT_ERROR(file->close(), kIo);
  EXPECT_EQ(see(*fs.power_cut(0), "/f"), "abc");
  EXPECT_EQ(see(*fs.power_cut(1), "/f"), "xyz");  // The write that was under way.
  for (uint64_t seed = 0; seed < 30; ++seed) {
    EXPECT_THAT(see(*fs.power_cut(seed), "/f"), AnyOf("abc", "xyz"));
  }
}

TEST(FaultyFileSystem, ACutChangeOfANameMayHaveHappened) {
  FaultyFileSystem fs({.cut_at = 2});
  PENSTOCK_EXPECT_OK(write_file_durably(fs.disk(), "/f", "abc"));
  PENSTOCK_EXPECT_OK(fs.stat("/f"));
  PENSTOCK_EXPECT_ERROR(fs.rename("/f", "/g"), kIo);
  PENSTOCK_EXPECT_ERROR(fs.remove("/g"), kIo);
  EXPECT_EQ(see(*fs.power_cut(0), "/f"), "abc");
  EXPECT_EQ(see(*fs.power_cut(1), "/g"), "abc");
}

TEST(FaultyFileSystem, AFailedChangeOfAttributesOrALinkDoesNothing) {
  FaultyFileSystem fs({.fail_at = 1, .only = CallKind::kSetAttributes});
  const auto file = *try_create(fs, "/f");
  const FileInfo before = *file->stat();
  PENSTOCK_EXPECT_ERROR(file->set_attributes(0600, 1), kIo);
  EXPECT_EQ(file->stat()->mode, before.mode);
  EXPECT_EQ(file->stat()->mtime_ns, before.mtime_ns);
  PENSTOCK_EXPECT_OK(file->set_attributes(0600, 1));
  FaultyFileSystem links({.fail_at = 1, .only = CallKind::kMakeSymlink, .error = ENOSPC});
  PENSTOCK_EXPECT_ERROR(links.make_symlink("x", "/link"), kNoSpace);
  PENSTOCK_EXPECT_ERROR(links.disk().stat_link("/link"), kNotFound);
  PENSTOCK_EXPECT_OK(links.make_symlink("x", "/link"));
}

TEST(FaultyFileSystem, ACutChangeOfAttributesOrALinkMayHaveHappened) {
  FaultyFileSystem fs({.cut_at = 1, .only = CallKind::kSetAttributes});
  PENSTOCK_EXPECT_OK(write_file_durably(fs.disk(), "/f", "abc"));
  PENSTOCK_EXPECT_ERROR((*try_create(fs, "/f"))->set_attributes(0600, 1), kIo);
  EXPECT_EQ(fs.power_cut(0)->stat("/f")->mode, 0644u);
  EXPECT_EQ(fs.power_cut(1)->stat("/f")->mode, 0600u);
  FaultyFileSystem links({.cut_at = 1, .only = CallKind::kMakeSymlink});
  PENSTOCK_EXPECT_ERROR(links.make_symlink("x", "/link"), kIo);
  PENSTOCK_EXPECT_ERROR(links.power_cut(0)->stat_link("/link"), kNotFound);
  EXPECT_EQ(*links.power_cut(1)->read_link("/link"), "x");
}

TEST(FaultyFileSystem, ACutSyncHasSyncedNothingForSure) {
  FaultyFileSystem fs({.cut_at = 1, .only = CallKind::kSyncDirectory});
  PENSTOCK_EXPECT_OK(fs.make_directory("/d"));
  PENSTOCK_EXPECT_ERROR(fs.sync_directory("/"), kIo);
  PENSTOCK_EXPECT_ERROR(fs.power_cut(0)->stat("/d"), kNotFound);
  PENSTOCK_EXPECT_OK(fs.power_cut(1)->stat("/d"));
}

TEST(FaultyFileSystem, WriteFileDurablyLeavesOldOrNew) {
  MemoryFileSystem prepared;
  const std::string old(700, 'o');
  const std::string fresh(5000, 'n');
  PENSTOCK_EXPECT_OK(write_file_durably(prepared, "/f", old));
  for (const bool cut : {false, true}) {
    for (uint64_t n = 1;; ++n) {
      FaultyFileSystem fs(cut ? FaultOptions{.cut_at = n} : FaultOptions{.fail_at = n},
                          prepared.clone());
      const bool saved = write_file_durably(fs, "/f", fresh).ok();
      if (!cut) {
        const std::string seen = see(fs.disk(), "/f");
        EXPECT_TRUE(seen == fresh || (!saved && seen == old)) << fs.trace().back();
      }
      for (uint64_t seed = 0; seed < 40; ++seed) {
        SCOPED_TRACE(testing::Message() << "cut " << cut << " call " << n << " seed " << seed);
        const std::string seen = see(*fs.power_cut(seed), "/f");
        EXPECT_TRUE(seen == fresh || (!saved && seen == old)) << fs.trace().back();
      }
      if (!fs.fault_hit()) {
        EXPECT_GE(n, 7u);  // open, write, sync, close, rename, sync_directory: each failed once.
        EXPECT_TRUE(saved);
        break;
      }
      EXPECT_FALSE(saved);
    }
  }
}

// The order of steps that makes a directory of files durable under its final name, where each step
// can be left out to see that it is needed.
enum class Step { kNone, kSyncFile, kSyncManifest, kSyncTemporary, kSyncParent };

Result<void> write_member(FileSystem& fs, const std::string& path, std::string_view text,
                          bool sync) {
  const auto file =
      PENSTOCK_TRY(fs.open(path, {.access = Access::kWrite, .create = Create::kMustNotExist}));
  const std::string padded = std::string(text) + std::string(100, '#');
  PENSTOCK_TRY(write_string(*file, 0, padded));
  PENSTOCK_TRY(file->truncate(text.size()));
  if (sync) PENSTOCK_TRY(file->sync());
  return file->close();
}

Result<void> save(FileSystem& fs, const std::string& text, Step left_out) {
  PENSTOCK_TRY(fs.make_directory("/new.tmp"));
  PENSTOCK_TRY(fs.sync_directory("/"));
  PENSTOCK_TRY(write_member(fs, "/new.tmp/data", text, left_out != Step::kSyncFile));
  const std::string manifest = std::to_string(text.size());
  PENSTOCK_TRY(write_member(fs, "/new.tmp/manifest", manifest, left_out != Step::kSyncManifest));
  if (left_out != Step::kSyncTemporary) PENSTOCK_TRY(fs.sync_directory("/new.tmp"));
  PENSTOCK_TRY(fs.rename("/new.tmp", "/new"));
  if (left_out != Step::kSyncParent) PENSTOCK_TRY(fs.sync_directory("/"));
  return remove_tree(fs, "/old");
}

bool holds(FileSystem& fs, const std::string& directory, const std::string& text) {
  return see(fs, directory + "/data") == text &&
         see(fs, directory + "/manifest") == std::to_string(text.size());
}

// Saves over and over, with a fault at each call in turn, and counts the states in which neither a
// whole old nor a whole new directory is found, or a saved one is not, or /new is not whole.
uint64_t losses(const MemoryFileSystem& prepared, Step left_out, bool cut) {
  const std::string text(6000, 'n');
  uint64_t lost = 0;
  for (uint64_t n = 1;; ++n) {
    FaultyFileSystem fs(cut ? FaultOptions{.cut_at = n} : FaultOptions{.fail_at = n},
                        prepared.clone());
    const bool saved = save(fs, text, left_out).ok();
    for (uint64_t seed = 0; seed < 60; ++seed) {
      const auto after = fs.power_cut(seed);
      const bool fresh = holds(*after, "/new", text);
      const bool whole = fresh || !after->stat("/new").ok();
      const bool found = fresh || (!saved && holds(*after, "/old", "old"));
      if (!whole || !found) ++lost;
    }
    if (!fs.fault_hit()) return lost;
  }
}

TEST(FaultyFileSystem, TheOrderThatSurvivesAlwaysDoesAndEachStepIsNeeded) {
  MemoryFileSystem prepared;
  PENSTOCK_EXPECT_OK(prepared.make_directory("/old"));
  PENSTOCK_EXPECT_OK(write_member(prepared, "/old/data", "old", true));
  PENSTOCK_EXPECT_OK(write_member(prepared, "/old/manifest", "3", true));
  PENSTOCK_EXPECT_OK(prepared.sync_file_system("/"));
  for (const bool cut : {false, true}) {
    EXPECT_EQ(losses(prepared, Step::kNone, cut), 0u);
    for (const Step step :
         {Step::kSyncFile, Step::kSyncManifest, Step::kSyncTemporary, Step::kSyncParent}) {
      EXPECT_GT(losses(prepared, step, cut), 0u) << "step " << static_cast<int>(step);
    }
  }
}

}  // namespace
}  // namespace penstock::io
