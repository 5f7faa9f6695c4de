// Links, names and keys that one side cannot have.
#include "sync/odd_file_systems.h"
#include "sync/test_support.h"

namespace penstock::sync {

namespace {

using io::MemoryFileSystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

TEST(Run, LinksToFilesBecomeObjectsAndOthersAreSkipped) {
  MemoryFileSystem fs;
  write_file(fs, "/secret", "secret");
  write_file(fs, "/from/d/f", "effe");
  ASSERT_THAT(fs.make_symlink("d/f", "/from/inside"), IsOk());
  ASSERT_THAT(fs.make_symlink("/secret", "/from/out"), IsOk());
  ASSERT_THAT(fs.make_symlink("d", "/from/to a directory"), IsOk());
  ASSERT_THAT(fs.make_symlink("nowhere", "/from/dangling"), IsOk());
  const auto from = tree_place(fs, "/from");
  const auto to = store_place(store::make_memory_store());
  const Report report = run_ok(*from, *to, small_options());
  EXPECT_EQ(objects_of(*to->store), (Tree{{"d/f", "effe"}, {"inside", "effe"}}));
  EXPECT_EQ(report.skipped, 3u);
  EXPECT_THAT(skipped_keys(report), UnorderedElementsAre("out", "to a directory", "dangling"));
}

TEST(Run, LinksAtTheTargetAreReplacedNotFollowed) {
  MemoryFileSystem fs;
  write_file(fs, "/secret", "secret");
  write_file(fs, "/from/f", "new");
  ASSERT_THAT(fs.make_directory("/to"), IsOk());
  ASSERT_THAT(fs.make_symlink("/secret", "/to/f"), IsOk());
  ASSERT_THAT(fs.make_symlink("old", "/to/link"), IsOk());
  ASSERT_THAT(fs.make_symlink("new", "/from/link"), IsOk());
  const auto from = tree_place(fs, "/from");
  const auto to = tree_place(fs, "/to");
  run_ok(*from, *to, small_options());
  EXPECT_EQ(tree_of(fs, "/to"), (Tree{{"f", "new"}, {"link", "-> new"}}));
  EXPECT_EQ(*io::read_file(fs, "/secret", 100), "secret");
}

TEST(Run, DirectoriesAtTheTargetThatAreLinksAreNotEntered) {
  MemoryFileSystem fs;
  write_file(fs, "/elsewhere/keep", "keep");
  write_file(fs, "/from/d/f", "new");
  write_file(fs, "/from/g", "new");
  ASSERT_THAT(fs.make_directory("/to"), IsOk());
  ASSERT_THAT(fs.make_symlink("/elsewhere", "/to/d"), IsOk());
  const auto from = tree_place(fs, "/from");
  const auto to = tree_place(fs, "/to");
  const Result<Report> report = run(*from, *to, small_options());
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(failed_keys(*report), ElementsAre("d/"));
  EXPECT_EQ(tree_of(fs, "/elsewhere"), (Tree{{"keep", "keep"}}));
  EXPECT_EQ(tree_of(fs, "/to")["g"], "new");
  Options options = small_options();
  options.delete_extra = true;  // Then the link goes, and only the link.
  run_ok(*from, *to, options);
  EXPECT_EQ(tree_of(fs, "/to"), tree_of(fs, "/from"));
  EXPECT_EQ(tree_of(fs, "/elsewhere"), (Tree{{"keep", "keep"}}));
}

TEST(Run, KeysThatATreeCannotHoldAreFailuresOfTheirOwn) {
  MemoryFileSystem fs;
  const std::string long_part(256, 'x');
  const auto from = memory_place({{"a", "file"},
                                  {"a-b", "fine"},
                                  {"a.txt", "fine"},
                                  {"a/b", "below a file"},
                                  {"a/c/d", "below a file"},
                                  {"fine", "fine"},
                                  {long_part, "too long"},
                                  {"d/" + long_part + "/f", "too long"},
                                  {".penstock-tmp-1", "hidden"},
                                  {"d/.penstock-tmp-2/f", "hidden"}});
  const auto to = tree_place(fs, "/to", true);
  const Result<Report> report = run(*from, *to, small_options());
  ASSERT_THAT(report, IsOk());
  // Each of those below a name that a file has, too.
  EXPECT_THAT(failed_keys(*report),
              UnorderedElementsAre("a/b", "a/c/d", long_part, "d/" + long_part + "/",
                                   ".penstock-tmp-1", "d/.penstock-tmp-2/"));
  EXPECT_THAT(failures_of(*report), HasSubstr("'a' and 'a/' cannot both be in /to"));
  for (const Failure& failure : report->failures) {
    EXPECT_EQ(failure.error.code, ErrorCode::kInvalid) << failure.key;
  }
  const Tree tree = tree_of(fs, "/to");
  EXPECT_EQ(tree, (Tree{{"a", "file"}, {"a-b", "fine"}, {"a.txt", "fine"}, {"fine", "fine"}}));
}

// What S3 may list, and no store can name.
class OddKeysStore : public PassingStore {
 public:
  OddKeysStore() : PassingStore(store::make_memory_store()) {}
  void async_list(store::ListOptions options, store::Done<store::ListPage> done) override {
    const bool at_top = options.prefix.empty();
    PassingStore::async_list(std::move(options),
                             [this, at_top, done](Result<store::ListPage> page) {
                               if (at_top && page.ok()) page->odd = odd;
                               done(std::move(page));
                             });
  }

