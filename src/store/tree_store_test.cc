// What is particular to the tree store: files that others made, links, and what it leaves alone.
#include <fmt/core.h>

#include <algorithm>

#include "base/log.h"
#include "io/faulty_file_system.h"
#include "io/memory_file_system.h"
#include "store/conformance.h"
#include "store/list_page.h"

namespace penstock::store {

namespace {

using io::MemoryFileSystem;

class TreeStoreTest : public ::testing::Test {
 protected:
  TreeStoreTest() {
    EXPECT_THAT(fs_.make_directory("/tree"), IsOk());
    store_ = std::move(*open_tree_store(fs_, "/tree"));
  }
  void write(const std::string& path, std::string_view text) {
    ASSERT_THAT(io::make_directories(fs_, io::parent_path(path)), IsOk());
    const auto file =
        fs_.open(path, {.access = io::Access::kWrite, .create = io::Create::kTruncate});
    ASSERT_THAT(file, IsOk());
    ASSERT_THAT((*file)->write(0, std::as_bytes(std::span(text))), IsOk());
  }
  std::vector<std::string> keys(const std::string& prefix = "") {
    std::vector<std::string> all;
    EXPECT_THAT(for_each_object(*store_, prefix,
                                [&](const ObjectInfo& info) {
                                  all.push_back(info.key);
                                  return true;
                                }),
                IsOk());
    return all;
  }
  std::string text_of(const std::string& key) {
    const Result<Bytes> bytes = get_all(*store_, key);
    if (!bytes.ok()) return bytes.error().to_string();
    return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
  }

