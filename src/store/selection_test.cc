#include "store/selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/memory_file_system.h"
#include "store/faulty_store.h"
#include "store/passing_store.h"

namespace penstock::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SelectionTest : public ::testing::Test {
 protected:
  static void fill(ObjectStore& store, const std::vector<std::string>& keys) {
    for (const std::string& key : keys) ASSERT_TRUE(store.put(key, {}).ok()) << key;
  }

  // The keys that `addresses` name in `store`, which is the only one.
  std::vector<std::string> select(ObjectStore& store, const std::vector<std::string>& addresses) {
    missing_.clear();
    std::vector<std::string> keys;
    const Result<Selection> selection = Selection::parse(addresses, fs_);
    EXPECT_TRUE(selection.ok()) << selection.error().to_string();
    if (!selection.ok()) return keys;
    EXPECT_THAT(selection->stores(), SizeIs(1));
    ObjectStore* const stores[] = {&store};
    result_ = selection->for_each(
        stores,
        [&](size_t, const ObjectInfo& object) {
          EXPECT_FALSE(object.etag.empty());
          keys.push_back(object.key);
          return keys.size() < limit_;
        },
        [&](const std::string& address) { missing_.push_back(address); });
    return keys;
  }

  io::MemoryFileSystem fs_;
  std::vector<std::string> missing_;
  size_t limit_ = SIZE_MAX;
  Result<void> result_;
};

// As S3 answers where there is no bucket.
class NoBucket : public PassingStore {
 public:
  NoBucket() : PassingStore(make_memory_store()) {}
  void async_list(ListOptions, Done<ListPage> done) override {
    done(make_error(ErrorCode::kNotFound, "there is no bucket 'bucket'"));
  }
};

TEST_F(SelectionTest, AStoreThatIsMissingIsAnErrorNotOneThatIsEmpty) {
  NoBucket store;
  for (const char* address : {"s3://bucket", "s3://bucket/x", "s3://bucket/x/", "s3://bucket/x*"}) {
    EXPECT_THAT(select(store, {address}), IsEmpty());
    ASSERT_FALSE(result_.ok()) << address;
    EXPECT_THAT(result_.error().detail, HasSubstr("no bucket"));
    EXPECT_THAT(missing_, IsEmpty());
  }
}

TEST_F(SelectionTest, KeysOfABucket) {
  const auto store = make_memory_store();
  fill(*store, {"raw/a/1", "raw/b", "rawer", "train-000.tar", "train-001.tar", "train-1/x"});
  EXPECT_THAT(select(*store, {"s3://bucket"}), SizeIs(6));
  EXPECT_THAT(select(*store, {"s3://bucket/"}), SizeIs(6));
  EXPECT_THAT(select(*store, {"s3://bucket/raw"}), ElementsAre("raw/a/1", "raw/b"));
  EXPECT_THAT(select(*store, {"s3://bucket/raw/"}), ElementsAre("raw/a/1", "raw/b"));
  EXPECT_THAT(select(*store, {"s3://bucket/rawer"}), ElementsAre("rawer"));
  EXPECT_THAT(select(*store, {"s3://bucket/train-*.tar"}),
              ElementsAre("train-000.tar", "train-001.tar"));
  EXPECT_THAT(select(*store, {"s3://bucket/**/*1"}), ElementsAre("raw/a/1", "train-1/x"));
  EXPECT_THAT(select(*store, {"s3://bucket/train-{000..001}.tar", "s3://bucket/raw/b"}),
              ElementsAre("train-000.tar", "train-001.tar", "raw/b"));
  EXPECT_THAT(missing_, IsEmpty());
}

TEST_F(SelectionTest, AFolderThatMatchesIsTakenWithAllBelow) {
  const auto store = make_memory_store();
  fill(*store, {"part-0/a/b", "part-0/c", "part-1/d", "parts"});
  EXPECT_THAT(select(*store, {"s3://bucket/part-?"}),
              ElementsAre("part-0/a/b", "part-0/c", "part-1/d"));
  EXPECT_THAT(select(*store, {"s3://bucket/part-[0]"}), ElementsAre("part-0/a/b", "part-0/c"));
}

