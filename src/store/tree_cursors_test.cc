// Listings of trees between their pages.
#include "store/tree_cursors.h"

#include <fmt/core.h>

#include <algorithm>

#include "io/faulty_file_system.h"
#include "io/memory_file_system.h"
#include "store/conformance.h"
#include "store/list_page.h"

namespace penstock::store {

namespace {

using std::chrono::seconds;

void make_file(io::FileSystem& fs, const std::string& path) {
  ASSERT_THAT(fs.open(path, {.access = io::Access::kWrite, .create = io::Create::kTruncate}),
              IsOk());
}

ListOptions listing(std::string prefix, uint32_t limit = 1) {
  ListOptions options;
  options.prefix = std::move(prefix);
  options.limit = limit;
  return options;
}

class TreeCursorsTest : public ::testing::Test {
 protected:
  TreeCursorsTest() : files_(fs_, "/tree") {
    EXPECT_THAT(fs_.make_directory("/tree"), IsOk());
    for (const char* name : {"a", "b", "c", "d"}) make_file(fs_, fmt::format("/tree/{}", name));
  }

  // A cursor after its first page, and the options for its second.
  std::unique_ptr<TreeCursor> start(ListOptions& options) {
    auto cursor = std::make_unique<TreeCursor>(files_, options);
    const Result<ListPage> page = cursor->next_page(options);
    EXPECT_THAT(page, IsOk());
    EXPECT_TRUE(page->next.has_value());
    options.start_after = page->next.value_or("");
    return cursor;
  }

  io::MemoryFileSystem fs_;
  TreeFiles files_;
  TreeCursors cursors_;
  TreeCursors::Time now_ = std::chrono::steady_clock::now();
};

TEST_F(TreeCursorsTest, OnlyTheNextPageContinuesAListing) {
  ListOptions options = listing("");
  cursors_.keep(start(options), now_);
  ListOptions other = options;
  other.start_after = "b";
  EXPECT_EQ(cursors_.take(other, now_), nullptr);
  other = options;
  other.prefix = "b";
  EXPECT_EQ(cursors_.take(other, now_), nullptr);
  other = options;
  other.by_folder = true;
  EXPECT_EQ(cursors_.take(other, now_), nullptr);
  EXPECT_EQ(cursors_.take(listing(""), now_), nullptr);
  options.limit = 1000;  // A page may have any size.
  const std::unique_ptr<TreeCursor> cursor = cursors_.take(options, now_);
  ASSERT_NE(cursor, nullptr);
  EXPECT_EQ(cursors_.take(options, now_), nullptr) << "it is in use";
  const Result<ListPage> rest = cursor->next_page(options);
  ASSERT_THAT(rest, IsOk());
  EXPECT_EQ(rest->objects.size(), 3u);
  EXPECT_EQ(rest->objects[0].key, "b");
  EXPECT_FALSE(rest->next);
}

TEST_F(TreeCursorsTest, TheyGoWhenUnusedNotWhenOld) {
  ListOptions options = listing("");
  std::unique_ptr<TreeCursor> cursor = start(options);
  for (int i = 0; i < 2; ++i) {
    cursors_.keep(std::move(cursor), now_);
    now_ += seconds(4);
    cursor = cursors_.take(options, now_);
    ASSERT_NE(cursor, nullptr);
    const Result<ListPage> page = cursor->next_page(options);
    ASSERT_THAT(page, IsOk());
    options.start_after = *page->next;
  }
  cursors_.keep(std::move(cursor), now_);
  EXPECT_EQ(cursors_.take(options, now_ + TreeCursors::kLifetime), nullptr);
}

TEST_F(TreeCursorsTest, TheOldestGoWhenThereAreTooMany) {
  std::vector<ListOptions> all;
  for (size_t i = 0; i < TreeCursors::kCursorsMax + 2; ++i) {
    const std::string folder = fmt::format("f{:02}/", i);
    ASSERT_THAT(fs_.make_directory("/tree/" + folder), IsOk());
    for (const char* name : {"x", "y"}) make_file(fs_, "/tree/" + folder + name);
    all.push_back(listing(folder));
    cursors_.keep(start(all.back()), now_ += std::chrono::milliseconds(1));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(cursors_.take(all[i], now_) != nullptr, i >= 2) << i;
  }
}

TEST_F(TreeCursorsTest, TheOldestGoWhenTheyTakeTooMuchMemory) {
  TreeCursors cursors(2 * kMiB);
  ASSERT_THAT(fs_.make_directory("/tree/big"), IsOk());
  for (int i = 0; i < 2000; ++i) {
    make_file(fs_, fmt::format("/tree/big/{:05}{}", i, std::string(200, 'x')));
  }
  std::vector<ListOptions> all;
  for (uint32_t i = 0; i < 10; ++i) {
    all.push_back(listing("big/", i + 1));  // They stand at different places.
    std::unique_ptr<TreeCursor> cursor = start(all.back());
    EXPECT_GT(cursor->memory_bytes(), 400 * kKiB);
    EXPECT_LT(cursor->memory_bytes(), 600 * kKiB);
    cursors.keep(std::move(cursor), now_ += std::chrono::milliseconds(1));
  }
  size_t kept = 0;
  for (const ListOptions& options : all) {
    const bool there = cursors.take(options, now_) != nullptr;
    EXPECT_TRUE(there || kept == 0) << "a younger one went before an older";
    kept += there;
  }
  EXPECT_GE(kept, 3u);
  EXPECT_LE(kept, 5u);
}

class ListingTreeTest : public ::testing::Test {
 protected:
  ListingTreeTest() : fs_({}, memory_) {
    EXPECT_THAT(memory_.make_directory("/tree"), IsOk());
    store_ = std::move(*open_tree_store(fs_, "/tree"));
  }
  void fill(const std::string& folder, int count) {
    ASSERT_THAT(io::make_directories(memory_, "/tree/" + folder), IsOk());
    for (int i = 0; i < count; ++i) make_file(memory_, fmt::format("/tree/{}{:05}", folder, i));
  }
  ListPage page_of(ListOptions& options) {
    Result<ListPage> page = store_->list(options);
    EXPECT_THAT(page, IsOk());
    if (!page.ok()) return {};
    options.start_after = page->next.value_or("");
    return std::move(*page);
  }
  size_t calls(const std::string& kind) const {
    const std::vector<std::string> trace = fs_.trace();
    return static_cast<size_t>(std::count_if(
        trace.begin(), trace.end(),
        [&](const std::string& call) { return call.find(" " + kind + " ") != std::string::npos; }));
  }