  MemoryFileSystem fs_;
  std::unique_ptr<ObjectStore> store_;
};

TEST_F(TreeStoreTest, FilesAreObjects) {
  write("/tree/train/cat/1.jpg", "one");
  write("/tree/train.txt", "two");
  EXPECT_THAT(keys(), ::testing::ElementsAre("train.txt", "train/cat/1.jpg"));
  EXPECT_EQ(text_of("train/cat/1.jpg"), "one");
  ASSERT_THAT(store_->put("new/file", make_bytes(7, 1)), IsOk());
  EXPECT_EQ(fs_.stat("/tree/new/file")->size, 7u);
}

TEST_F(TreeStoreTest, LinksAreFollowedOnlyToFilesInside) {
  write("/tree/data/real", "inside");
  write("/outside/secret", "outside");
  ASSERT_THAT(fs_.make_symlink("data/real", "/tree/relative"), IsOk());
  ASSERT_THAT(fs_.make_symlink("/tree/data/real", "/tree/absolute"), IsOk());
  ASSERT_THAT(fs_.make_symlink("absolute", "/tree/twice"), IsOk());
  ASSERT_THAT(fs_.make_symlink("../outside/secret", "/tree/out"), IsOk());
  ASSERT_THAT(fs_.make_symlink("/outside", "/tree/dir-out"), IsOk());
  ASSERT_THAT(fs_.make_symlink("data", "/tree/dir-in"), IsOk());
  ASSERT_THAT(fs_.make_symlink("nowhere", "/tree/broken"), IsOk());
  ASSERT_THAT(fs_.make_symlink("loop", "/tree/loop"), IsOk());
  EXPECT_THAT(keys(), ::testing::ElementsAre("absolute", "data/real", "relative", "twice"));
  for (const std::string key : {"absolute", "relative", "twice"}) EXPECT_EQ(text_of(key), "inside");
  for (const std::string key : {"out", "dir-out/secret", "dir-in/real", "broken", "loop"}) {
    EXPECT_THAT(store_->head(key), FailsWith(ErrorCode::kNotFound)) << key;
    EXPECT_THAT(store_->remove(key), IsOk()) << key;
  }
  EXPECT_THAT(store_->put("dir-out/new", make_bytes(3, 1)), FailsWith(ErrorCode::kInvalid));
  EXPECT_THAT(fs_.stat("/outside/secret"), IsOk());
  EXPECT_THAT(fs_.stat("/outside/new"), FailsWith(ErrorCode::kNotFound));
  // Putting and removing act on the link, not on what it leads to.
  ASSERT_THAT(store_->put("relative", make_bytes(3, 1)), IsOk());
  ASSERT_THAT(store_->put("out", make_bytes(3, 2)), IsOk());
  ASSERT_THAT(store_->remove("twice"), IsOk());
  EXPECT_EQ(text_of("data/real"), "inside");
  EXPECT_EQ(fs_.stat("/outside/secret")->size, 7u);
  EXPECT_THAT(keys(), ::testing::ElementsAre("absolute", "data/real", "out", "relative"));
}

TEST_F(TreeStoreTest, TheRootItselfMayBeALink) {
  write("/tree/data/real", "inside");
  ASSERT_THAT(fs_.make_symlink("/tree/data/real", "/tree/link"), IsOk());
  ASSERT_THAT(fs_.make_symlink("tree", "/alias"), IsOk());
  store_ = std::move(*open_tree_store(fs_, "/alias/"));
  EXPECT_EQ(store_->description(), "tree:/alias");
  EXPECT_EQ(store_->identity(), "tree:/tree/");
  EXPECT_EQ(text_of("link"), "inside");
}

TEST_F(TreeStoreTest, IdentityOfTheRootDirectoryAndOfRelativePaths) {
  EXPECT_EQ((*open_tree_store(fs_, "/"))->identity(), "tree:/");
  EXPECT_EQ((*open_tree_store(fs_, "//tree/../tree//"))->identity(), "tree:/tree/");
  // Relative to what? Nobody can say on another day.
  const std::string relative = (*open_tree_store(fs_, "tree"))->identity();
  EXPECT_TRUE(relative.starts_with("tree:") && relative.ends_with("/")) << relative;
  EXPECT_NE((*open_tree_store(fs_, "tree"))->identity(), relative);
}

TEST_F(TreeStoreTest, TemporaryFilesAreNoObjects) {
  write("/tree/.penstock-tmp-x-1", "half");
  write("/tree/a/.penstock-tmp-x-2", "half");
  EXPECT_TRUE(keys().empty());
  ListOptions options;
  options.by_folder = true;
  EXPECT_TRUE(store_->list(options)->folders.empty());
  EXPECT_THAT(store_->head(".penstock-tmp-x-1"), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(store_->put("a/.penstock-tmp-y", make_bytes(1, 1)), FailsWith(ErrorCode::kInvalid));
  EXPECT_THAT(store_->put(std::string(256, 'n'), make_bytes(1, 1)), FailsWith(ErrorCode::kInvalid));
  EXPECT_THAT(store_->head(std::string(256, 'n')), FailsWith(ErrorCode::kNotFound));
}

TEST_F(TreeStoreTest, KeepsWhatTheFileSystemLetsItKeep) {
  PutOptions options;
  options.mtime_ns = 1000;
  options.mode = 0600;
  std::string log;
  set_log_sink([&log](std::string_view line) { log += line; });
  for (const int error : {EPERM, EOPNOTSUPP}) {
    for (const bool for_good : {false, true}) {
      SCOPED_TRACE(fmt::format("error {} for good {}", error, for_good));
      io::FaultyFileSystem faulty({.fail_at = 1,
                                   .only = io::CallKind::kSetAttributes,
                                   .error = error,
                                   .for_good = for_good},
                                  fs_);
      const auto store = open_tree_store(faulty, "/tree");
      const Result<ObjectInfo> put = (*store)->put("k", make_bytes(7, 1), options);
      ASSERT_THAT(put, IsOk());
      EXPECT_TRUE(faulty.fault_hit());
      EXPECT_EQ(put->kept_mode, 0644u);  // No modes here, but perhaps times.
      EXPECT_EQ(put->mtime_ns == 1000, !for_good);
      EXPECT_EQ(put->etag, (*store)->head("k")->etag);
    }
  }
  set_log_sink({});
  EXPECT_THAT(log, ::testing::HasSubstr("not kept"));
  io::FaultyFileSystem broken({.fail_at = 1, .only = io::CallKind::kSetAttributes}, fs_);
  const auto store = open_tree_store(broken, "/tree");
  EXPECT_THAT((*store)->put("other", make_bytes(7, 1), options), FailsWith(ErrorCode::kIo));
  EXPECT_THAT(keys(), ::testing::ElementsAre("k"));
}

TEST_F(TreeStoreTest, ReadOnlyRefusesWrites) {
  write("/tree/k", "text");
  store_ = std::move(*open_tree_store(fs_, "/tree", {.read_only = true}));
  const Result<ObjectInfo> put = store_->put("k", make_bytes(1, 1));
  ASSERT_THAT(put, FailsWith(ErrorCode::kPermission));
  EXPECT_THAT(put.error().detail, ::testing::HasSubstr("read-only"));
  EXPECT_THAT(store_->remove("k"), FailsWith(ErrorCode::kPermission));
  EXPECT_THAT(store_->copy("k", "l"), FailsWith(ErrorCode::kPermission));
  EXPECT_THAT(store_->start_upload("k", {}), FailsWith(ErrorCode::kPermission));
  EXPECT_EQ(text_of("k"), "text");
  EXPECT_THAT(store_->flush(), IsOk());
}

TEST_F(TreeStoreTest, ADirectoryMustBeThere) {
  EXPECT_THAT(open_tree_store(fs_, "/missing"), FailsWith(ErrorCode::kNotFound));
  write("/file", "text");
  EXPECT_THAT(open_tree_store(fs_, "/file"), FailsWith(ErrorCode::kInvalid));
  EXPECT_THAT(open_tree_store(fs_, ""), FailsWith(ErrorCode::kInvalid));
}

TEST_F(TreeStoreTest, OtherProgramsChangesAreSeenByEtag) {
  write("/tree/k", "first");
  const std::string etag = store_->head("k")->etag;
  write("/tree/k", "other");
  GetOptions options;
  options.if_match = etag;
  Bytes into(5);
  EXPECT_THAT(store_->get("k", 0, into, options), FailsWith(ErrorCode::kChanged));
  EXPECT_EQ(text_of("k"), "other");
}

TEST_F(TreeStoreTest, AnUnreadableDirectoryIsNamed) {
  write("/tree/a/x", "text");
  io::FaultyFileSystem faulty({.fail_at = 2, .only = io::CallKind::kList, .error = EACCES}, fs_);
  const auto store = open_tree_store(faulty, "/tree");
  const Result<ListPage> page = (*store)->list({});
  ASSERT_THAT(page, FailsWith(ErrorCode::kPermission));
  EXPECT_THAT(page.error().detail, ::testing::HasSubstr("/tree/a"));
}

TEST_F(TreeStoreTest, ListsOnlyTheDirectoriesItMust) {
  for (int d = 0; d < 10; ++d) {
    for (int f = 0; f < 3; ++f) write(fmt::format("/tree/top/d{}/f{}", d, f), "x");
  }
  const auto lists = [&](const ListOptions& options) {
    io::FaultyFileSystem faulty({}, fs_);
    const auto store = open_tree_store(faulty, "/tree");
    EXPECT_THAT((*store)->list(options), IsOk());
    const std::vector<std::string> trace = faulty.trace();
    return std::count_if(trace.begin(), trace.end(), [](const std::string& call) {
      return call.find(" list ") != std::string::npos;
    });
  };
  ListOptions after;
  after.start_after = "top/d7/f9";
  EXPECT_EQ(lists(after), 5);  // The root, top, d7 itself, d8 and d9.
  ListOptions prefix;
  prefix.prefix = "top/d3/";
  EXPECT_EQ(lists(prefix), 1);
  ListOptions few;
  few.limit = 2;
  EXPECT_EQ(lists(few), 3);
}

TEST_F(TreeStoreTest, SmallObjectsCostFewCallsAtAnyDepth) {
  io::FaultyFileSystem traced({}, fs_);
  const auto store = open_tree_store(traced, "/tree", {.sync_before_publish = false});
  ASSERT_THAT((*store)->put("a/b/c/d/first", make_bytes(10, 1)), IsOk());
  const auto calls_of = [&traced](const std::function<void()>& action) {
    const size_t before = traced.calls();
    action();
    std::string names;
    for (const std::string& call : traced.trace()) {
      const size_t space = call.find(' ');
      if (std::stoul(call) <= before) continue;
      names += call.substr(space + 1, call.find(' ', space + 1) - space);
    }
    return names;
  };
  EXPECT_EQ(calls_of([&] { (void)(*store)->put("a/b/c/d/k", make_bytes(10, 1)); }),
            "open write stat close rename ");
  PutOptions keeping;
  keeping.mtime_ns = 1000;
  EXPECT_EQ(calls_of([&] { (void)(*store)->put("a/b/c/d/k", make_bytes(10, 1), keeping); }),
            "open write set_attributes stat close rename ");
  Bytes into(10);
  EXPECT_EQ(calls_of([&] { (void)(*store)->get("a/b/c/d/k", 0, into); }),
            "stat open stat read stat ");
}

TEST_F(TreeStoreTest, PutsAndReadsGoThroughALinkAboveTheRoot) {
  ASSERT_THAT(io::make_directories(fs_, "/disk/tree"), IsOk());
  store_ = std::move(*open_tree_store(fs_, "/disk/tree"));
  ASSERT_THAT(store_->put("a/k", make_bytes(10, 1)), IsOk());
  ASSERT_THAT(fs_.rename("/disk", "/moved"), IsOk());
  ASSERT_THAT(fs_.make_symlink("/moved", "/disk"), IsOk());
  EXPECT_EQ(*get_all(*store_, "a/k"), make_bytes(10, 1));
  ASSERT_THAT(store_->put("a/k", make_bytes(10, 2)), IsOk());
  ASSERT_THAT(store_->put("b/k", make_bytes(10, 3)), IsOk());
  EXPECT_EQ(*get_all(*store_, "a/k"), make_bytes(10, 2));
  EXPECT_THAT(keys(), ::testing::ElementsAre("a/k", "b/k"));
}

TEST_F(TreeStoreTest, ListsHugeDirectories) {
  name_window_max = 1000;
  for (int i = 0; i < 4200; ++i) {
    ASSERT_THAT(fs_.open(fmt::format("/tree/{:05}", i),
                         {.access = io::Access::kWrite, .create = io::Create::kTruncate}),
                IsOk());
  }
  const std::vector<std::string> all = keys();
  EXPECT_EQ(all.size(), 4200u);
  name_window_max = kNameWindowMax;
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
}

}  // namespace

}  // namespace penstock::store
