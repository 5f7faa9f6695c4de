#include <fmt/core.h>

#include <thread>

#include "store/counting_store.h"
#include "sync/odd_file_systems.h"
#include "sync/test_support.h"

namespace penstock::sync {

namespace {

using io::MemoryFileSystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::string large_text(char seed) {
  std::string text(100'003, seed);
  for (size_t i = 0; i < text.size(); i += 97) text[i] = static_cast<char>(i);
  return text;
}

void fill(MemoryFileSystem& fs, const std::string& root) {
  write_file(fs, root + "/a", "alpha", kTime, 0640);
  write_file(fs, root + "/d/e/large", large_text('x'), kTime + 1, 0755);
  write_file(fs, root + "/d/f", "effe", kTime + 2);
  write_file(fs, root + "/empty", "", kTime);
  write_file(fs, root + "/odd\n\xff\x01 name", "odd", kTime);
}

std::unique_ptr<Place> memory_place(const Tree& objects) {
  auto place = store_place(store::make_memory_store());
  for (const auto& [key, text] : objects) {
    EXPECT_THAT(place->store->put(key, bytes_of(text)), IsOk());
  }
  return place;
}

std::vector<std::string> failed_keys(const Report& report) {
  std::vector<std::string> keys;
  for (const Failure& failure : report.failures) keys.push_back(failure.key);
  return keys;
}

std::vector<std::string> skipped_keys(const Report& report) {
  std::vector<std::string> keys;
  for (const Skip& skip : report.skips) keys.push_back(skip.key);
  return keys;
}

TEST(Run, TreeToTreeKeepsModesTimesLinksAndEmptyDirectories) {
  MemoryFileSystem fs;
  fill(fs, "/from");
  ASSERT_THAT(fs.make_directory("/from/hollow", 0700), IsOk());
  ASSERT_THAT(fs.make_symlink("d/e/large", "/from/link"), IsOk());
  ASSERT_THAT(fs.make_symlink("/nowhere/at all", "/from/out"), IsOk());
  const auto from = tree_place(fs, "/from");
  const auto to = tree_place(fs, "/new/to", true);
  const Report report = run_ok(*from, *to, small_options());
  EXPECT_EQ(tree_of(fs, "/new/to"), tree_of(fs, "/from"));
  EXPECT_EQ(fs.stat("/new/to/a")->mode, 0640u);
  EXPECT_EQ(fs.stat("/new/to/a")->mtime_ns, kTime);
  EXPECT_EQ(fs.stat("/new/to/d/e/large")->mtime_ns, kTime + 1);
  EXPECT_EQ(fs.stat("/new/to/d/e/large")->mode, 0755u);
  EXPECT_EQ(fs.stat("/new/to/hollow")->mode, 0700u);
  EXPECT_EQ(report.totals.copied, 7u);
  EXPECT_EQ(report.totals.listed, 7u);
  EXPECT_EQ(report.totals.copied_bytes, report.totals.to_copy_bytes);
  EXPECT_EQ(report.totals.moved_bytes, report.totals.copied_bytes);
  EXPECT_TRUE(report.totals.listing_done);
  const Report again = run_ok(*from, *to, small_options());
  EXPECT_EQ(again.totals.copied, 0u);
  EXPECT_EQ(again.totals.same, 7u);
}

TEST(Run, TreeToStoreAndBack) {
  MemoryFileSystem fs;
  fill(fs, "/from");
  const auto from = tree_place(fs, "/from");
  const auto middle = store_place(store::make_memory_store());
  const auto to = tree_place(fs, "/to", true);
  EXPECT_EQ(run_ok(*from, *middle, small_options()).totals.copied, 5u);
  EXPECT_EQ(run_ok(*from, *middle, small_options()).totals.copied, 0u);
  run_ok(*middle, *to, small_options());
  EXPECT_EQ(tree_of(fs, "/to"), tree_of(fs, "/from"));
  EXPECT_EQ(run_ok(*middle, *to, small_options()).totals.copied, 0u);
}

TEST(Run, StoreToStore) {
  const auto from = memory_place({{"a", "1"}, {"a/b", "2"}, {"large", large_text('y')}});
  const auto to = store_place(store::make_memory_store());
  run_ok(*from, *to, small_options());
  EXPECT_EQ(objects_of(*to->store), objects_of(*from->store));
  EXPECT_EQ(run_ok(*from, *to, small_options()).totals.copied, 0u);
}

TEST(Run, OnlyWhatDiffersIsCopied) {
  MemoryFileSystem fs;
  fill(fs, "/from");
  fill(fs, "/to");
  write_file(fs, "/to/a", "alphA", kTime);       // Other bytes, same size and time,
  write_file(fs, "/to/d/f", "effE", kTime + 7);  // another time,
  write_file(fs, "/to/empty", "x", kTime);       // another size.
  const auto from = tree_place(fs, "/from");
  const auto to = tree_place(fs, "/to");
  EXPECT_EQ(run_ok(*from, *to, small_options()).totals.copied, 2u);
  EXPECT_EQ(tree_of(fs, "/to")["a"], "alphA");
  Options checksum = small_options();
  checksum.checksum = true;
  EXPECT_EQ(run_ok(*from, *to, checksum).totals.copied, 1u);
  EXPECT_EQ(tree_of(fs, "/to"), tree_of(fs, "/from"));
}

TEST(Run, ChecksumCopiesNoEqualBytesAndKeepsTheTime) {
  MemoryFileSystem fs;
  fill(fs, "/from");
  fill(fs, "/to");
  write_file(fs, "/to/d/e/large", large_text('x'), kTime + 9, 0600);
  const auto from = tree_place(fs, "/from");
  const auto to = tree_place(fs, "/to");
  Options options = small_options();
  options.checksum = true;
  EXPECT_EQ(run_ok(*from, *to, options).totals.copied, 0u);
  EXPECT_EQ(fs.stat("/to/d/e/large")->mtime_ns, kTime + 1);
  EXPECT_EQ(fs.stat("/to/d/e/large")->mode, 0755u);
}

TEST(Run, AModeAloneIsKeptWithoutCopying) {
  MemoryFileSystem fs;
  fill(fs, "/from");
  const auto from = tree_place(fs, "/from");
  const auto to = tree_place(fs, "/to", true);
  run_ok(*from, *to, small_options());
  write_file(fs, "/from/a", "alpha", kTime, 0444);
  ASSERT_THAT((*fs.open("/from/d", {}))->set_attributes(0711, std::nullopt), IsOk());
  std::vector<std::string> acts;
  Options options = small_options();
  options.on_action = [&](Action action, const std::string& key, uint64_t, std::string_view why) {
    acts.push_back(fmt::format("{} {} {}", action_name(action), key, why));
  };
  EXPECT_EQ(run_ok(*from, *to, options).totals.copied, 0u);
  EXPECT_THAT(acts, UnorderedElementsAre("attributes a mode", "attributes d/ mode"));
  EXPECT_EQ(fs.stat("/to/a")->mode, 0444u);
  EXPECT_EQ(fs.stat("/to/d")->mode, 0711u);
}

void set_mode(io::FileSystem& fs, const std::string& path, uint32_t mode) {
  ASSERT_THAT((*fs.open(path, {}))->set_attributes(mode, std::nullopt), IsOk());
}

// Directories as packages and caches have them: an owner who is not root can write there only after
// a chmod.
TEST(Run, ReadOnlyDirectoriesAreSyncedAgainAndAgain) {
  MemoryFileSystem disk;
  GuardedFileSystem fs(disk);
  fill(disk, "/from");
  write_file(disk, "/from/d/e/gone", "x", kTime);
  write_file(disk, "/from/old/f", "x", kTime);
  for (const char* folder : {"/from/d/e", "/from/d", "/from/old", "/from"}) {
    set_mode(disk, folder, 0555);
  }
  const auto from = tree_place(disk, "/from");
  const auto to = tree_place(fs, "/to", true);
  Options options = small_options();
  options.delete_extra = true;
  run_ok(*from, *to, options);
  EXPECT_EQ(tree_of(disk, "/to"), tree_of(disk, "/from"));

  write_file(disk, "/from/d/e/large", "changed", kTime + 5);
  write_file(disk, "/from/d/new/g", "new", kTime);
  ASSERT_THAT(disk.make_symlink("f", "/from/d/link"), IsOk());
  ASSERT_THAT(disk.remove("/from/d/e/gone"), IsOk());
  ASSERT_THAT(io::remove_tree(disk, "/from/old"), IsOk());
  run_ok(*from, *to, options);
  EXPECT_EQ(tree_of(disk, "/to"), tree_of(disk, "/from"));
  for (const char* folder : {"/to", "/to/d", "/to/d/e"}) {
    EXPECT_EQ(disk.stat(folder)->mode, 0555u) << folder;
  }
}

TEST(Run, AReadOnlyDirectoryWhoseModeIsNotOursToKeepStaysSo) {
  MemoryFileSystem disk;
  GuardedFileSystem fs(disk);
  ASSERT_THAT(disk.make_directory("/to"), IsOk());
  ASSERT_THAT(disk.make_directory("/to/d", 0555), IsOk());
  const auto from = memory_place({{"d/f", "1"}, {"g", "2"}});
  const auto to = tree_place(fs, "/to");
  const Result<Report> report = run(*from, *to, small_options());
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(failed_keys(*report), ElementsAre("d/f"));
  EXPECT_EQ(disk.stat("/to/d")->mode, 0555u);
}

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

TEST(Run, FiltersDecideWhatIsCopiedAndWhatIsDeleted) {
  MemoryFileSystem fs;
  fill(fs, "/from");
  write_file(fs, "/to/extra", "x");
  write_file(fs, "/to/d/extra.keep", "x");
  write_file(fs, "/to/only/extra", "x");
  write_file(fs, "/to/kept/extra.keep", "x");
  const auto from = tree_place(fs, "/from");
  const auto to = tree_place(fs, "/to");
  Options options = small_options();
  options.filters = {{false, "*.keep"}, {false, "/d/e/"}};
  options.delete_extra = true;
  const Report report = run_ok(*from, *to, options);
  EXPECT_EQ(report.totals.copied, 4u);
  EXPECT_EQ(report.totals.deleted, 3u);
  Tree expected = tree_of(fs, "/from");
  expected.erase("d/e");
  expected.erase("d/e/large");
  expected["d/extra.keep"] = "x";
  expected["kept"] = "/";
  expected["kept/extra.keep"] = "x";
  EXPECT_EQ(tree_of(fs, "/to"), expected);
}

TEST(Run, DeleteRemovesWhatOnlyTheTargetHas) {
  MemoryFileSystem fs;
  fill(fs, "/from");
  fill(fs, "/to");
  write_file(fs, "/to/x/y/z", "x");
  ASSERT_THAT(fs.make_directory("/to/x/hollow"), IsOk());
  ASSERT_THAT(fs.make_symlink("/from", "/to/x/link"), IsOk());
  write_file(fs, "/to/d/e/extra", "x");
  const auto from = tree_place(fs, "/from");
  const auto to = tree_place(fs, "/to");
  const Tree before = tree_of(fs, "/to");
  run_ok(*from, *to, small_options());
  EXPECT_EQ(tree_of(fs, "/to"), before);
  Options options = small_options();
  options.delete_extra = true;
  std::vector<std::string> deleted;
  options.on_action = [&](Action action, const std::string& key, uint64_t, std::string_view) {
    if (action == Action::kDelete) deleted.push_back(key);
  };
  const auto all = UnorderedElementsAre("d/e/extra", "x/y/z", "x/link", "x/hollow/", "x/y/", "x/");
  options.dry_run = true;
  EXPECT_EQ(run_ok(*from, *to, options).totals.deleted, 6u);
  EXPECT_THAT(std::exchange(deleted, {}), all);
  EXPECT_EQ(tree_of(fs, "/to"), before);
  options.dry_run = false;
  EXPECT_EQ(run_ok(*from, *to, options).totals.deleted, 6u);
  EXPECT_THAT(deleted, all);
  EXPECT_EQ(tree_of(fs, "/to"), tree_of(fs, "/from"));
}

TEST(Run, ADirectoryWithSomethingLeftOutIsNotDeleted) {
  MemoryFileSystem fs;
  write_file(fs, "/from/a", "a");
  write_file(fs, "/to/x/gone", "x");
  write_file(fs, "/to/x/y/stays.keep", "x");
  const auto from = tree_place(fs, "/from");
  const auto to = tree_place(fs, "/to");
  Options options = small_options();
  options.delete_extra = true;
  options.filters = {{false, "*.keep"}};
  for (const bool dry_run : {true, false}) {
    options.dry_run = dry_run;
    EXPECT_EQ(run_ok(*from, *to, options).totals.deleted, 1u);
  }
  EXPECT_EQ(tree_of(fs, "/to"),
            (Tree{{"a", "a"}, {"x", "/"}, {"x/y", "/"}, {"x/y/stays.keep", "x"}}));
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

TEST(Run, DeleteFromAStore) {
  const auto from = memory_place({{"a", "1"}, {"d/b", "2"}});
  const auto to =
      memory_place({{"a", "0"}, {"a2", "x"}, {"d/b/c", "x"}, {"e/f", "x"}, {"e/g", "x"}});
  Options options = small_options();
  options.delete_extra = true;
  EXPECT_EQ(run_ok(*from, *to, options).totals.deleted, 4u);
  EXPECT_THAT(objects_of(*to->store), ::testing::SizeIs(2));
  EXPECT_EQ(objects_of(*to->store)["d/b"], "2");
}

TEST(Run, NothingIsDeletedAfterAFailure) {
  MemoryFileSystem fs;
  write_file(fs, "/to/extra", "x");
  const auto from = memory_place({{"a", "1"}, {"a/b", "cannot be"}});
  const auto to = tree_place(fs, "/to");
  Options options = small_options();
  options.delete_extra = true;
  const Result<Report> report = run(*from, *to, options);
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->totals.failed, 1u);
  EXPECT_EQ(tree_of(fs, "/to"), (Tree{{"a", "1"}, {"extra", "x"}}));
}

// A file became a directory, a directory a file, and a link something else.
TEST(Run, KindsThatChangedAreReplacedWhenTheRestMayBeDeleted) {
  MemoryFileSystem fs;
  write_file(fs, "/from/file", "f");
  write_file(fs, "/from/directory/x", "x");
  write_file(fs, "/from/directory/deep/y", "y");
  ASSERT_THAT(fs.make_symlink("file", "/from/link"), IsOk());
  write_file(fs, "/to/file/old/z", "z");
  write_file(fs, "/to/directory", "d");
  write_file(fs, "/to/link/z", "z");
  const auto from = tree_place(fs, "/from");
  const auto to = tree_place(fs, "/to");
  const Tree before = tree_of(fs, "/to");
  const Result<Report> refused = run(*from, *to, small_options());
  ASSERT_THAT(refused, IsOk());
  EXPECT_THAT(failed_keys(*refused), UnorderedElementsAre("file", "directory/", "link"));
  EXPECT_EQ(tree_of(fs, "/to"), before);
  Options options = small_options();
  options.delete_extra = true;
  options.dry_run = true;
  EXPECT_EQ(run_ok(*from, *to, options).totals.to_copy, 4u);
  EXPECT_EQ(tree_of(fs, "/to"), before);
  options.dry_run = false;
  run_ok(*from, *to, options);
  EXPECT_EQ(tree_of(fs, "/to"), tree_of(fs, "/from"));
}

TEST(Run, DryRunWritesNothing) {
  MemoryFileSystem fs;
  fill(fs, "/from");
  const auto from = tree_place(fs, "/from");
  const auto to = tree_place(fs, "/to", true);
  Options options = small_options();
  options.dry_run = true;
  std::vector<std::string> acts;
  options.on_action = [&](Action, const std::string& key, uint64_t, std::string_view why) {
    acts.push_back(key + " " + std::string(why));
  };
  const Report report = run_ok(*from, *to, options);
  EXPECT_EQ(report.totals.to_copy, 5u);
  EXPECT_EQ(report.totals.copied, 0u);
  EXPECT_THAT(acts, ::testing::SizeIs(5));
  EXPECT_THAT(acts, Contains("d/e/large new"));
  EXPECT_THAT(fs.stat("/to"), FailsWith(ErrorCode::kNotFound));
}

TEST(Run, OneObject) {
  MemoryFileSystem fs;
  fill(fs, "/from");
  const auto from = tree_place(fs, "/from/d/f");
  EXPECT_EQ(from->only_key, "f");
  const auto to = tree_place(fs, "/to", true);
  run_ok(*from, *to, small_options());
  EXPECT_EQ(tree_of(fs, "/to"), (Tree{{"f", "effe"}}));
  EXPECT_EQ(run_ok(*from, *to, small_options()).totals.same, 1u);
  const auto onto = tree_place(fs, "/from/a");
  const auto other = tree_place(fs, "/to/f");
  run_ok(*onto, *other, small_options());
  EXPECT_EQ(tree_of(fs, "/to"), (Tree{{"f", "alpha"}}));
  const auto store = store_place(store::make_memory_store());
  run_ok(*from, *store, small_options());
  EXPECT_EQ(run_ok(*from, *store, small_options()).totals.same, 1u);
  EXPECT_EQ(objects_of(*store->store), (Tree{{"f", "effe"}}));
  Options options = small_options();
  options.delete_extra = true;
  EXPECT_THAT(run(*from, *to, options), FailsWith(ErrorCode::kInvalid));
  const auto whole = tree_place(fs, "/from");
  EXPECT_THAT(run(*whole, *other, small_options()), FailsWith(ErrorCode::kInvalid));
}

TEST(Run, PlacesMustLieApart) {
  MemoryFileSystem fs;
  fill(fs, "/a");
  ASSERT_THAT(fs.make_directory("/a/b"), IsOk());
  ASSERT_THAT(fs.make_symlink("/a", "/alias"), IsOk());
  const auto expect_refused = [&](const std::string& from, const std::string& to) {
    const auto source = tree_place(fs, from);
    const auto target = tree_place(fs, to, true);
    EXPECT_THAT(run(*source, *target, small_options()), FailsWith(ErrorCode::kInvalid))
        << from << " " << to;
  };
  expect_refused("/a", "/a");
  expect_refused("/a", "/alias");
  expect_refused("/a", "/a/b");
  expect_refused("/a", "/alias/b");
  expect_refused("/a", "/a/b/new");
  expect_refused("/a/b", "/a");
  expect_refused("/a", "/");
  expect_refused("/a/a", "/a");
  const auto from = tree_place(fs, "/a");
  const auto to = tree_place(fs, "/ab", true);
  run_ok(*from, *to, small_options());
}

TEST(Run, WrongOptionsAreRefused) {
  const auto from = memory_place({});
  const auto to = memory_place({});
  for (const auto& change : std::vector<std::function<void(Options&)>>{
           [](Options& options) { options.jobs = 0; },
           [](Options& options) { options.jobs = 1025; },
           [](Options& options) { options.memory_bytes = kMiB; },
           [](Options& options) { options.part_bytes = 1; },
           [](Options& options) {
             options.filters = {{true, ""}};
           }}) {
    Options options = small_options();
    change(options);
    EXPECT_THAT(run(*from, *to, options), FailsWith(ErrorCode::kInvalid));
  }
}

TEST(Run, OneJobAndManyJobs) {
  for (const uint32_t jobs : {1u, 2u, 200u, 1024u}) {
    MemoryFileSystem fs;
    fill(fs, "/from");
    for (int i = 0; i < 50; ++i) write_file(fs, fmt::format("/from/many/{}", i), "x", kTime);
    const auto from = tree_place(fs, "/from");
    const auto store = store_place(store::make_memory_store());
    const auto to = tree_place(fs, "/to", true);
    Options options = small_options();
    options.jobs = jobs;
    run_ok(*from, *store, options);
    run_ok(*store, *to, options);
    EXPECT_EQ(tree_of(fs, "/to"), tree_of(fs, "/from"));
  }
}

TEST(Run, TheRateIsLimited) {
  const auto from =
      memory_place({{"a", std::string(200'000, 'x')}, {"b", std::string(100'000, 'y')}});
  const auto to = memory_place({});
  Options options = small_options();
  options.bytes_per_second = 1'000'000;
  const Report report = run_ok(*from, *to, options);
  // 300,000 bytes, of which a quarter of a second's worth passes at once.
  EXPECT_GE(report.time, std::chrono::milliseconds(45));
  EXPECT_EQ(objects_of(*to->store), objects_of(*from->store));
}

TEST(Run, ProgressGrowsAndEndsWithTheTotals) {
  MemoryFileSystem fs;
  fill(fs, "/from");
  const auto from = tree_place(fs, "/from");
  const auto to = tree_place(fs, "/to", true);
  Options options = small_options();
  std::vector<Progress> seen;
  options.on_progress = [&](const Progress& progress) { seen.push_back(progress); };
  const Report report = run_ok(*from, *to, options);
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.back().copied, report.totals.copied);
  EXPECT_TRUE(seen.back().listing_done);
}

// Stops when the first large object is half read.
class StoppingStore : public PassingStore {
 public:
  StoppingStore(std::unique_ptr<store::ObjectStore> inner, std::stop_source stop)
      : PassingStore(std::move(inner)), stop_(std::move(stop)) {}
  void async_get(std::string key, uint64_t offset, std::span<std::byte> into,
                 store::GetOptions options, store::Done<store::GetResult> done) override {
    if (offset >= 40'000) stop_.request_stop();
    PassingStore::async_get(std::move(key), offset, into, std::move(options), std::move(done));
  }

 private:
  std::stop_source stop_;
};

// What is in its way has to go first; what only lies beside it stays.
TEST(Run, AStopWhileSomethingIsReplacedDeletesNothingElse) {
  MemoryFileSystem fs;
  write_file(fs, "/to/large/old", "in the way");
  write_file(fs, "/to/extra", "precious");
  std::stop_source stop;
  auto source = memory_place({{"large", large_text('z')}});
  const auto from = store_place(std::make_unique<StoppingStore>(std::move(source->store), stop));
  const auto to = tree_place(fs, "/to");
  Options options = small_options();
  options.delete_extra = true;
  options.stop = stop.get_token();
  const Result<Report> report = run(*from, *to, options);
  ASSERT_THAT(report, IsOk());
  EXPECT_TRUE(report->stopped);
  EXPECT_EQ(tree_of(fs, "/to"), (Tree{{"extra", "precious"}}));
  options.stop = {};
  run_ok(*from, *to, options);
  EXPECT_EQ(tree_of(fs, "/to"), objects_of(*from->store));
}

TEST(Run, AStopLeavesNothingHalfWritten) {
  for (const bool to_tree : {true, false}) {
    MemoryFileSystem fs;
    std::stop_source stop;
    auto source = memory_place({{"large", large_text('z')}, {"small", "s"}});
    const auto from = store_place(std::make_unique<StoppingStore>(std::move(source->store), stop));
    const auto to = to_tree ? tree_place(fs, "/to", true) : memory_place({});
    Options options = small_options();
    options.stop = stop.get_token();
    const Result<Report> report = run(*from, *to, options);
    ASSERT_THAT(report, IsOk());
    EXPECT_TRUE(report->stopped);
    EXPECT_EQ(report->totals.failed, 0u) << failures_of(*report);
    const Tree left = to_tree ? tree_of(fs, "/to") : objects_of(*to->store);
    for (const auto& [key, text] : left) EXPECT_EQ(key + text, "smalls");
    options.stop = {};
    run_ok(*from, *to, options);
    EXPECT_EQ(to_tree ? tree_of(fs, "/to") : objects_of(*to->store), objects_of(*from->store));
  }
}

TEST(Run, StoppedBeforeItBegins) {
  MemoryFileSystem fs;
  fill(fs, "/from");
  const auto from = tree_place(fs, "/from");
  const auto to = tree_place(fs, "/to", true);
  std::stop_source stop;
  stop.request_stop();
  Options options = small_options();
  options.stop = stop.get_token();
  const Result<Report> report = run(*from, *to, options);
  ASSERT_THAT(report, IsOk());
  EXPECT_TRUE(report->stopped);
  EXPECT_THAT(tree_of(fs, "/to"), IsEmpty());
}

// An object that gets new bytes while it is read, so many times.
class ChangingStore : public PassingStore {
 public:
  ChangingStore(std::unique_ptr<store::ObjectStore> inner, int changes, std::string replacement)
      : PassingStore(std::move(inner)), changes_(changes), replacement_(std::move(replacement)) {}
  void async_get(std::string key, uint64_t offset, std::span<std::byte> into,
                 store::GetOptions options, store::Done<store::GetResult> done) override {
    const bool changes = key == "k" && changes_-- > 0;
    PassingStore::async_get(
        key, offset, into, std::move(options),
        [this, changes, key, done = std::move(done)](Result<store::GetResult> got) {
          if (!changes) return done(std::move(got));
          auto text = std::make_shared<std::string>(replacement_);
          inner().async_put(key, bytes_of(*text), {},
                            [text, done, got](const Result<store::ObjectInfo>&) { done(got); });
        });
  }

