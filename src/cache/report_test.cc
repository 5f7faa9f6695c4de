#include "cache/report.h"

#include "cache/clear.h"
#include "cache/entry_look.h"
#include "cache/tool_test_support.h"

namespace penstock::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ReportTest : public CacheToolTest {
 protected:
  DirectoryReport report() {
    const Result<DirectoryReport> made = report_directory(*directory_, options_);
    EXPECT_THAT(made, IsOk());
    return made.ok() ? *made : DirectoryReport();
  }
  ReportOptions options_;
};

TEST_F(ReportTest, AnEmptyDirectory) {
  const DirectoryReport empty = report();
  EXPECT_EQ(empty.path, kRoot);
  EXPECT_EQ(empty.all.entries, 0u);
  EXPECT_FALSE(empty.state);
  EXPECT_THAT(empty.members, IsEmpty());
  EXPECT_THAT(empty.sources, IsEmpty());
  EXPECT_GT(empty.space.total_bytes, 0u);
}

TEST_F(ReportTest, SumsEntriesAndSources) {
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < 3; ++i) {
    bytes += add("s3://host/b/train/x", i * 256 * 1024, 256 * 1024).file_bytes();
  }
  const uint64_t small = add("tree:/data/y", 0, 64 * 1024).file_bytes();
  const EntryName bad = add("tree:/data/z");
  flip(bad, 10);
  const DirectoryReport made = report();
  EXPECT_EQ(made.all.entries, 5u);
  EXPECT_EQ(made.all.bytes, bytes + small + bad.file_bytes());
  EXPECT_EQ(made.small.entries, 1u);
  EXPECT_EQ(made.small.bytes, small);
  EXPECT_EQ(made.looked_at, 5u);
  EXPECT_EQ(made.damaged, 1u);
  EXPECT_THAT(made.sources, ElementsAre(SourceUse{"s3://host/b/train/", 3, 3 * 256 * 1024},
                                        SourceUse{"tree:/data/", 1, 64 * 1024}));
  EXPECT_THAT(made.objects, IsEmpty());
}