TEST_F(SelectionTest, WhatIsNotThereIsNamed) {
  const auto store = make_memory_store();
  fill(*store, {"s-0", "s-2"});
  EXPECT_THAT(select(*store, {"s3://bucket/s-{0..3}", "s3://bucket/x*", "s3://bucket/none/"}),
              ElementsAre("s-0", "s-2"));
  EXPECT_TRUE(result_.ok());
  EXPECT_THAT(missing_, ElementsAre("s3://bucket/s-1", "s3://bucket/s-3", "s3://bucket/x*",
                                    "s3://bucket/none/"));
}

TEST_F(SelectionTest, AnEmptyStoreIsNamedToo) {
  const auto store = make_memory_store();
  EXPECT_THAT(select(*store, {"s3://bucket"}), IsEmpty());
  EXPECT_THAT(missing_, ElementsAre("s3://bucket/"));
}

TEST_F(SelectionTest, ThousandsOfNamesAndAnEnd) {
  const auto store = make_memory_store();
  for (int i = 0; i < 300; ++i) fill(*store, {std::to_string(i)});
  EXPECT_THAT(select(*store, {"s3://bucket/{0..299}"}), SizeIs(300));
  limit_ = 130;
  EXPECT_THAT(select(*store, {"s3://bucket/{0..299}"}), SizeIs(130));
  EXPECT_THAT(select(*store, {"s3://bucket", "s3://bucket"}), SizeIs(130));
}

TEST_F(SelectionTest, AnErrorOfTheStoreEndsIt) {
  for (const CallKind kind : {CallKind::kHead, CallKind::kList}) {
    FaultyStore store(make_memory_store(), {.kinds = {kind}, .fail_at = 1});
    fill(store, {"a"});
    EXPECT_THAT(select(store, {kind == CallKind::kHead ? "s3://bucket/a" : "s3://bucket/*"}),
                IsEmpty());
    EXPECT_EQ(result_.error().code, ErrorCode::kUnavailable);
    EXPECT_THAT(missing_, IsEmpty());
  }
}

TEST_F(SelectionTest, ListingsWithoutEtagsAreCompleted) {
  auto opened = open_file_store(fs_, "/objects");
  ASSERT_TRUE(opened.ok());
  fill(**opened, {"a", "b/c"});
  EXPECT_THAT(select(**opened, {"file:/objects"}), ElementsAre("a", "b/c"));
}

class PathSelectionTest : public SelectionTest {
 protected:
  PathSelectionTest() {
    for (const char* path : {"/data", "/data/x", "/data/x/y"}) (void)fs_.make_directory(path);
    for (const char* path : {"/data/1.tar", "/data/2.tar", "/data/x/3.tar", "/data/x/y/4.tar",
                             "/data/[1].tar", "/data/{a,b}"}) {
      EXPECT_TRUE(io::write_file_durably(fs_, path, "x").ok());
    }
  }

  // What later readers would ask for: identity and key in one.
  std::vector<std::string> select_paths(const std::vector<std::string>& addresses) {
    std::vector<std::string> urls;
    missing_.clear();
    result_ = {};
    const Result<Selection> selection = Selection::parse(addresses, fs_);
    if (!selection.ok()) {
      result_ = selection.error();
      return urls;
    }
    std::vector<std::unique_ptr<ObjectStore>> stores;
    std::vector<ObjectStore*> pointers;
    for (const std::string& address : selection->stores()) {
      auto store = open_store(address, {.file_system = &fs_, .read_only = true});
      EXPECT_TRUE(store.ok()) << store.error().to_string();
      if (!store.ok()) return urls;
      stores.push_back(std::move(*store));
      pointers.push_back(stores.back().get());
    }
    result_ = selection->for_each(
        pointers,
        [&](size_t store, const ObjectInfo& object) {
          urls.push_back(pointers[store]->identity() + object.key);
          return true;
        },
        [&](const std::string& address) { missing_.push_back(address); });
    return urls;
  }
};

