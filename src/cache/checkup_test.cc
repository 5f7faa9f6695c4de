#include "cache/checkup.h"

#include <atomic>
#include <cstddef>
#include <cstring>

#include "cache/entry_header.h"
#include "cache/entry_look.h"
#include "cache/log_record.h"
#include "cache/tool_test_support.h"
#include "io/faulty_file_system.h"

namespace penstock::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Kind = CheckupFinding::Kind;

class CheckupTest : public CacheToolTest {
 protected:
  CheckupReport check() {
    const Result<CheckupReport> report = check_directory(*directory_, options_);
    EXPECT_THAT(report, IsOk());
    return report.ok() ? *report : CheckupReport();
  }
  void repair() {
    options_.drop = [this](const EntryName& name) { return directory_->drop(name); };
    options_.sweep = [this] { return directory_->sweep(); };
  }

  CheckupOptions options_;
};

TEST_F(CheckupTest, AHealthyDirectory) {
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < 50; ++i) bytes += add("tree:/data/x", i * kBlockBytes).file_bytes();
  CheckupProgress last;
  uint64_t told = 0;
  options_.on_progress = [&](const CheckupProgress& progress) {
    last = progress;
    ++told;
  };
  const CheckupReport report = check();
  EXPECT_TRUE(report.healthy());
  EXPECT_EQ(report.entries, 50u);
  EXPECT_EQ(report.bytes, bytes);
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_EQ(told, 50u);
  EXPECT_EQ(last.entries, last.entries_total);
  EXPECT_EQ(last.bytes, bytes);
}

TEST_F(CheckupTest, AnEmptyDirectoryIsHealthy) {
  EXPECT_TRUE(check().healthy());
}

// Wherever one bit is flipped, the check finds it.
TEST_F(CheckupTest, FindsAFlippedBitAnywhere) {
  const EntryName name = add("tree:/data/x", 0, 9000);
  for (uint64_t offset = 0; offset < name.file_bytes(); offset += 97) {
    flip(name, offset);
    const CheckupReport report = check();
    EXPECT_FALSE(report.healthy()) << offset;
    ASSERT_THAT(report.findings, SizeIs(1)) << offset;
    EXPECT_EQ(report.findings[0].path, directory_->path_of(name));
    flip(name, offset);
  }
  EXPECT_TRUE(check().healthy());
}

TEST_F(CheckupTest, FindsTornCutAndMisnamedEntries) {
  add("tree:/data/good");
  const EntryName torn = add("tree:/data/torn");
  cut(torn, torn.file_bytes() - kBlockBytes);
  const EntryName empty = add("tree:/data/empty");
  cut(empty, 0);
  const EntryName grown = add("tree:/data/grown");
  cut(grown, grown.file_bytes() + kBlockBytes);
  const EntryName moved = add("tree:/data/moved");
  EntryName other = moved;
  other.id.low ^= 1;
  ASSERT_THAT(fs_.rename(directory_->path_of(moved), directory_->path_of(other)), IsOk());

  const CheckupReport report = check();
  EXPECT_EQ(report.damaged, 4u);
  EXPECT_EQ(report.entries, 1u);
  EXPECT_EQ(report.removed, 0u);
  for (const CheckupFinding& finding : report.findings) {
    EXPECT_EQ(finding.kind, Kind::kDamaged) << finding.path;
    EXPECT_FALSE(finding.why.empty());
    EXPECT_FALSE(finding.removed);
  }
  EXPECT_TRUE(is_there(torn));
}

TEST_F(CheckupTest, RepairRemovesWhatIsDamagedAndNothingElse) {
  const EntryName good = add("tree:/data/good");
  const EntryName bad = add("tree:/data/bad");
  flip(bad, 5000);
  plant("entries/ab/note.txt");
  repair();
  const CheckupReport report = check();
  EXPECT_EQ(report.damaged, 1u);
  EXPECT_EQ(report.removed, 1u);
  EXPECT_EQ(report.foreign, 1u);
  EXPECT_FALSE(report.healthy());  // Somebody must look at the planted file.
  EXPECT_TRUE(is_there(good));
  EXPECT_FALSE(is_there(bad));
  EXPECT_TRUE(is_there("entries/ab/note.txt"));
  ASSERT_THAT(fs_.remove(std::string(kRoot) + "/entries/ab/note.txt"), IsOk());
  EXPECT_TRUE(check().healthy());
}

TEST_F(CheckupTest, ADropThatFailsIsTold) {
  flip(add("tree:/data/bad"), 5000);
  options_.drop = [](const EntryName&) { return errno_error(EROFS, "remove"); };
  const CheckupReport report = check();
  EXPECT_EQ(report.removed, 0u);
  EXPECT_FALSE(report.healthy());
  ASSERT_THAT(report.findings, SizeIs(1));
  EXPECT_THAT(report.findings[0].why, HasSubstr("could not be removed"));
}

TEST_F(CheckupTest, FindsForeignFilesEverywhere) {
  for (const char* path : {"README", "entries/loose", "entries/ab/x", "entries/zz/y", "tmp/mine",
                           "members/notes.txt", "members/1-00.log"}) {
    plant(path);
  }
  ASSERT_THAT(
      fs_.make_symlink("/etc/passwd", std::string(kRoot) + "/entries/ab/" + test_name(0xab).text()),
      IsOk());
  const CheckupReport report = check();
  EXPECT_EQ(report.foreign, 8u) << report.findings.size();
  EXPECT_EQ(report.damaged, 0u);
  EXPECT_FALSE(report.healthy());
}

