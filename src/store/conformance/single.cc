// One call after the other.
#include "store/conformance.h"

namespace penstock::store {

namespace {

// Whether one is the folder of the other.
bool nested(const std::string& a, const std::string& b) {
  return a.starts_with(b + "/") || b.starts_with(a + "/");
}

}  // namespace

std::vector<std::string> StoreConformance::odd_keys() {
  std::vector<std::string> keys = {"plain",
                                   "with space",
                                   " leading and trailing ",
                                   "per%cent",
                                   "per%2Fcent",
                                   "plus+plus",
                                   "quote'\"quote",
                                   "<&>;",
                                   "a=b&c=d?e#f",
                                   "back\\slash",
                                   "tilde~",
                                   "~",
                                   "star*",
                                   "$(echo)",
                                   "ünïcödé/日本語/🙂",
                                   "Case",
                                   "case",
                                   "CASE",
                                   "...",
                                   ".hidden",
                                   "a..b/c..",
                                   "-dash",
                                   "new\nline",
                                   "tab\tbell\a",
                                   "folder/with space/%41",
                                   "a/b/c/d/e/f/g/h/i/j",
                                   "objects",
                                   "lock",
                                   "tmp-x/y",
                                   "pending-1/z",
                                   "penstock-store",
                                   "k,v;k|v",
                                   "{}",
                                   "[]",
                                   "^`",
                                   "@:!"};
  if (GetParam().any_bytes) keys.insert(keys.end(), {"\xff\xfe", "latin1-\xe9", "\x7f\x80"});
  const size_t part = std::min<size_t>(GetParam().part_bytes_max, 1024);
  keys.push_back("long-" + std::string(part - 5, 'x'));
  std::string longest;
  while (longest.size() < 1024) longest += longest.size() % 100 == 99 ? '/' : '+';
  longest.back() = 'e';
  keys.push_back(longest);
  return keys;
}

std::vector<std::string> StoreConformance::random_keys(std::mt19937_64& random, size_t count) {
  const std::vector<std::string> parts = {"a", "b",  "A", "a b", "a-", "a.", "a0", "aa",
                                          "%", "+x", "ü", "'",   "0",  "z~", "!",  "a/b"};
  std::vector<std::string> keys;
  for (size_t attempt = 0; attempt < count * 4 && keys.size() < count; ++attempt) {
    std::string key = parts[random() % parts.size()];
    for (uint64_t more = random() % 4; more > 0; --more)
      key += "/" + parts[random() % parts.size()];
    const bool taken = std::any_of(keys.begin(), keys.end(), [&](const std::string& other) {
      return key == other || (!GetParam().nests && nested(key, other));
    });
    if (!taken) keys.push_back(key);
  }
  return keys;
}

TEST_P(StoreConformance, GivesBackWhatWasPut) {
  for (const size_t size : {size_t{1}, size_t{4095}, size_t{4096}, size_t{100000}, 9 * kMiB + 3}) {
    const std::string key = "size/" + std::to_string(size);
    const Bytes bytes = make_bytes(size, size);
    const Result<ObjectInfo> put = store_->put(key, bytes);
    ASSERT_THAT(put, IsOk());
    EXPECT_EQ(put->key, key);
    EXPECT_EQ(put->size, size);
    EXPECT_FALSE(put->etag.empty());
    expect_object(key, bytes);
    const Result<ObjectInfo> head = store_->head(key);
    ASSERT_THAT(head, IsOk());
    EXPECT_EQ(head->key, key);
    EXPECT_EQ(head->size, size);
    EXPECT_EQ(head->etag, put->etag);
    const Result<GetResult> got = store_->get(key, 0, {});
    ASSERT_THAT(got, IsOk());
    EXPECT_EQ(got->info.etag, put->etag);
    EXPECT_EQ(got->info.size, size);
    EXPECT_EQ(got->info.key, key);
  }
}

TEST_P(StoreConformance, TellsWhenAnObjectWasPut) {
  const auto now_s = [] {
    return std::chrono::duration_cast<std::chrono::seconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  const int64_t before_s = now_s();
  put("timed", make_bytes(5, 1));
  const Result<ObjectInfo> head = store_->head("timed");
  ASSERT_THAT(head, IsOk());
  EXPECT_GE(head->mtime_ns / 1'000'000'000, before_s - 2);
  EXPECT_LE(head->mtime_ns / 1'000'000'000, now_s() + 2);
}

TEST_P(StoreConformance, ReadsRangesAtTheEdges) {
  const Bytes bytes = make_bytes(1000, 3);
  put("ranges", bytes);
  struct Range {
    uint64_t offset;
    size_t length;
    size_t expected;
  };
  for (const Range& range :
       {Range{0, 10, 10}, Range{0, 1000, 1000}, Range{0, 1001, 1000}, Range{990, 10, 10},
        Range{990, 11, 10}, Range{999, 1, 1}, Range{999, 5, 1}, Range{1000, 1, 0},
        Range{1001, 10, 0}, Range{uint64_t{1} << 40, 10, 0}, Range{UINT64_MAX, 10, 0},
        Range{500, 0, 0}, Range{5000, 0, 0}}) {
    Bytes into(range.length + 1, std::byte{0xee});
    const Result<GetResult> got =
        store_->get("ranges", range.offset, std::span(into).first(range.length));
    ASSERT_THAT(got, IsOk()) << range.offset << "+" << range.length;
    EXPECT_EQ(got->bytes, range.expected) << range.offset << "+" << range.length;
    EXPECT_EQ(got->info.size, 1000u);
    for (size_t i = 0; i < got->bytes; ++i) ASSERT_EQ(into[i], bytes[range.offset + i]);
    EXPECT_EQ(into.back(), std::byte{0xee}) << "wrote past the end";
  }
}

TEST_P(StoreConformance, KeepsEmptyObjects) {
  put("empty", {});
  EXPECT_EQ(store_->head("empty")->size, 0u);
  Bytes into(10);
  for (const uint64_t offset : {0, 1, 100}) {
    const Result<GetResult> got = store_->get("empty", offset, into);
    ASSERT_THAT(got, IsOk());
    EXPECT_EQ(got->bytes, 0u);
  }
  EXPECT_THAT(all_keys(), ::testing::ElementsAre("empty"));
  EXPECT_EQ(read_object(*store_, "empty", 0)->size(), 0u);
}

TEST_P(StoreConformance, OverwritingReplacesAndChangesTheEtag) {
  const Result<ObjectInfo> first = store_->put("k", make_bytes(500, 1));
  const Result<ObjectInfo> second = store_->put("k", make_bytes(500, 2));
  const Result<ObjectInfo> third = store_->put("k", make_bytes(20, 3));
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  ASSERT_THAT(third, IsOk());
  EXPECT_NE(first->etag, second->etag);
  EXPECT_NE(second->etag, third->etag);
  EXPECT_NE(first->etag, third->etag);
  expect_object("k", make_bytes(20, 3));
  EXPECT_THAT(all_keys(), ::testing::ElementsAre("k"));
}

TEST_P(StoreConformance, IfMatchReadsOnlyThatVersion) {
  const std::string old_etag = store_->put("k", make_bytes(100, 1))->etag;
  Bytes into(100);
  GetOptions options;
  options.if_match = old_etag;
  ASSERT_THAT(store_->get("k", 0, into, options), IsOk());
  put("k", make_bytes(100, 2));
  EXPECT_THAT(store_->get("k", 0, into, options), FailsWith(ErrorCode::kChanged));
  EXPECT_THAT(store_->get("k", 50, std::span(into).first(10), options),
              FailsWith(ErrorCode::kChanged));
  EXPECT_THAT(store_->get("k", 0, {}, options), FailsWith(ErrorCode::kChanged));
  options.if_match = store_->head("k")->etag;
  ASSERT_THAT(store_->get("k", 0, into, options), IsOk());
  EXPECT_EQ(into, make_bytes(100, 2));
  EXPECT_THAT(store_->get("missing", 0, into, options), FailsWith(ErrorCode::kNotFound));
}

TEST_P(StoreConformance, IfAbsentNeverReplaces) {
  if (!store_->capabilities().put_if_absent) {
    PutOptions options;
    options.if_absent = true;
    EXPECT_THAT(store_->put("k", make_bytes(3, 1), options), FailsWith(ErrorCode::kUnsupported));
    return;
  }
  PutOptions options;
  options.if_absent = true;
  EXPECT_THAT(store_->put("k", make_bytes(30, 1), options), IsOk());
  EXPECT_THAT(store_->put("k", make_bytes(30, 2), options), FailsWith(ErrorCode::kExists));
  ASSERT_THAT(store_->flush(), IsOk());
  EXPECT_THAT(store_->put("k", make_bytes(30, 3), options), FailsWith(ErrorCode::kExists));
  expect_object("k", make_bytes(30, 1));
  ASSERT_THAT(store_->remove("k"), IsOk());
  EXPECT_THAT(store_->put("k", make_bytes(30, 4), options), IsOk());
  expect_object("k", make_bytes(30, 4));
}

TEST_P(StoreConformance, MissingKeysAreNamedInErrors) {
  expect_absent("not/there");
  EXPECT_THAT(store_->copy("not/there", "other"), FailsWith(ErrorCode::kNotFound));
  EXPECT_THAT(store_->remove("not/there"), IsOk());
  const Result<ObjectInfo> head = store_->head("not/there");
  EXPECT_THAT(head.error().detail, ::testing::HasSubstr("not/there"));
  EXPECT_FALSE(head.error().retryable);
}

TEST_P(StoreConformance, RemovesManyAtOnce) {
  std::vector<std::string> doomed;
  for (int i = 0; i < 1100; ++i) doomed.push_back("doomed/" + std::to_string(i));
  for (int i = 0; i < 1100; i += 100) put(doomed[i], make_bytes(10, i));
  put("doomed.not", make_bytes(10, 1));
  put("kept", make_bytes(10, 2));
  const Result<std::vector<RemoveFailure>> failures = store_->remove(doomed);
  ASSERT_THAT(failures, IsOk());
  EXPECT_TRUE(failures->empty());
  EXPECT_THAT(all_keys(), ::testing::ElementsAre("doomed.not", "kept"));
  expect_absent(doomed.front());
  const Result<std::vector<RemoveFailure>> none = store_->remove(std::vector<std::string>());
  ASSERT_THAT(none, IsOk());
  EXPECT_TRUE(none->empty());
}

TEST_P(StoreConformance, RemovesTheGoodKeysOfABatchAndNamesTheBad) {
  put("good", make_bytes(10, 1));
  const Result<std::vector<RemoveFailure>> failures =
      store_->remove(std::vector<std::string>{"bad//key", "good"});
  ASSERT_THAT(failures, IsOk());
  ASSERT_EQ(failures->size(), 1u);
  EXPECT_EQ(failures->front().key, "bad//key");
  EXPECT_EQ(failures->front().error.code, ErrorCode::kInvalid);
  expect_absent("good");
}

TEST_P(StoreConformance, Copies) {
  const Bytes bytes = make_bytes(70000, 9);
  put("from", bytes);
  const Result<ObjectInfo> copied = store_->copy("from", "to/here");
  ASSERT_THAT(copied, IsOk());
  EXPECT_EQ(copied->key, "to/here");
  EXPECT_EQ(copied->size, bytes.size());
  expect_object("to/here", bytes);
  expect_object("from", bytes);
  put("from", make_bytes(10, 1));
  expect_object("to/here", bytes);
  ASSERT_THAT(store_->copy("to/here", "from"), IsOk());
  expect_object("from", bytes);
  put("empty", {});
  ASSERT_THAT(store_->copy("empty", "to/empty"), IsOk());
  expect_object("to/empty", {});
}

TEST_P(StoreConformance, UploadsPieceByPiece) {
  const Bytes bytes = make_bytes(12 * kMiB + 77, 5);
  Result<std::unique_ptr<Upload>> upload = store_->start_upload("up/load", {});
  ASSERT_THAT(upload, IsOk());
  size_t done = 0;
  for (size_t step = 1; done < bytes.size(); step = step * 3 + 1) {
    Bytes piece(bytes.begin() + static_cast<ptrdiff_t>(done),
                bytes.begin() + static_cast<ptrdiff_t>(std::min(done + step, bytes.size())));
    ASSERT_THAT((*upload)->write(piece), IsOk());
    done += piece.size();
    std::fill(piece.begin(), piece.end(), std::byte{0});  // The memory may be reused on return.
  }
  expect_absent("up/load");
  EXPECT_TRUE(all_keys().empty());
  const Result<ObjectInfo> finished = (*upload)->finish();
  ASSERT_THAT(finished, IsOk());
  EXPECT_EQ(finished->key, "up/load");
  EXPECT_EQ(finished->size, bytes.size());
  expect_object("up/load", bytes);
  EXPECT_FALSE((*upload)->write(bytes).ok());
  EXPECT_FALSE((*upload)->finish().ok());
  upload->reset();
  expect_object("up/load", bytes);
}

TEST_P(StoreConformance, UploadsMayBeEmptySmallOrReplaceSomething) {
  put("k", make_bytes(10, 1));
  for (const size_t size : {size_t{0}, size_t{5}}) {
    Result<std::unique_ptr<Upload>> upload = store_->start_upload("k", {});
    ASSERT_THAT(upload, IsOk());
    if (size > 0) {
      ASSERT_THAT((*upload)->write(make_bytes(size, 2)), IsOk());
    }
    ASSERT_THAT((*upload)->finish(), IsOk());
    expect_object("k", make_bytes(size, 2));
  }
}

TEST_P(StoreConformance, UnfinishedUploadsLeaveNothing) {
  const Bytes bytes = make_bytes(6 * kMiB, 5);
  put("old", make_bytes(10, 1));
  for (const std::string key : {"aborted", "old"}) {
    Result<std::unique_ptr<Upload>> upload = store_->start_upload(key, {});
    ASSERT_THAT(upload, IsOk());
    ASSERT_THAT((*upload)->write(bytes), IsOk());
    (*upload)->abort();
    EXPECT_FALSE((*upload)->write(bytes).ok());
    EXPECT_FALSE((*upload)->finish().ok());
    Result<std::unique_ptr<Upload>> destroyed = store_->start_upload(key, {});
    ASSERT_THAT(destroyed, IsOk());
    ASSERT_THAT((*destroyed)->write(bytes), IsOk());
  }
  expect_absent("aborted");
  expect_object("old", make_bytes(10, 1));
  EXPECT_THAT(all_keys(), ::testing::ElementsAre("old"));
}

TEST_P(StoreConformance, UploadsKeepToIfAbsent) {
  if (!GetParam().upload_if_absent) GTEST_SKIP() << "not checked by this store";
  PutOptions options;
  options.if_absent = true;
  Result<std::unique_ptr<Upload>> upload = store_->start_upload("k", options);
  ASSERT_THAT(upload, IsOk());
  ASSERT_THAT((*upload)->write(make_bytes(10, 2)), IsOk());
  put("k", make_bytes(10, 1));
  EXPECT_THAT((*upload)->finish(), FailsWith(ErrorCode::kExists));
  expect_object("k", make_bytes(10, 1));
}

TEST_P(StoreConformance, RefusesBadKeysEverywhere) {
  const Bytes bytes = make_bytes(10, 1);
  Bytes into(10);
  put("good", bytes);
  for (const std::string& key :
       {std::string(), std::string("/a"), std::string("a/"), std::string("a//b"), std::string("."),
        std::string("a/./b"), std::string("../a"), std::string("a/.."), std::string("a\0b", 3),
        std::string(1025, 'k')}) {
    EXPECT_THAT(store_->get(key, 0, into), FailsWith(ErrorCode::kInvalid)) << key;
    EXPECT_THAT(store_->put(key, bytes), FailsWith(ErrorCode::kInvalid)) << key;
    EXPECT_THAT(store_->head(key), FailsWith(ErrorCode::kInvalid)) << key;
    EXPECT_THAT(store_->remove(key), FailsWith(ErrorCode::kInvalid)) << key;
    EXPECT_THAT(store_->copy(key, "x"), FailsWith(ErrorCode::kInvalid)) << key;
    EXPECT_THAT(store_->copy("good", key), FailsWith(ErrorCode::kInvalid)) << key;
    EXPECT_THAT(store_->start_upload(key, {}), FailsWith(ErrorCode::kInvalid)) << key;
  }
  EXPECT_THAT(all_keys(), ::testing::ElementsAre("good"));
}

TEST_P(StoreConformance, TakesOddKeys) {
  const std::vector<std::string> keys = odd_keys();
  for (size_t i = 0; i < keys.size(); ++i) put(keys[i], make_bytes(20 + i, i));
  if (GetParam().reopens) {
    ASSERT_THAT(store_->flush(), IsOk());
  }
  for (size_t i = 0; i < keys.size(); ++i) expect_object(keys[i], make_bytes(20 + i, i));
  EXPECT_THAT(all_keys(), ::testing::UnorderedElementsAreArray(keys));
  const Result<ObjectInfo> copied = store_->copy(keys.back(), "plain");
  ASSERT_THAT(copied, IsOk());
  ASSERT_THAT(store_->remove(keys), IsOk());
  EXPECT_TRUE(all_keys().empty());
}

TEST_P(StoreConformance, AnObjectMayBeNamedLikeAFolder) {
  put("a", make_bytes(10, 1));
  const Result<ObjectInfo> below = store_->put("a/b", make_bytes(10, 2));
  if (!GetParam().nests) {
    EXPECT_THAT(below, FailsWith(ErrorCode::kInvalid));
    put("c/d", make_bytes(10, 3));
    EXPECT_THAT(store_->put("c", make_bytes(10, 4)), FailsWith(ErrorCode::kInvalid));
    expect_absent("c");
    expect_absent("a/b");
    ASSERT_THAT(store_->remove("c"), IsOk());
    expect_object("a", make_bytes(10, 1));
    expect_object("c/d", make_bytes(10, 3));
    return;
  }
  ASSERT_THAT(below, IsOk());
  put("a/b/c", make_bytes(10, 3));
  EXPECT_THAT(all_keys(), ::testing::ElementsAre("a", "a/b", "a/b/c"));
  ASSERT_THAT(store_->remove("a/b"), IsOk());
  expect_object("a", make_bytes(10, 1));
  expect_object("a/b/c", make_bytes(10, 3));
}

TEST_P(StoreConformance, SeesWhatAnotherStoreOverTheSameDataPut) {
  if (!GetParam().reopens) GTEST_SKIP() << "the data goes with the store";
  const std::unique_ptr<ObjectStore> other = bed_->open();
  put("k", make_bytes(10, 1));
  EXPECT_EQ(*get_all(*other, "k"), make_bytes(10, 1));
  ASSERT_THAT(other->put("k", make_bytes(10, 2)), IsOk());
  expect_object("k", make_bytes(10, 2));
  ASSERT_THAT(other->flush(), IsOk());
  expect_object("k", make_bytes(10, 2));
  ASSERT_THAT(other->remove("k"), IsOk());
  expect_absent("k");
  EXPECT_TRUE(all_keys().empty());
}

TEST_P(StoreConformance, KeepsItsDataWhenOpenedAgain) {
  if (!GetParam().reopens) GTEST_SKIP() << "the data goes with the store";
  put("flushed", make_bytes(1000, 1));
  ASSERT_THAT(store_->flush(), IsOk());
  put("unflushed", make_bytes(1000, 2));
  put("flushed", make_bytes(1000, 3));
  store_.reset();
  store_ = bed_->open();
  expect_object("unflushed", make_bytes(1000, 2));
  expect_object("flushed", make_bytes(1000, 3));
  ASSERT_THAT(store_->flush(), IsOk());
  EXPECT_THAT(all_keys(), ::testing::ElementsAre("flushed", "unflushed"));
}

TEST_P(StoreConformance, FlushesManyOrNothing) {
  EXPECT_THAT(store_->flush(), IsOk());
  const size_t count = times(200, 20);
  for (size_t i = 0; i < count; ++i) put("many/" + std::to_string(i), make_bytes(100, i));
  EXPECT_THAT(store_->flush(), IsOk());
  EXPECT_THAT(store_->flush(), IsOk());
  for (size_t i = 0; i < count; ++i) expect_object("many/" + std::to_string(i), make_bytes(100, i));
  EXPECT_EQ(all_keys().size(), count);
}

TEST_P(StoreConformance, ReadObjectGivesTheWholeOrRefuses) {
  const Bytes bytes = make_bytes(700000, 4);
  put("k", bytes);
  EXPECT_EQ(*read_object(*store_, "k", kMiB), bytes);
  EXPECT_THAT(read_object(*store_, "k", 699999), FailsWith(ErrorCode::kNoMemory));
  EXPECT_THAT(read_object(*store_, "missing", kMiB), FailsWith(ErrorCode::kNotFound));
}

TEST_P(StoreConformance, IdentityIsItsOwn) {
  const std::string identity = store_->identity();
  EXPECT_TRUE(identity.ends_with('/')) << identity;
  EXPECT_FALSE(identity.ends_with("//")) << identity;
  put("k", make_bytes(10, 1));
  EXPECT_EQ(store_->identity(), identity);
  if (GetParam().reopens) {
    EXPECT_EQ(bed_->open()->identity(), identity);
  }
  const std::unique_ptr<StoreBed> elsewhere = GetParam().make();
  const std::string other = elsewhere->open()->identity();
  EXPECT_FALSE(other.starts_with(identity) || identity.starts_with(other)) << other;
}

TEST_P(StoreConformance, IdentityAndKeyTogetherNameAnObject) {
  put("a/b/c", make_bytes(10, 1));
  const std::unique_ptr<ObjectStore> outer = bed_->open_folder("a");
  if (outer == nullptr) GTEST_SKIP() << "folders are no stores of their own";
  const std::unique_ptr<ObjectStore> inner = bed_->open_folder("a/b/");
  EXPECT_EQ(outer->identity() + "b/c", store_->identity() + "a/b/c");
  EXPECT_EQ(inner->identity() + "c", store_->identity() + "a/b/c");
  EXPECT_EQ(*get_all(*outer, "b/c"), make_bytes(10, 1));
  EXPECT_EQ(*get_all(*inner, "c"), make_bytes(10, 1));
}

TEST_P(StoreConformance, DescribesItself) {
  EXPECT_FALSE(store_->description().empty());
  EXPECT_TRUE(store_->capabilities().writable);
}

}  // namespace penstock::store