 private:
  std::atomic<int> changes_;
  const std::string replacement_;
};

TEST(Run, AnObjectThatChangesIsCopiedInItsNewVersion) {
  for (const bool to_tree : {true, false}) {
    MemoryFileSystem fs;
    auto source = memory_place({{"k", large_text('1')}});
    const std::string replacement = large_text('2') + "longer";
    const auto from =
        store_place(std::make_unique<ChangingStore>(std::move(source->store), 1, replacement));
    const auto to = to_tree ? tree_place(fs, "/to", true) : memory_place({});
    Options options = small_options();
    options.jobs = 1;  // So that the change comes before the second range is read.
    const Report report = run_ok(*from, *to, options);
    EXPECT_EQ(report.totals.copied, 1u);
    EXPECT_EQ(report.totals.copied_bytes, replacement.size());
    const Tree there = to_tree ? tree_of(fs, "/to") : objects_of(*to->store);
    EXPECT_EQ(there, (Tree{{"k", replacement}}));
  }
}

TEST(Run, AnObjectThatKeepsChangingIsAFailure) {
  MemoryFileSystem fs;
  auto source = memory_place({{"k", large_text('1')}, {"other", "o"}});
  const auto from =
      store_place(std::make_unique<ChangingStore>(std::move(source->store), 1000, large_text('2')));
  const auto to = tree_place(fs, "/to", true);
  const Result<Report> report = run(*from, *to, small_options());
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(failed_keys(*report), ElementsAre("k"));
  EXPECT_EQ(report->failures[0].error.code, ErrorCode::kChanged);
  EXPECT_THAT(failures_of(*report), HasSubstr("it changed while it was copied, 4 times in a row"));
  EXPECT_EQ(tree_of(fs, "/to"), (Tree{{"other", "o"}}));
}

TEST(Run, BytesThatRotOnTheWayToTheDiskAreWrittenAnew) {
  MemoryFileSystem disk;
  RottenFileSystem fs(disk, 7);
  const auto from = memory_place({{"a", "1"},
                                  {"large", large_text('r')},
                                  {"c", "3"},
                                  {"d", "4"},
                                  {"e", "5"},
                                  {"f", "6"},
                                  {"g", "7"},
                                  {"h", "8"}});
  const auto to = tree_place(fs, "/to", true);
  Options options = small_options();
  options.part_bytes = 64 * kKiB;
  run_ok(*from, *to, options);
  EXPECT_EQ(tree_of(disk, "/to"), objects_of(*from->store));
}

TEST(Run, ADiskThatAlwaysRotsIsAFailureAndNothingWrongAppears) {
  MemoryFileSystem disk;
  RottenFileSystem fs(disk, 1);
  const auto from = memory_place({{"a", "1"}, {"large", large_text('r')}});
  const auto to = tree_place(fs, "/to", true);
  const Result<Report> report = run(*from, *to, small_options());
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->totals.failed, 2u);
  EXPECT_EQ(report->failures[0].error.code, ErrorCode::kCorrupt);
  EXPECT_THAT(tree_of(disk, "/to"), IsEmpty());
}

TEST(Run, UnchangedSmallObjectsCostNoReads) {
  auto counting = std::make_unique<store::CountingStore>(store::make_memory_store());
  store::CountingStore& counts = *counting;
  ASSERT_THAT(counting->put("a", bytes_of("x")), IsOk());
  const auto from = store_place(std::move(counting));
  MemoryFileSystem fs;
  const auto to = tree_place(fs, "/to", true);
  run_ok(*from, *to, small_options());
  const uint64_t gets = counts.counts(store::CallKind::kGet).calls;
  const uint64_t heads = counts.counts(store::CallKind::kHead).calls;
  run_ok(*from, *to, small_options());
  EXPECT_EQ(counts.counts(store::CallKind::kGet).calls, gets);
  EXPECT_EQ(counts.counts(store::CallKind::kHead).calls, heads);
}

TEST(Run, FoldersThatTheTargetLacksAreNotListedThere) {
  MemoryFileSystem fs;
  for (int i = 0; i < 20; ++i) write_file(fs, fmt::format("/from/{}/f", i), "x");
  const auto from = tree_place(fs, "/from");
  auto counting = std::make_unique<store::CountingStore>(store::make_memory_store());
  store::CountingStore& counts = *counting;
  const auto to = store_place(std::move(counting));
  run_ok(*from, *to, small_options());
  EXPECT_LE(counts.counts(store::CallKind::kList).calls, 2u);
}

}  // namespace

}  // namespace penstock::sync
