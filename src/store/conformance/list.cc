// Listings, compared with a model.
#include <fmt/core.h>

#include <set>

#include "store/conformance.h"

namespace penstock::store {

namespace {

using ListModel = std::map<std::string, size_t>;  // Key and size.

// The names that a listing shows, all pages together. Written to be obvious, not fast.
std::set<std::string> expected_names(const ListModel& model, const ListOptions& options) {
  std::set<std::string> names;
  for (const auto& [key, size] : model) {
    if (!key.starts_with(options.prefix)) continue;
    std::string name = key;
    const size_t slash = key.find('/', options.prefix.size());
    if (options.by_folder && slash != std::string::npos) name = key.substr(0, slash + 1);
    if (name > options.start_after) names.insert(name);
  }
  return names;
}

std::string describe(const ListOptions& options) {
  return fmt::format("prefix '{}' after '{}' by_folder {} limit {}", options.prefix,
                     options.start_after, options.by_folder, options.limit);
}

// The names of a page, after checking that it is a page at all.
std::set<std::string> names_of(const ListPage& page, const ListModel& model,
                               const ListOptions& options) {
  std::set<std::string> names;
  EXPECT_LE(page.objects.size() + page.folders.size(), options.limit);
  for (size_t i = 0; i < page.objects.size(); ++i) {
    const ObjectInfo& info = page.objects[i];
    if (i > 0) {
      EXPECT_LT(page.objects[i - 1].key, info.key);
    }
    const auto found = model.find(info.key);
    EXPECT_NE(found, model.end()) << info.key;
    if (found != model.end()) {
      EXPECT_EQ(info.size, found->second) << info.key;
    }
    EXPECT_GT(info.mtime_ns, 0);
    names.insert(info.key);
  }
  for (size_t i = 0; i < page.folders.size(); ++i) {
    if (i > 0) {
      EXPECT_LT(page.folders[i - 1], page.folders[i]);
    }
    EXPECT_TRUE(page.folders[i].ends_with('/')) << page.folders[i];
    names.insert(page.folders[i]);
  }
  return names;
}

// Lists page by page until the end and compares all of it.
void expect_listing(ObjectStore& store, const ListModel& model, ListOptions options) {
  SCOPED_TRACE(describe(options));
  std::set<std::string> expected = expected_names(model, options);
  while (true) {
    const Result<ListPage> page = store.list(options);
    ASSERT_THAT(page, IsOk());
    const std::set<std::string> names = names_of(*page, model, options);
    // A page holds the first of what is left, without gaps.
    for (const std::string& name : names) {
      ASSERT_FALSE(expected.empty()) << "unexpected " << name;
      ASSERT_EQ(name, *expected.begin());
      expected.erase(expected.begin());
    }
    EXPECT_EQ(page->next.has_value(), !expected.empty());
    if (!page->next) break;
    ASSERT_FALSE(names.empty()) << "a page without anything, and not the last";
    ASSERT_EQ(*page->next, *names.rbegin());
    options.start_after = *page->next;
  }
  EXPECT_TRUE(expected.empty()) << expected.size()
                                << " are missing, the first: " << *expected.begin();
}

ListOptions random_listing(std::mt19937_64& random, const std::vector<std::string>& keys) {
  ListOptions options;
  const std::string& some = keys[random() % keys.size()];
  const std::string& other = keys[random() % keys.size()];
  if (random() % 3 != 0) options.prefix = some.substr(0, random() % (some.size() + 1));
  if (random() % 8 == 0) options.prefix += "x";
  if (random() % 3 == 0) options.start_after = other;
  if (random() % 6 == 0) options.start_after = other.substr(0, random() % (other.size() + 1));
  if (random() % 6 == 0) options.start_after = other + "~";
  options.by_folder = random() % 2 == 0;
  constexpr uint32_t kLimits[] = {1, 2, 3, 7, 50, 999, 1000};
  options.limit = kLimits[random() % std::size(kLimits)];
  return options;
}

}  // namespace

TEST_P(StoreConformance, ListsRandomKeysLikeAModel) {
  for (uint64_t seed = 1; seed <= times(5, 1); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 random(seed);
    start_afresh();
    ListModel model;
    const std::vector<std::string> keys = random_keys(random, times(120, 60));
    for (const std::string& key : keys) {
      model[key] = random() % 50;
      put(key, make_bytes(model[key], seed));
      if (random() % 40 == 0) {
        ASSERT_THAT(store_->flush(), IsOk());
      }
    }
    const size_t listings = times(60, 12);
    for (size_t i = 0; i < listings && !HasFatalFailure(); ++i) {
      ListOptions options = random_listing(random, keys);
      if (GetParam().remote) options.limit = std::max<uint32_t>(options.limit, 7);
      expect_listing(*store_, model, options);
    }
    // And again when half of it is gone: no folder of which nothing is left is shown.
    std::vector<std::string> gone;
    for (size_t i = 0; i < keys.size(); i += 2) gone.push_back(keys[i]);
    ASSERT_THAT(store_->remove(gone), IsOk());
    for (const std::string& key : gone) model.erase(key);
    for (size_t i = 0; i < listings / 2 && !HasFatalFailure(); ++i) {
      ListOptions options = random_listing(random, keys);
      if (GetParam().remote) options.limit = std::max<uint32_t>(options.limit, 7);
      expect_listing(*store_, model, options);
    }
  }
}

TEST_P(StoreConformance, ListsInPagesOfEverySize) {
  ListModel model;
  const size_t count = times(2100, 1010);
  std::vector<std::future<Result<ObjectInfo>>> puts;
  for (size_t i = 0; i < count; ++i) {
    const std::string key = fmt::format("{:02}/{:04}", i % 7, i);
    model[key] = 3;
    auto answer = std::make_shared<std::promise<Result<ObjectInfo>>>();
    static const Bytes kThree = make_bytes(3, 1);
    puts.push_back(answer->get_future());
    store_->async_put(key, kThree, {},
                      [answer](Result<ObjectInfo> put) { answer->set_value(std::move(put)); });
  }
  for (auto& answer : puts) ASSERT_THAT(answer.get(), IsOk());
  ASSERT_THAT(store_->flush(), IsOk());
  for (const uint32_t limit : {1000U, 999U, 101U}) {
    ListOptions options;
    options.limit = limit;
    expect_listing(*store_, model, options);
    options.by_folder = true;
    expect_listing(*store_, model, options);
    options.prefix = "03/";
    expect_listing(*store_, model, options);
  }
  ListOptions options;
  options.limit = 1;
  options.by_folder = true;
  expect_listing(*store_, model, options);
}

TEST_P(StoreConformance, ListsOddKeysInTheOrderOfTheirBytes) {
  ListModel model;
  for (const std::string& key : odd_keys()) {
    model[key] = 4;
    put(key, make_bytes(4, 1));
  }
  ListOptions options;
  options.limit = 11;
  expect_listing(*store_, model, options);
  options.by_folder = true;
  expect_listing(*store_, model, options);
  for (const auto& [key, size] : model) {
    options.prefix = key.substr(0, key.size() / 2);
    if (!GetParam().any_bytes) break;  // Half a character is no prefix there.
    if (!GetParam().remote) expect_listing(*store_, model, options);
  }
}

TEST_P(StoreConformance, FoldersAreThoseDirectlyBelowThePrefix) {
  for (const std::string key : {"x", "f/1", "f/g/2", "f/g/h/3", "f.txt", "g/4"}) {
    put(key, make_bytes(1, 1));
  }
  ListOptions options;
  options.by_folder = true;
  Result<ListPage> page = store_->list(options);
  ASSERT_THAT(page, IsOk());
  EXPECT_THAT(page->folders, ::testing::ElementsAre("f/", "g/"));
  ASSERT_EQ(page->objects.size(), 2u);
  EXPECT_EQ(page->objects[0].key, "f.txt");
  EXPECT_EQ(page->objects[1].key, "x");
  options.prefix = "f/";
  page = store_->list(options);
  ASSERT_THAT(page, IsOk());
  EXPECT_THAT(page->folders, ::testing::ElementsAre("f/g/"));
  ASSERT_EQ(page->objects.size(), 1u);
  options.prefix = "f";
  page = store_->list(options);
  EXPECT_THAT(page->folders, ::testing::ElementsAre("f/"));
  options.start_after = "f/";
  page = store_->list(options);
  EXPECT_TRUE(page->folders.empty());
  EXPECT_TRUE(page->objects.empty());
  EXPECT_FALSE(page->next);
}

TEST_P(StoreConformance, ListsWhatChangedBetweenItsPages) {
  for (const std::string key : {"a", "b", "d", "f"}) put(key, make_bytes(1, 1));
  ListOptions options;
  options.limit = 1;
  Result<ListPage> page = store_->list(options);
  ASSERT_THAT(page, IsOk());
  ASSERT_EQ(page->next, "a");
  put("c", make_bytes(1, 1));
  ASSERT_THAT(store_->remove("d"), IsOk());
  ASSERT_THAT(store_->flush(), IsOk());
  put("e", make_bytes(1, 1));
  std::vector<std::string> rest;
  while (page->next) {
    options.start_after = *page->next;
    page = store_->list(options);
    ASSERT_THAT(page, IsOk());
    for (const ObjectInfo& info : page->objects) rest.push_back(info.key);
  }
  EXPECT_TRUE(std::is_sorted(rest.begin(), rest.end()));
  EXPECT_THAT(rest, ::testing::IsSupersetOf({"b", "f"}));
  EXPECT_THAT(rest, ::testing::IsSubsetOf({"b", "c", "d", "e", "f"}));
  if (GetParam().pages_see_changes) {
    EXPECT_THAT(rest, ::testing::ElementsAre("b", "c", "e", "f"));
  }
  options.start_after.clear();
  options.limit = 10;
  page = store_->list(options);  // From the start all of it is seen.
  ASSERT_THAT(page, IsOk());
  rest.clear();
  for (const ObjectInfo& info : page->objects) rest.push_back(info.key);
  EXPECT_THAT(rest, ::testing::ElementsAre("a", "b", "c", "e", "f"));
}

TEST_P(StoreConformance, ListingsTellTheEtagOrNothing) {
  const std::string etag = store_->put("k", make_bytes(9, 1))->etag;
  const Result<ListPage> page = store_->list({});
  ASSERT_THAT(page, IsOk());
  ASSERT_EQ(page->objects.size(), 1u);
  if (!page->objects[0].etag.empty()) {
    EXPECT_EQ(page->objects[0].etag, etag);
  }
}

TEST_P(StoreConformance, RefusesPagesOfImpossibleSize) {
  ListOptions options;
  options.limit = 0;
  EXPECT_THAT(store_->list(options), FailsWith(ErrorCode::kInvalid));
  options.limit = 1001;
  EXPECT_THAT(store_->list(options), FailsWith(ErrorCode::kInvalid));
}

TEST_P(StoreConformance, PrefixesThatAreNoKeysMatchNothing) {
  put("a/b", make_bytes(1, 1));
  for (const std::string prefix : {"/", "../", "a//", "./", "a/../", "a/b/", "zz", "a/b/c"}) {
    ListOptions options;
    options.prefix = prefix;
    for (const bool by_folder : {false, true}) {
      options.by_folder = by_folder;
      const Result<ListPage> page = store_->list(options);
      ASSERT_THAT(page, IsOk()) << prefix;
      EXPECT_TRUE(page->objects.empty() && page->folders.empty() && !page->next) << prefix;
    }
  }
}

TEST_P(StoreConformance, ForEachObjectStopsWhenTold) {
  for (const std::string key : {"p/1", "p/2", "p/3", "q"}) put(key, make_bytes(1, 1));
  std::vector<std::string> seen;
  ASSERT_THAT(for_each_object(*store_, "p/",
                              [&](const ObjectInfo& info) {
                                seen.push_back(info.key);
                                return seen.size() < 2;
                              }),
              IsOk());
  EXPECT_THAT(seen, ::testing::ElementsAre("p/1", "p/2"));
}

}  // namespace penstock::store
