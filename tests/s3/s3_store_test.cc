// The S3 store against a real server that behaves.
#include <curl/curl.h>
#include <fmt/core.h>

#include <atomic>
#include <future>
#include <latch>
#include <map>
#include <set>
#include <thread>

#include "s3_fixture.h"
#include "store/s3_object.h"

namespace penstock::store {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class S3StoreTest : public S3Test {
 protected:
  void SetUp() override {
    S3Test::SetUp();
    store_ = open(direct_options());
  }
  void put(const std::string& key, std::string_view text) {
    const auto info = store_->put(key, as_bytes(text));
    ASSERT_TRUE(info.ok()) << info.error().to_string();
  }
  std::string get(const std::string& key) {
    const auto bytes = read_object(*store_, key, kGiB);
    return bytes.ok() ? as_text(*bytes) : bytes.error().to_string();
  }
  ErrorCode get_error(const std::string& key, GetOptions options = {}) {
    std::array<std::byte, 8> into;
    const auto result = store_->get(key, 0, into, std::move(options));
    return result.ok() ? ErrorCode::kClosed : result.error().code;
  }

  std::unique_ptr<S3Store> store_;
};

TEST_F(S3StoreTest, PutGetHeadAgree) {
  const auto put_info = store_->put("a/b", as_bytes("hello, world"));
  ASSERT_TRUE(put_info.ok()) << put_info.error().to_string();
  const auto head = store_->head("a/b");
  ASSERT_TRUE(head.ok()) << head.error().to_string();
  EXPECT_EQ(head->key, "a/b");
  EXPECT_EQ(head->size, 12U);
  EXPECT_EQ(head->etag, put_info->etag);
  EXPECT_EQ(head->etag, "e4d7f1b4ed2e42d15898f4b27b019da4");
  const int64_t now_ns = std::chrono::system_clock::now().time_since_epoch() / Nanoseconds(1);
  EXPECT_NEAR(static_cast<double>(head->mtime_ns), static_cast<double>(now_ns), 60e9);
  EXPECT_NEAR(static_cast<double>(put_info->mtime_ns), static_cast<double>(now_ns), 60e9);
  std::array<std::byte, 5> into;
  const auto got = store_->get("a/b", 7, into);
  ASSERT_TRUE(got.ok()) << got.error().to_string();
  EXPECT_EQ(as_text(into), "world");
  EXPECT_EQ(got->info.size, 12U);
  EXPECT_EQ(got->info.etag, head->etag);
  EXPECT_EQ(got->info.mtime_ns, head->mtime_ns);
  EXPECT_EQ(got->info.key, "a/b");
}

TEST_F(S3StoreTest, RangesAtAndPastTheEnd) {
  put("k", "0123456789");
  std::array<std::byte, 8> into;
  const auto tail = store_->get("k", 7, into);
  ASSERT_TRUE(tail.ok()) << tail.error().to_string();
  EXPECT_EQ(as_text(std::span(into).first(tail->bytes)), "789");
  for (const uint64_t offset : {uint64_t{10}, uint64_t{11}, uint64_t{1} << 40, UINT64_MAX}) {
    const auto past = store_->get("k", offset, into);
    ASSERT_TRUE(past.ok()) << offset << past.error().to_string();
    EXPECT_EQ(past->bytes, 0U);
    EXPECT_EQ(past->info.size, 10U);
    EXPECT_FALSE(past->info.etag.empty());
  }
  const auto nothing = store_->get("k", 3, {});
  ASSERT_TRUE(nothing.ok());
  EXPECT_EQ(nothing->info.size, 10U);
}

TEST_F(S3StoreTest, EmptyObject) {
  put("empty", "");
  std::array<std::byte, 8> into;
  const auto got = store_->get("empty", 0, into);
  ASSERT_TRUE(got.ok()) << got.error().to_string();
  EXPECT_EQ(got->bytes, 0U);
  EXPECT_EQ(got->info.size, 0U);
  EXPECT_EQ(store_->head("empty")->size, 0U);
}

TEST_F(S3StoreTest, MissingKey) {
  EXPECT_EQ(get_error("nope"), ErrorCode::kNotFound);
  EXPECT_EQ(store_->head("nope").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store_->get("nope", 5, {}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store_->copy("nope", "to").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(store_->remove(std::string("nope")).ok());
}

TEST_F(S3StoreTest, InvalidKeysAreRefused) {
  for (const std::string key : {"", "/a", "a/", "a//b", "a/../b", "."}) {
    EXPECT_EQ(get_error(key), ErrorCode::kInvalid) << key;
    EXPECT_EQ(store_->put(key, {}).error().code, ErrorCode::kInvalid) << key;
    EXPECT_EQ(store_->remove(key).error().code, ErrorCode::kInvalid) << key;
  }
  // The prefix counts, too.
  const std::string longest(1024 - prefix_.size() - 1, 'x');
  put(longest, "x");
  EXPECT_EQ(get(longest), "x");
  EXPECT_EQ(get_error(longest + "x"), ErrorCode::kInvalid);
  EXPECT_TRUE(store_->remove(std::vector<std::string>{longest, longest + "x"})->empty());
}

TEST_F(S3StoreTest, IfMatchTellsVersionsApart) {
  put("v", "one");
  const std::string etag = store_->head("v")->etag;
  std::array<std::byte, 8> into;
  EXPECT_TRUE(store_->get("v", 0, into, {{}, etag}).ok());
  EXPECT_TRUE(store_->get("v", 0, {}, {{}, etag}).ok());
  EXPECT_TRUE(store_->get("v", 3, into, {{}, etag}).ok());
  put("v", "two");
  EXPECT_EQ(get_error("v", {{}, etag}), ErrorCode::kChanged);
  EXPECT_EQ(store_->get("v", 0, {}, {{}, etag}).error().code, ErrorCode::kChanged);
  EXPECT_EQ(store_->get("v", 3, into, {{}, etag}).error().code, ErrorCode::kChanged);
}

TEST_F(S3StoreTest, PutIfAbsentHasOneWinner) {
  std::atomic<int> winners{0};
  std::atomic<int> losers{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const auto info = store_->put("once", as_bytes(std::to_string(i)), {{}, true});
      if (info.ok()) {
        ++winners;
      } else if (info.error().code == ErrorCode::kExists) {
        ++losers;
      } else {
        ADD_FAILURE() << info.error().to_string();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(winners, 1);
  EXPECT_EQ(losers, 7);
}

TEST_F(S3StoreTest, OddKeysGoThrough) {
  const std::vector<std::string> keys = {"a b",
                                         "a+b",
                                         "a%20b",
                                         "a%b",
                                         "quote'\"",
                                         "\xC3\xA4\xE6\x97\xA5",
                                         "x=y&z?#",
                                         "tilde~",
                                         "star*(1)!",
                                         "semi;,:@$",
                                         "a<b>&c",
                                         "back\\",
                                         "line\nfeed",
                                         "tab\there",
                                         "\x01\x02",
                                         "bracket[1]",
                                         " ",
                                         "\r",
                                         "emoji\xF0\x9F\x98\x80"};
  for (const std::string& key : keys) put(key, "of " + key);
  for (const std::string& key : keys) EXPECT_EQ(get(key), "of " + key);
  std::set<std::string> listed;
  const auto walked = for_each_object(*store_, "", [&](const ObjectInfo& object) {
    listed.insert(object.key);
    return true;
  });
  ASSERT_TRUE(walked.ok()) << walked.error().to_string();
  EXPECT_EQ(listed, std::set<std::string>(keys.begin(), keys.end()));
  const auto copied = store_->copy("a+b", "copy of a+b%");
  ASSERT_TRUE(copied.ok()) << copied.error().to_string();
  EXPECT_EQ(get("copy of a+b%"), "of a+b");
  std::vector<std::string> all = keys;
  all.push_back("copy of a+b%");
  const auto failures = store_->remove(all);
  ASSERT_TRUE(failures.ok()) << failures.error().to_string();
  EXPECT_EQ(failures->size(), 0U);
  EXPECT_THAT(store_->list({})->objects, IsEmpty());
}

TEST_F(S3StoreTest, ListsByFolderAndPages) {
  for (const char* key : {"a", "a/1", "a/2", "a0", "b/x/1", "b/x/2", "b/y", "c"}) put(key, key);
  const auto names = [](const ListPage& page) {
    std::vector<std::string> all = page.folders;
    for (const ObjectInfo& object : page.objects) all.push_back(object.key);
    return all;
  };
  ListOptions options;
  options.by_folder = true;
  EXPECT_THAT(names(*store_->list(options)), ElementsAre("a/", "b/", "a", "a0", "c"));
  options.prefix = "b/";
  EXPECT_THAT(names(*store_->list(options)), ElementsAre("b/x/", "b/y"));
  // One entry at a time, so that every kind of entry is once the last of its page.
  options.prefix = "";
  options.limit = 1;
  std::vector<std::string> seen;
  for (int i = 0; i < 10; ++i) {
    const auto page = store_->list(options);
    ASSERT_TRUE(page.ok()) << page.error().to_string();
    for (const std::string& name : names(*page)) seen.push_back(name);
    if (!page->next) break;
    options.start_after = *page->next;
  }
  EXPECT_THAT(seen, ElementsAre("a", "a/", "a0", "b/", "c"));
  options = {};
  options.start_after = "a/1";
  EXPECT_THAT(names(*store_->list(options)),
              ElementsAre("a/2", "a0", "b/x/1", "b/x/2", "b/y", "c"));
  options.limit = 0;
  EXPECT_EQ(store_->list(options).error().code, ErrorCode::kInvalid);
}

TEST_F(S3StoreTest, KeysOfOthersDoNotBreakListings) {
  put("a/b", "x");
  // A marker of the prefix itself, of a folder, and keys with empty parts.
  for (const char* key : {"/", "/a/", "/a//b", "/d//e", "//f", "/../g"}) {
    std::promise<Result<ObjectInfo>> written;
    put_object(store_->client(), prefix_ + key, {}, {},
               [&](Result<ObjectInfo> info) { written.set_value(std::move(info)); });
    ASSERT_TRUE(written.get_future().get().ok());
  }
  for (const uint32_t limit : {1U, 1000U}) {
    ListOptions options;
    options.limit = limit;
    std::vector<std::string> keys;
    std::vector<std::string> odd;
    while (true) {
      const auto page = store_->list(options);
      ASSERT_TRUE(page.ok()) << page.error().to_string();
      for (const ObjectInfo& object : page->objects) keys.push_back(object.key);
      for (const ObjectInfo& object : page->odd) odd.push_back(object.key);
      if (!page->next) break;
      options.start_after = *page->next;
    }
    EXPECT_THAT(keys, ElementsAre("a/b")) << limit;
    EXPECT_THAT(odd, UnorderedElementsAre("", "a/", "a//b", "d//e", "/f", "../g")) << limit;
  }
  ListOptions folders;
  folders.by_folder = true;
  EXPECT_THAT(store_->list(folders)->folders, ElementsAre("a/", "d/"));
  const auto odd_names = [&] {
    const auto page = store_->list(folders);
    std::vector<std::string> keys;
    for (const ObjectInfo& object : page->odd) keys.push_back(object.key);
    return keys;
  };
  EXPECT_THAT(odd_names(), UnorderedElementsAre("", "/", "../"));
  folders.prefix = "a/";
  EXPECT_THAT(odd_names(), UnorderedElementsAre("a/", "a//"));
}

TEST_F(S3StoreTest, LargeObjectsGetLargerParts) {
  S3Options options = direct_options();
  options.part_bytes = 5 * kMiB;
  const auto store = open(options);
  PutOptions put;
  put.size = 60'000 * kMiB;  // Of which only a little comes.
  const auto upload = std::move(*store->start_upload("k", put));
  const std::vector<std::byte> bytes = random_bytes(7 * kMiB, 1);
  ASSERT_TRUE(upload->write(bytes).ok());
  const Result<ObjectInfo> info = upload->finish();
  ASSERT_TRUE(info.ok()) << info.error().to_string();
  EXPECT_TRUE(info->etag.ends_with("-2")) << info->etag;  // 6 MiB and the rest.
  EXPECT_EQ(*read_object(*store, "k", kGiB), bytes);
}

TEST_F(S3StoreTest, CopiesBetweenStoresOfOneServer) {
  const std::string bucket = S3TestServer::get().bucket + "-other";
  ASSERT_TRUE(create_bucket(bucket, direct_options()).ok());
  const auto other = std::move(*make_s3_store(bucket, "some/where", direct_options(), {}));
  put("from + ä", "copied");
  const auto pair = copies_within_s3(*store_, *other);
  ASSERT_TRUE(pair);
  std::promise<Result<ObjectInfo>> copied;
  pair->to->async_copy_from(*pair->from, "from + ä", "to", {},
                            [&](Result<ObjectInfo> info) { copied.set_value(std::move(info)); });
  const Result<ObjectInfo> info = copied.get_future().get();
  ASSERT_TRUE(info.ok()) << info.error().to_string();
  EXPECT_EQ(info->key, "to");
  EXPECT_EQ(as_text(*read_object(*other, "to", kMiB)), "copied");
  S3Options others = direct_options();
  others.access_key = "somebody-else";
  const auto foreign = std::move(*make_s3_store(bucket, "", others, {}));
  EXPECT_FALSE(copies_within_s3(*store_, *foreign));
  EXPECT_FALSE(copies_within_s3(*store_, *make_memory_store()));
}

TEST_F(S3StoreTest, RemovesManyAtOnce) {
  constexpr int kCount = 1203;
  std::vector<std::string> keys;
  std::latch all(kCount);
  std::atomic<int> failed{0};
  for (int i = 0; i < kCount; ++i) keys.push_back(fmt::format("many/{:05}", i));
  for (const std::string& key : keys) {
    store_->async_put(key, as_bytes("x"), {}, [&](const Result<ObjectInfo>& info) {
      if (!info.ok()) ++failed;
      all.count_down();
    });
  }
  all.wait();
  ASSERT_EQ(failed, 0);
  ListOptions many;
  many.prefix = "many/";
  const auto page = store_->list(many);
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->objects.size(), 1000U);
  EXPECT_EQ(page->next, "many/00999");
  keys.push_back("many/not-there");
  keys.push_back("many//invalid");
  const auto failures = store_->remove(keys);
  ASSERT_TRUE(failures.ok()) << failures.error().to_string();
  ASSERT_EQ(failures->size(), 1U);
  EXPECT_EQ(failures->front().key, "many//invalid");
  EXPECT_EQ(failures->front().error.code, ErrorCode::kInvalid);
  EXPECT_THAT(store_->list(many)->objects, IsEmpty());
  EXPECT_TRUE(store_->remove(std::vector<std::string>{})->empty());
}

TEST_F(S3StoreTest, SmallUploadIsOnePut) {
  auto upload = *store_->start_upload("up", {});
  ASSERT_TRUE(upload->write(as_bytes("one ")).ok());
  ASSERT_TRUE(upload->write(as_bytes("two")).ok());
  EXPECT_EQ(store_->head("up").error().code, ErrorCode::kNotFound);
  const auto info = upload->finish();
  ASSERT_TRUE(info.ok()) << info.error().to_string();
  EXPECT_EQ(info->key, "up");
  EXPECT_EQ(info->size, 7U);
  EXPECT_EQ(info->etag, store_->head("up")->etag);
  EXPECT_EQ(get("up"), "one two");
  EXPECT_EQ(upload->write(as_bytes("more")).error().code, ErrorCode::kClosed);
  auto empty = *store_->start_upload("up0", {});
  EXPECT_EQ(empty->finish()->size, 0U);
}

TEST_F(S3StoreTest, LargeUploadInParts) {
  S3Options options = direct_options();
  options.part_bytes = 5 * kMiB;
  options.parts_in_flight = 2;
  store_ = open(options);
  const auto bytes = random_bytes(23 * kMiB + 17, 1);
  auto upload = *store_->start_upload("big", {});
  for (size_t at = 0; at < bytes.size(); at += 3 * kMiB + 5) {
    const size_t count = std::min<size_t>(3 * kMiB + 5, bytes.size() - at);
    ASSERT_TRUE(upload->write(std::span(bytes).subspan(at, count)).ok());
  }
  EXPECT_EQ(store_->head("big").error().code, ErrorCode::kNotFound);
  const auto info = upload->finish();
  ASSERT_TRUE(info.ok()) << info.error().to_string();
  EXPECT_EQ(info->size, bytes.size());
  EXPECT_EQ(info->etag, store_->head("big")->etag);
  EXPECT_TRUE(*read_object(*store_, "big", kGiB) == bytes);
  EXPECT_EQ(uploads_left(*store_, "big"), 0U);
}

TEST_F(S3StoreTest, AbortedUploadLeavesNothing) {
  S3Options options = direct_options();
  options.part_bytes = 5 * kMiB;
  store_ = open(options);
  const auto bytes = random_bytes(12 * kMiB, 2);
  {
    auto upload = *store_->start_upload("gone", {});
    ASSERT_TRUE(upload->write(bytes).ok());
    EXPECT_EQ(uploads_left(*store_, "gone"), 1U);
  }
  EXPECT_EQ(store_->head("gone").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(uploads_left(*store_, "gone"), 0U);
}

TEST_F(S3StoreTest, UploadIfAbsent) {
  S3Options options = direct_options();
  options.part_bytes = 5 * kMiB;
  store_ = open(options);
  put("there", "x");
  const auto bytes = random_bytes(6 * kMiB, 3);
  for (const size_t size : {size_t{10}, bytes.size()}) {
    auto upload = *store_->start_upload("there", {{}, true});
    ASSERT_TRUE(upload->write(std::span(bytes).first(size)).ok());
    EXPECT_EQ(upload->finish().error().code, ErrorCode::kExists);
    auto fresh = *store_->start_upload(fmt::format("fresh{}", size), {{}, true});
    ASSERT_TRUE(fresh->write(std::span(bytes).first(size)).ok());
    EXPECT_TRUE(fresh->finish().ok());
  }
  EXPECT_EQ(get("there"), "x");
}

TEST_F(S3StoreTest, CopiesWholeAndInParts) {
  const auto bytes = random_bytes(12 * kMiB + 3, 4);
  ASSERT_TRUE(store_->put("src", bytes).ok());
  const auto whole = store_->copy("src", "dst");
  ASSERT_TRUE(whole.ok()) << whole.error().to_string();
  EXPECT_EQ(whole->key, "dst");
  EXPECT_EQ(whole->size, bytes.size());
  EXPECT_EQ(whole->etag, store_->head("dst")->etag);
  EXPECT_TRUE(store_->copy("src", "src").ok());
  store_ = open(direct_options(), {.copy_bytes_max = kMiB, .copy_part_bytes = 5 * kMiB});
  const auto in_parts = store_->copy("src", "parts");
  ASSERT_TRUE(in_parts.ok()) << in_parts.error().to_string();
  EXPECT_EQ(in_parts->etag, store_->head("parts")->etag);
  EXPECT_TRUE(*read_object(*store_, "parts", kGiB) == bytes);
}

TEST_F(S3StoreTest, UploadsAndCopiesInPartsKeepTimeAndMode) {
  S3Options options = direct_options();
  options.part_bytes = 5 * kMiB;
  store_ = open(options, {.copy_bytes_max = kMiB, .copy_part_bytes = 5 * kMiB});
  PutOptions put;
  put.mtime_ns = 1'700'000'000'123'456'789;
  put.mode = 0640;
  const auto upload = store_->start_upload("up", put);
  ASSERT_TRUE(upload.ok()) << upload.error().to_string();
  ASSERT_TRUE((*upload)->write(random_bytes(6 * kMiB, 1)).ok());
  const auto finished = (*upload)->finish();
  ASSERT_TRUE(finished.ok()) << finished.error().to_string();
  EXPECT_THAT(finished->etag, testing::EndsWith("-2"));
  const auto copied = store_->copy("up", "copy");
  ASSERT_TRUE(copied.ok()) << copied.error().to_string();
  EXPECT_THAT(copied->etag, testing::EndsWith("-2"));
  for (const ObjectInfo& info : {*finished, *store_->head("up"), *copied, *store_->head("copy")}) {
    EXPECT_EQ(info.kept_mtime_ns, put.mtime_ns);
    EXPECT_EQ(info.kept_mode, put.mode);
  }
}

TEST_F(S3StoreTest, VerifyContentAcceptsWhatIsRight) {
  S3Options options = direct_options();
  options.verify_content = true;
  store_ = open(options);
  put("k", "checked");
  EXPECT_EQ(get("k"), "checked");
}

TEST_F(S3StoreTest, ReadOnlyStoreRefusesWrites) {
  put("k", "x");
  store_ = open(direct_options(), {.read_only = true});
  EXPECT_FALSE(store_->capabilities().writable);
  EXPECT_EQ(get("k"), "x");
  EXPECT_EQ(store_->put("k", {}).error().code, ErrorCode::kPermission);
  EXPECT_EQ(store_->remove(std::string("k")).error().code, ErrorCode::kPermission);
  EXPECT_EQ(store_->copy("k", "l").error().code, ErrorCode::kPermission);
  EXPECT_EQ(store_->start_upload("k", {}).error().code, ErrorCode::kPermission);
}

TEST_F(S3StoreTest, VirtualHostStyle) {
  put("k", "x");
  S3Options options = direct_options();
  const std::string& host = S3TestServer::get().host;
  options.endpoint = "http://localhost" + host.substr(host.rfind(':'));
  options.style = AddressStyle::kVirtualHost;
  store_ = open(options);
  EXPECT_EQ(get("k"), "x");
  EXPECT_EQ(store_->list({})->objects.size(), 1U);
}

TEST_F(S3StoreTest, PresignedAddressNeedsNoKeys) {
  put("a b+c", "by link");
  const auto url = presign_get(S3TestServer::get().bucket, prefix_ + "/a b+c", direct_options(),
                               std::chrono::minutes(5));
  ASSERT_TRUE(url.ok());
  std::string text;
  CURL* easy = curl_easy_init();
  curl_easy_setopt(easy, CURLOPT_URL, url->c_str());
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &text);
  curl_easy_setopt(
      easy, CURLOPT_WRITEFUNCTION, +[](char* data, size_t size, size_t count, void* out) {
        static_cast<std::string*>(out)->append(data, size * count);
        return size * count;
      });
  EXPECT_EQ(curl_easy_perform(easy), CURLE_OK);
  curl_easy_cleanup(easy);
  EXPECT_EQ(text, "by link");
  EXPECT_FALSE(presign_get("b-b", "k", direct_options(), std::chrono::hours(24 * 8)).ok());
}

TEST_F(S3StoreTest, DestructorLetsCallsFinish) {
  const auto bytes = random_bytes(kMiB, 5);
  std::atomic<int> finished{0};
  std::atomic<int> succeeded{0};
  for (int i = 0; i < 32; ++i) {
    store_->async_put(fmt::format("k{}", i), bytes, {}, [&](const Result<ObjectInfo>& info) {
      if (info.ok()) ++succeeded;
      ++finished;
    });
  }
  store_.reset();
  EXPECT_EQ(finished, 32);
  EXPECT_EQ(succeeded, 32);
}

TEST_F(S3StoreTest, ManyThreadsManyObjects) {
  constexpr int kThreads = 8;
  constexpr int kEach = 25;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const std::string key = fmt::format("{}/{}", t, i);
        const auto bytes = random_bytes(1000 + 997 * static_cast<size_t>(i), t * 1000 + i);
        ASSERT_TRUE(store_->put(key, bytes).ok());
        ASSERT_TRUE(*read_object(*store_, key, kGiB) == bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(S3StoreTest, OpenedByAddress) {
  const S3Options options = direct_options();
  const std::string address = fmt::format("s3://{}/{}", S3TestServer::get().bucket, prefix_);
  auto store = open_store(address, {.s3 = &options});
  ASSERT_TRUE(store.ok()) << store.error().to_string();
  EXPECT_EQ((*store)->description(), address);
  put("k", "x");
  EXPECT_EQ((*store)->head("k")->size, 1U);
  EXPECT_TRUE((*store)->flush().ok());
}

}  // namespace
}  // namespace penstock::store
