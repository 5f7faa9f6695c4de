// The cache in front of a real S3 server, and of one that misbehaves.
#include <fmt/core.h>
#include <stdlib.h>

#include <filesystem>
#include <random>

#include "cache/test_store.h"
#include "penstock/cache.h"
#include "s3_fixture.h"
#include "store/conformance.h"

namespace penstock::cache {
namespace {

using std::chrono::milliseconds;
using store::ObjectInfo;
using store::S3Options;

constexpr uint64_t kWindow = 256 * kKiB;

class TemporaryCache {
 public:
  TemporaryCache() {
    std::string name = std::filesystem::temp_directory_path() / "penstock-cache-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~TemporaryCache() { std::filesystem::remove_all(path_); }

  std::shared_ptr<Cache> open() const {
    CacheOptions options;
    options.directories = {path_};
    options.quota = {.bytes = kGiB};
    options.free_floor = {.bytes = 0};
    options.window_bytes = kWindow;
    options.memory_bytes = 64 * kMiB;
    Result<std::shared_ptr<Cache>> cache = Cache::open(options);
    EXPECT_TRUE(cache.ok()) << cache.error().to_string();
    return cache.ok() ? *cache : nullptr;
  }

 private:
  std::string path_;
};

class S3CacheTest : public store::S3Test {
 protected:
  void SetUp() override {
    S3Test::SetUp();
    direct_ = open(direct_options());
    bytes_ = store::random_bytes(9 * kWindow + 12345, 7);
    const Result<ObjectInfo> info = direct_->put("k", bytes_);
    ASSERT_TRUE(info.ok());
    info_ = *info;
    open_cache(proxy_options());
  }
  void TearDown() override {
    store_.reset();
    cache_.reset();
    direct_.reset();
    S3Test::TearDown();
  }

  void open_cache(S3Options options) {
    store_.reset();
    cache_.reset();
    options.stall_timeout = milliseconds(200);
    cache_ = drive_.open();
    auto hooked = std::make_unique<HookedStore>(open(options));
    hooked_ = hooked.get();
    store_ = make_cached_store(std::move(hooked), cache_);
  }

  Result<store::GetResult> read(bool by_version, Deadline deadline = kNoDeadline) {
    into_.assign(bytes_.size(), std::byte{0});
    store::GetOptions options;
    options.deadline = deadline;
    if (by_version) options.if_match = info_.etag;
    if (by_version) options.size = info_.size;
    return store_->get("k", 0, into_, options);
  }
  void expect_right(bool by_version = true) {
    const auto got = read(by_version);
    ASSERT_TRUE(got.ok()) << got.error().to_string();
    EXPECT_EQ(got->bytes, bytes_.size());
    EXPECT_TRUE(into_ == bytes_);
  }

  TemporaryCache drive_;
  std::unique_ptr<store::S3Store> direct_;
  std::shared_ptr<Cache> cache_;
  HookedStore* hooked_ = nullptr;
  std::unique_ptr<CachedStore> store_;
  ObjectInfo info_;
  std::vector<std::byte> bytes_;
  std::vector<std::byte> into_;
};

TEST_F(S3CacheTest, ASecondPassDoesNotTouchTheServer) {
  expect_right();
  cache_->drain();
  open_cache(proxy_options());
  set_rules(R"([{"reset": "before"}])");
  expect_right();
  EXPECT_EQ(cache_->stats().misses, 0U);
}

// Each goes wrong a few times and then right.
class S3CacheRecoverTest : public S3CacheTest, public testing::WithParamInterface<const char*> {};

TEST_P(S3CacheRecoverTest, ReadsComeOutWholeAndNothingWrongIsKept) {
  set_rules(fmt::format(R"([{{"match": "GET /", "times": 6, {}}}])", GetParam()));
  expect_right(false);
  cache_->drain();
  open_cache(direct_options());
  expect_right();
  EXPECT_EQ(cache_->stats().verification_failures, 0U);
}

INSTANTIATE_TEST_SUITE_P(Faults, S3CacheRecoverTest,
                         testing::Values(R"("answer": 503, "code": "SlowDown")",
                                         R"("answer": 500, "code": "InternalError")",
                                         R"("reset": "after")", R"("truncate": 5000)",
                                         R"("stall": 3000, "seconds": 1)", R"("delay": 0.3)"));

TEST_F(S3CacheTest, WhileTheServerIsAwayWhatIsCachedIsServedAndTheRestSaysWhy) {
  std::vector<std::byte> front(3 * kWindow);
  store::GetOptions version;
  version.if_match = info_.etag;
  version.size = info_.size;
  ASSERT_TRUE(store_->get("k", 0, front, version).ok());
  cache_->drain();
  set_rules(R"([{"reset": "before"}])");
  ASSERT_TRUE(store_->get("k", 0, front, version).ok());
  EXPECT_TRUE(std::equal(front.begin(), front.end(), bytes_.begin()));
  const auto all = read(true, deadline_in(milliseconds(700)));
  ASSERT_FALSE(all.ok());
  EXPECT_TRUE(all.error().retryable) << all.error().to_string();
  const auto unnamed = read(false, deadline_in(milliseconds(300)));
  EXPECT_FALSE(unnamed.ok()) << "a version nobody vouched for was served";
  set_rules("[]");
  expect_right();
}

TEST_F(S3CacheTest, AnObjectReplacedMidwayIsNeverMixed) {
  const std::vector<std::byte> before = bytes_;
  const std::vector<std::byte> after = store::random_bytes(bytes_.size(), 8);
  hooked_->set_hook([&](uint64_t number) {
    if (number == 4) {
      EXPECT_TRUE(direct_->put("k", after).ok());
    }
  });
  const auto by_version = read(true);
  ASSERT_FALSE(by_version.ok());
  EXPECT_EQ(by_version.error().code, ErrorCode::kChanged);
  hooked_->set_hook([&](uint64_t number) {
    if (number == 4) {
      EXPECT_TRUE(direct_->put("k", before).ok());
    }
  });
  const auto current = read(false);
  ASSERT_TRUE(current.ok()) << current.error().to_string();
  EXPECT_TRUE(into_ == before);
}

TEST_F(S3CacheTest, TheSameObjectUnderAnotherPrefixIsTheSame) {
  ASSERT_TRUE(direct_->put("folder/k", bytes_).ok());
  const auto info = direct_->head("folder/k");
  ASSERT_TRUE(info.ok());
  std::vector<std::byte> into(bytes_.size());
  ASSERT_TRUE(store_->get("folder/k", 0, into, {{}, info->etag, info->size, false}).ok());
  cache_->drain();
  const std::string address =
      fmt::format("s3://{}/{}/folder", store::S3TestServer::get().bucket, prefix_);
  const S3Options options = proxy_options();
  auto deeper = store::open_store(address, {.s3 = &options});
  ASSERT_TRUE(deeper.ok()) << deeper.error().to_string();
  const auto cached = make_cached_store(std::move(*deeper), cache_);
  set_rules(R"([{"reset": "before"}])");
  const auto got = cached->get("k", 0, into, {{}, info->etag, info->size, false});
  ASSERT_TRUE(got.ok()) << got.error().to_string();
  EXPECT_TRUE(into == bytes_);
}

}  // namespace
}  // namespace penstock::cache