TEST_F(CheckupTest, LeftoversAreNamedAndNoProblem) {
  plant("tmp/123-00112233aabbccdd-7");
  plant("members/123-00112233aabbccdd.lock", "");
  plant("members/123-00112233aabbccdd.log", "");
  const CheckupReport report = check();
  EXPECT_EQ(report.leftovers, 3u);
  EXPECT_TRUE(report.healthy());
  EXPECT_TRUE(is_there("tmp/123-00112233aabbccdd-7"));
  repair();
  const CheckupReport repaired = check();
  EXPECT_EQ(repaired.leftovers, 3u);
  for (const CheckupFinding& finding : repaired.findings) EXPECT_TRUE(finding.removed);
  EXPECT_FALSE(is_there("tmp/123-00112233aabbccdd-7"));
  EXPECT_EQ(check().leftovers, 0u);
}

// Its log waits for the next process that evicts.
TEST_F(CheckupTest, WhoLeftInOrderLeftNothingOver) {
  const std::string name = "members/123-00112233aabbccdd";
  std::string log;
  append_record(log, Note{Note::Kind::kUsed, test_id(1), 5});
  plant(name + ".lock", "");
  plant(name + ".log", log);
  EXPECT_EQ(check().leftovers, 2u);
  append_record(log, Left{});
  plant(name + ".log", log);
  EXPECT_EQ(check().leftovers, 0u);
  plant("tmp/123-00112233aabbccdd-7");
  EXPECT_EQ(check().leftovers, 3u);
}

TEST_F(CheckupTest, FilesOfTheLivingAreNoLeftovers) {
  plant("tmp/123-00112233aabbccdd-7");
  const auto lock = fs_.try_lock(std::string(kRoot) + "/members/123-00112233aabbccdd.lock");
  ASSERT_THAT(lock, IsOk());
  repair();
  EXPECT_EQ(check().leftovers, 0u);
  EXPECT_TRUE(is_there("tmp/123-00112233aabbccdd-7"));
}

TEST_F(CheckupTest, EntriesOfANewerVersionAreLeftAlone) {
  const EntryName name = add("tree:/data/x");
  auto file = fs_.open(directory_->path_of(name), {.access = io::Access::kReadWrite});
  ASSERT_THAT(file, IsOk());
  Bytes bytes(name.file_bytes());
  ASSERT_THAT((*file)->read(0, bytes), IsOk());
  const uint32_t version = kEntryVersion + 1;
  std::memcpy(bytes.data() + offsetof(HeaderFields, version), &version, sizeof(version));
  seal_header(bytes);
  ASSERT_THAT((*file)->write(0, bytes), IsOk());
  repair();
  const CheckupReport report = check();
  EXPECT_EQ(report.newer, 1u);
  EXPECT_EQ(report.damaged, 0u);
  EXPECT_FALSE(report.healthy());
  EXPECT_TRUE(is_there(name));
}

TEST_F(CheckupTest, ADriveThatFailsIsToldApartFromDamage) {
  add("tree:/data/x");
  for (uint64_t n = 1; n < 10; ++n) {
    io::FaultyFileSystem faulty({.fail_at = n, .only = io::CallKind::kRead, .for_good = true}, fs_);
    auto failing = CacheDirectory::open(faulty, kRoot, io::CacheMode::kDirect, true);
    if (!failing.ok()) continue;  // Reading the marker was the one that failed.
    uint64_t drops = 0;
    options_.drop = [&](const EntryName&) {
      ++drops;
      return Result<void>();
    };
    const Result<CheckupReport> report = check_directory(**failing, options_);
    ASSERT_THAT(report, IsOk());
    EXPECT_EQ(report->unreadable, 1u);
    EXPECT_EQ(report->damaged, 0u);
    EXPECT_EQ(drops, 0u);
    EXPECT_FALSE(report->healthy());
    return;
  }
  FAIL() << "no read of an entry was reached";
}

// Entries come and go while it is checked: no damage.
TEST_F(CheckupTest, OthersMayUseItMeanwhile) {
  std::vector<EntryName> names;
  for (uint64_t i = 0; i < 200; ++i) names.push_back(add("tree:/data/x", i * kBlockBytes, 5000));
  std::atomic<size_t> next = 0;
  options_.on_progress = [&](const CheckupProgress&) {
    // Each of these may be read right now by another thread.
    const size_t at = next++;
    if (at % 2 == 0 && at / 2 < names.size()) {
      (void)directory_->drop(names[names.size() - 1 - at / 2]);
    }
    if (at % 2 == 1) add("tree:/data/new", at * kBlockBytes, 5000);
  };
  for (int round = 0; round < 3; ++round) {
    const CheckupReport report = check();
    EXPECT_TRUE(report.healthy()) << report.findings[0].path << " " << report.findings[0].why;
  }
}

TEST_F(CheckupTest, StopsWhenAsked) {
  for (uint64_t i = 0; i < 200; ++i) add("tree:/data/x", i * kBlockBytes, 5000);
  std::stop_source source;
  options_.stop = source.get_token();
  options_.jobs = 1;
  options_.on_progress = [&](const CheckupProgress&) { source.request_stop(); };
  const CheckupReport report = check();
  EXPECT_TRUE(report.stopped);
  EXPECT_LT(report.entries, 10u);
}

TEST_F(CheckupTest, KeepsABoundedNumberOfFindings) {
  for (uint64_t i = 0; i < 1100; ++i) {
    plant("entries/ab/" + std::to_string(i));
  }
  const CheckupReport report = check();
  EXPECT_EQ(report.foreign, 1100u);
  EXPECT_THAT(report.findings, SizeIs(1000));
}

}  // namespace
}  // namespace penstock::cache