TEST_F(ReportTest, ObjectsByVersion) {
  add("tree:/data/b", 0, 5000, "new");
  add("tree:/data/b", 8192, 5000, "new");
  add("tree:/data/b", 0, 5000, "old");
  add("tree:/data/a", 0, 100);
  options_.objects = true;
  const std::vector<ObjectUse> objects = report().objects;
  ASSERT_THAT(objects, SizeIs(3));
  EXPECT_EQ(objects[0].url, "tree:/data/a");
  EXPECT_EQ(objects[0].cached_bytes, 100u);
  EXPECT_EQ(objects[0].size, kObjectBytes);
  EXPECT_EQ(objects[1].etag, "new");
  EXPECT_EQ(objects[1].cached_bytes, 10'000u);
  EXPECT_EQ(objects[1].entries, 2u);
  EXPECT_EQ(objects[2].etag, "old");
}

TEST_F(ReportTest, ObjectsAreBounded) {
  for (uint64_t i = 0; i < 20; ++i) add("tree:/data/" + std::to_string(i), 0, 100);
  options_.objects = true;
  options_.objects_max = 15;
  const DirectoryReport made = report();
  EXPECT_THAT(made.objects, SizeIs(15));
  EXPECT_EQ(made.objects_left_out, 5u);
}

TEST_F(ReportTest, ASampleIsScaledUp) {
  for (uint64_t i = 0; i < 60; ++i) add("tree:/data/x", i * kBlockBytes, 4000);
  options_.headers_max = 20;
  const DirectoryReport made = report();
  EXPECT_EQ(made.looked_at, 20u);
  EXPECT_THAT(made.sources, ElementsAre(SourceUse{"tree:/data/", 60, 240'000}));
}

TEST_F(ReportTest, MembersAndState) {
  const auto alive = fs_.try_lock(std::string(kRoot) + "/members/77-00112233aabbccdd.lock");
  ASSERT_THAT(alive, IsOk());
  plant("members/78-00112233aabbccdd.lock", "");
  State state;
  state.evictor = "77-00112233aabbccdd";
  state.limit = 1234;
  plant("state", encode_state(state));
  plant("entries/note");
  plant("note");
  const DirectoryReport made = report();
  ASSERT_THAT(made.members, SizeIs(1));
  EXPECT_EQ(made.members[0].name, "77-00112233aabbccdd");
  EXPECT_TRUE(made.members[0].evictor);
  ASSERT_TRUE(made.state);
  EXPECT_EQ(made.state->limit, 1234u);
  EXPECT_EQ(made.foreign, 2u);
}

TEST_F(ReportTest, ADamagedStateIsNone) {
  plant("state", "nonsense");
  EXPECT_FALSE(report().state);
}

TEST_F(ReportTest, StopsWhenAsked) {
  for (uint64_t i = 0; i < 20; ++i) add("tree:/data/x", i * kBlockBytes, 4000);
  std::stop_source source;
  source.request_stop();
  options_.stop = source.get_token();
  EXPECT_THAT(report_directory(*directory_, options_), FailsWith(ErrorCode::kCancelled));
}

class ClearTest : public CacheToolTest {
 protected:
  ClearTest() {
    options_.drop = [this](const EntryName& name) { return directory_->drop(name); };
  }
  ClearReport clear(const std::vector<std::string>& sources) {
    options_.sources.clear();
    for (const std::string& source : sources) options_.sources.emplace_back(source);
    const Result<ClearReport> cleared = clear_entries(*directory_, options_);
    EXPECT_THAT(cleared, IsOk());
    return cleared.ok() ? *cleared : ClearReport();
  }
  ClearOptions options_;
};

TEST_F(ClearTest, Everything) {
  const EntryName good = add("tree:/data/x");
  const EntryName bad = add("tree:/data/y");
  flip(bad, 10);
  plant("entries/ab/note");
  const ClearReport cleared = clear({});
  EXPECT_EQ(cleared.totals.removed.entries, 2u);
  EXPECT_EQ(cleared.totals.removed.bytes, good.file_bytes() + bad.file_bytes());
  EXPECT_FALSE(is_there(good));
  EXPECT_FALSE(is_there(bad));
  EXPECT_TRUE(is_there("entries/ab/note"));
}

TEST_F(ClearTest, OneSourceOnly) {
  const EntryName in = add("s3://h/b/train/a/1");
  const EntryName beside = add("s3://h/b/training/1");
  const EntryName bad = add("s3://h/b/train/a/2");
  flip(bad, 10);
  const ClearReport cleared = clear({"s3://h/b/train"});
  EXPECT_EQ(cleared.totals.removed.entries, 1u);
  EXPECT_EQ(cleared.totals.kept.entries, 2u);
  EXPECT_EQ(cleared.unreadable, 1u);
  EXPECT_FALSE(is_there(in));
  EXPECT_TRUE(is_there(beside));
  EXPECT_TRUE(is_there(bad));
}

TEST(IsFrom, ObjectsFoldersAndPatterns) {
  const auto from = [](const char* source, const char* url) {
    return is_from({Glob(source)}, url);
  };
  EXPECT_TRUE(from("s3://h/b/train", "s3://h/b/train"));
  EXPECT_TRUE(from("s3://h/b/train", "s3://h/b/train/x/y"));
  EXPECT_TRUE(from("s3://h/b/train/", "s3://h/b/train/x/y"));
  EXPECT_FALSE(from("s3://h/b/train", "s3://h/b/train-1"));
  EXPECT_TRUE(from("s3://h/b/", "s3://h/b/x"));
  EXPECT_TRUE(from("s3://h/b/tr*", "s3://h/b/train/x"));
  EXPECT_TRUE(from("tree:/data/*.tar", "tree:/data/x.tar"));
  EXPECT_FALSE(from("tree:/data/*.tar", "tree:/data/y/x.tar"));
  EXPECT_FALSE(from("tree:/data", "s3://h/tree:/data"));
}

TEST_F(ClearTest, FailuresAreCountedAndNamed) {
  add("tree:/data/x");
  add("tree:/data/y");
  options_.drop = [](const EntryName&) { return errno_error(EACCES, "remove it"); };
  const ClearReport cleared = clear({});
  EXPECT_EQ(cleared.failed, 2u);
  EXPECT_EQ(cleared.totals.removed.entries, 0u);
  EXPECT_EQ(cleared.first_failure.code, ErrorCode::kPermission);
}

TEST_F(ClearTest, StopsWhenAsked) {
  for (uint64_t i = 0; i < 200; ++i) add("tree:/data/x", i * kBlockBytes, 100);
  std::stop_source source;
  options_.stop = source.get_token();
  options_.jobs = 1;
  options_.on_progress = [&](const ClearProgress&) { source.request_stop(); };
  const ClearReport cleared = clear({});
  EXPECT_TRUE(cleared.stopped);
  EXPECT_LT(cleared.totals.removed.entries, 10u);
}

// Reading only what is needed of the header must not depend on how long it is.
TEST_F(ClearTest, EntriesWithLargeHeadersAreIdentified) {
  const std::string url = "s3://h/b/" + std::string(5000, 'k');
  const EntryKey key{{url, std::string(1000, 'e'), uint64_t{1} << 40}, 0, 16 << 20};
  Bytes entry = make_entry(key);
  ASSERT_THAT(directory_->publish(name_of(key), std::span(entry)), IsOk());
  const Result<EntryKey> found = identify_entry(*directory_, name_of(key));
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(*found, key);
}

}  // namespace
}  // namespace penstock::cache