  void add(const std::string& key, uint64_t size) {
    odd.emplace_back().key = key;
    odd.back().size = size;
  }

  std::vector<store::ObjectInfo> odd;
};

TEST(Run, FolderMarkersAreSkippedAndKeysWithOddPartsAreFailures) {
  MemoryFileSystem fs;
  auto store = std::make_unique<OddKeysStore>();
  for (const char* key : {"dir/", "a//", "../up", "../", ""}) store->add(key, 0);
  const auto from = store_place(std::move(store));
  ASSERT_THAT(from->store->put("k", bytes_of("v")), IsOk());
  const auto to = tree_place(fs, "/to", true);
  const Result<Report> report = run(*from, *to, small_options());
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(skipped_keys(*report), UnorderedElementsAre("dir/"));
  EXPECT_THAT(failed_keys(*report), UnorderedElementsAre("a//", "../up", "../"));
  EXPECT_EQ(tree_of(fs, "/to"), (Tree{{"k", "v"}}));
}

TEST(Run, BytesUnderAKeyThatEndsWithASlashAreAFailure) {
  for (const bool to_tree : {true, false}) {
    MemoryFileSystem fs;
    auto store = std::make_unique<OddKeysStore>();
    store->add("dir/", 7);
    store->add("", 9);
    const auto from = store_place(std::move(store));
    ASSERT_THAT(from->store->put("k", bytes_of("v")), IsOk());
    const auto to = to_tree ? tree_place(fs, "/to", true) : memory_place({});
    const Result<Report> report = run(*from, *to, small_options());
    ASSERT_THAT(report, IsOk());
    EXPECT_THAT(failed_keys(*report), UnorderedElementsAre("dir/", ""));
    EXPECT_THAT(failures_of(*report), AllOf(HasSubstr("ends with '/'"), HasSubstr("7 B")));
    EXPECT_EQ(report->skipped, 0u);
    EXPECT_EQ(report->totals.copied, 1u);
  }
}

TEST(Run, UnfinishedFilesOfTheSourceAreSkippedAndNamed) {
  for (const bool to_tree : {true, false}) {
    MemoryFileSystem fs;
    write_file(fs, "/from/a", "a");
    write_file(fs, "/from/.penstock-tmp-1", "unfinished");
    write_file(fs, "/from/d/.penstock-tmp-2/f", "in a directory");
    write_file(fs, "/from/d/.penstock-tmp-left-out", "x");
    const auto from = tree_place(fs, "/from");
    const auto to = to_tree ? tree_place(fs, "/to", true) : memory_place({});
    Options options = small_options();
    options.filters = {{false, "*-out"}};
    const Report report = run_ok(*from, *to, options);
    EXPECT_THAT(skipped_keys(report), UnorderedElementsAre(".penstock-tmp-1", "d/.penstock-tmp-2"));
    EXPECT_EQ(report.totals.copied, 1u);
  }
}

// S3 with a prefix.
class ShortKeysStore : public PassingStore {
 public:
  ShortKeysStore() : PassingStore(store::make_memory_store()) {}
  store::Capabilities capabilities() const override {
    store::Capabilities capabilities = PassingStore::capabilities();
    capabilities.key_bytes_max = 10;
    return capabilities;
  }
};

TEST(Run, KeysThatAreTooLongAreForeseen) {
  MemoryFileSystem fs;
  write_file(fs, "/from/short", "1");
  write_file(fs, "/from/d/just-right", "2");
  write_file(fs, "/from/d/12345678", "3");
  for (const bool dry_run : {true, false}) {
    const auto from = tree_place(fs, "/from");
    const auto to = store_place(std::make_unique<ShortKeysStore>());
    Options options = small_options();
    options.dry_run = dry_run;
    const Result<Report> report = run(*from, *to, options);
    ASSERT_THAT(report, IsOk());
    EXPECT_THAT(failed_keys(*report), ElementsAre("d/just-right"));
    EXPECT_THAT(failures_of(*report), HasSubstr("has 12 bytes: keys in memory: have at most 10"));
    EXPECT_EQ(report->totals.to_copy, 2u);
  }
}

TEST(Run, NamesThatDifferOnlyByCaseAreFailuresWhereCaseDoesNotCount) {
  MemoryFileSystem disk;
  FoldingFileSystem fs(disk);
  const auto from = memory_place({{"README", "1"},
                                  {"readme", "2"},
                                  {"Dir/f", "3"},
                                  {"dir/g", "4"},
                                  {"DIR", "5"},
                                  {"other", "6"}});
  const auto to = tree_place(fs, "/to", true);
  const Result<Report> report = run(*from, *to, small_options());
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(failed_keys(*report), UnorderedElementsAre("readme", "Dir/f", "dir/g"));
  EXPECT_THAT(failures_of(*report), AllOf(HasSubstr("README"), HasSubstr("'DIR'")));
  EXPECT_EQ(tree_of(disk, "/to"), (Tree{{"README", "1"}, {"DIR", "5"}, {"other", "6"}}));
  // The first ones are the same from then on.
  EXPECT_EQ(run(*from, *to, small_options())->totals.copied, 0u);
}

TEST(Run, AnExistingNameOfOtherCaseIsNotReplaced) {
  MemoryFileSystem disk;
  FoldingFileSystem fs(disk);
  write_file(disk, "/to/Readme", "old");
  const auto from = memory_place({{"README", "1"}});
  const auto to = tree_place(fs, "/to");
  const Result<Report> report = run(*from, *to, small_options());
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(failed_keys(*report), ElementsAre("README"));
  EXPECT_EQ(tree_of(disk, "/to"), (Tree{{"Readme", "old"}}));
}

TEST(Run, CoarseTimesAreEqualAfterACopy) {
  MemoryFileSystem disk;
  CoarseFileSystem fs(disk, 1'000'000'000);
  fill(disk, "/from");
  const auto from = tree_place(disk, "/from");
  const auto to = tree_place(fs, "/to", true);
  EXPECT_EQ(run_ok(*from, *to, small_options()).totals.copied, 5u);
  EXPECT_EQ(run_ok(*from, *to, small_options()).totals.copied, 0u);
}

TEST(Run, OddKeysThatOnlyTheTargetHasStayAndAreNamed) {
  const auto from = memory_place({{"a", "1"}});
  auto store = std::make_unique<OddKeysStore>();
  for (const char* key : {"old/", "x//", ""}) store->add(key, 0);
  const auto to = store_place(std::move(store));
  EXPECT_EQ(run_ok(*from, *to, small_options()).skipped, 0u);
  Options options = small_options();
  options.delete_extra = true;
  const Report report = run_ok(*from, *to, options);
  EXPECT_THAT(skipped_keys(report), UnorderedElementsAre("old/", "x//"));
  EXPECT_THAT(report.skips[0].why, HasSubstr("only the target has it"));
}

}  // namespace

}  // namespace penstock::sync