  io::MemoryFileSystem memory_;
  io::FaultyFileSystem fs_;
  std::unique_ptr<ObjectStore> store_;
};

TEST_F(ListingTreeTest, PutsBetweenPagesCostNoSecondReadingOfTheDirectory) {
  fill("", 5000);
  ListOptions options = listing("", 100);
  size_t seen = 0;
  do {
    seen += page_of(options).objects.size();
    ASSERT_THAT(store_->put("zz", make_bytes(3, 1)), IsOk());
    ASSERT_THAT(store_->remove("zz"), IsOk());
  } while (!options.start_after.empty());
  EXPECT_EQ(seen, 5000u);
  EXPECT_EQ(calls("list"), 1u);
}

TEST_F(ListingTreeTest, EachFileIsLookedAtOnce) {
  fill("a/b/c/d/", 3000);
  fill("a/b/e/", 3000);
  const size_t before = calls("stat");
  ListOptions options = listing("", 1000);
  size_t seen = 0;
  do {
    seen += page_of(options).objects.size();
  } while (!options.start_after.empty());
  EXPECT_EQ(seen, 6000u);
  // And with each page the folders it is in.
  EXPECT_LE(calls("stat") - before, 6000u + 7 * 4);
}

TEST_F(ListingTreeTest, ManyListingsGoOnBesideEachOther) {
  std::vector<ListOptions> all;
  for (int i = 0; i < 20; ++i) {
    fill(fmt::format("{:02}/", i), 50);
    all.push_back(listing(fmt::format("{:02}/", i), 10));
  }
  size_t seen = 0;
  for (int round = 0; round < 5; ++round) {
    for (ListOptions& options : all) seen += page_of(options).objects.size();
  }
  EXPECT_EQ(seen, 1000u);
  EXPECT_EQ(calls("list"), 20u);
}

TEST_F(ListingTreeTest, AFolderThatBecomesALinkShowsNothingMore) {
  fill("a/", 10);
  ASSERT_THAT(io::make_directories(memory_, "/outside"), IsOk());
  for (int i = 0; i < 10; ++i) make_file(memory_, fmt::format("/outside/{:05}", i));
  make_file(memory_, "/tree/b");
  ListOptions options = listing("", 3);
  EXPECT_EQ(page_of(options).objects.size(), 3u);
  ASSERT_THAT(memory_.rename("/tree/a", "/gone"), IsOk());
  ASSERT_THAT(memory_.make_symlink("/outside", "/tree/a"), IsOk());
  std::vector<std::string> rest;
  do {
    for (const ObjectInfo& info : page_of(options).objects) rest.push_back(info.key);
  } while (!options.start_after.empty());
  // One was looked at ahead, with the first page.
  EXPECT_THAT(rest, ::testing::ElementsAre("a/00003", "b"));
}

TEST_F(ListingTreeTest, WhatGoesAwayMeanwhileIsLeftOut) {
  fill("a/", 10);
  fill("b/", 10);
  ListOptions options = listing("", 3);
  EXPECT_EQ(page_of(options).objects.size(), 3u);
  ASSERT_THAT(io::remove_tree(memory_, "/tree/a"), IsOk());
  ASSERT_THAT(memory_.remove("/tree/b/00000"), IsOk());
  std::vector<std::string> rest;
  do {
    for (const ObjectInfo& info : page_of(options).objects) rest.push_back(info.key);
  } while (!options.start_after.empty());
  ASSERT_EQ(rest.size(), 10u);
  EXPECT_EQ(rest[0], "a/00003");
  EXPECT_EQ(rest[1], "b/00001");
}

}  // namespace

}  // namespace penstock::store