TEST_F(PathSelectionTest, FilesFoldersAndPatterns) {
  EXPECT_THAT(select_paths({"/data/1.tar"}), ElementsAre("tree:/data/1.tar"));
  EXPECT_THAT(select_paths({"tree:/data/x/"}),
              ElementsAre("tree:/data/x/3.tar", "tree:/data/x/y/4.tar"));
  EXPECT_THAT(select_paths({"/data/?.tar"}), ElementsAre("tree:/data/1.tar", "tree:/data/2.tar"));
  EXPECT_THAT(select_paths({"tree:/data/x*/**/*.tar"}),
              ElementsAre("tree:/data/x/3.tar", "tree:/data/x/y/4.tar"));
  EXPECT_THAT(select_paths({"/data/{2,1}.tar", "/data/x/y/4.tar"}),
              ElementsAre("tree:/data/2.tar", "tree:/data/1.tar", "tree:/data/x/y/4.tar"));
  EXPECT_THAT(select_paths({"/*/x/y"}), ElementsAre("tree:/data/x/y/4.tar"));
  EXPECT_THAT(select_paths({"/"}), SizeIs(6));
  EXPECT_THAT(missing_, IsEmpty());
}

TEST_F(PathSelectionTest, APathThatIsThereMeansItself) {
  EXPECT_THAT(select_paths({"/data/[1].tar"}), ElementsAre("tree:/data/[1].tar"));
  EXPECT_THAT(select_paths({"/data/{a,b}"}), ElementsAre("tree:/data/{a,b}"));
  EXPECT_THAT(select_paths({"/data/\\[1].*"}), ElementsAre("tree:/data/[1].tar"));
}

TEST_F(PathSelectionTest, TheSameObjectByAnyName) {
  ASSERT_TRUE(fs_.make_symlink("/data/x", "/link").ok());
  for (const char* name : {"/data/x/3.tar", "tree:/data/x/3.tar", "/link/3.tar", "/link/*.tar",
                           "/data/x/{3,}.tar", "tree:/link//3.tar"}) {
    const std::vector<std::string> urls = select_paths({name});
    ASSERT_FALSE(urls.empty()) << name;
    EXPECT_EQ(urls[0], "tree:/data/x/3.tar") << name;
  }
}

TEST_F(PathSelectionTest, WhatCannotBeSelected) {
  const auto refused = [&](const char* address) {
    EXPECT_THAT(select_paths({"/data", address}), IsEmpty());
    EXPECT_FALSE(result_.ok()) << address;
    return result_.ok() ? ErrorCode::kBusy : result_.error().code;
  };
  EXPECT_EQ(refused("/data/none"), ErrorCode::kNotFound);
  EXPECT_EQ(refused(""), ErrorCode::kInvalid);
  EXPECT_EQ(refused("http://bucket/x"), ErrorCode::kInvalid);
  EXPECT_EQ(refused("memory:"), ErrorCode::kInvalid);
  EXPECT_EQ(refused("s3://"), ErrorCode::kInvalid);
  EXPECT_EQ(refused("s3://bucket/{0..9}{0..9}{0..9}{0..9}{0..9}{0..9}"), ErrorCode::kInvalid);
  EXPECT_EQ(refused("s3://buck*/x"), ErrorCode::kInvalid);
  EXPECT_THAT(result_.error().detail, HasSubstr("s3://buck*/x"));
}

TEST_F(PathSelectionTest, TooManyDirectoriesAskForAPattern) {
  std::vector<std::string> paths;
  for (size_t i = 0; i <= Selection::kStoresMax; ++i) {
    const std::string folder = "/many-" + std::to_string(i);
    ASSERT_TRUE(fs_.make_directory(folder).ok());
    ASSERT_TRUE(io::write_file_durably(fs_, folder + "/f", "x").ok());
    paths.push_back(folder + "/f");
  }
  EXPECT_THAT(select_paths(paths), IsEmpty());
  EXPECT_THAT(result_.error().detail, HasSubstr("one pattern"));
  EXPECT_THAT(select_paths({"/many-*/f"}), SizeIs(Selection::kStoresMax + 1));
}

}  // namespace
}  // namespace penstock::store
