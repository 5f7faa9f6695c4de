// What was warmed by one name is found by readers that use another.
#include <fmt/core.h>
#include <stdlib.h>

#include <filesystem>

#include "cache/test_store.h"
#include "cache/warm.h"
#include "penstock/cache.h"
#include "s3_fixture.h"
#include "store/selection.h"

namespace penstock::cache {
namespace {

class S3WarmTest : public store::S3Test {
 protected:
  void SetUp() override {
    S3Test::SetUp();
    std::string name = std::filesystem::temp_directory_path() / "penstock-warm-XXXXXX";
    path_ = mkdtemp(name.data());
    const auto store = open(direct_options());
    for (const char* key : {"train-0.tar", "train-1.tar", "deep/er/train-2.tar"}) {
      const Result<store::ObjectInfo> info = store->put(key, store::random_bytes(5 * kMiB, 7));
      ASSERT_TRUE(info.ok()) << info.error().to_string();
      infos_.push_back(*info);
    }
  }
  void TearDown() override {
    std::filesystem::remove_all(path_);
    S3Test::TearDown();
  }

  std::shared_ptr<Cache> open_cache() const {
    CacheOptions options;
    options.directories = {path_};
    options.quota = {.bytes = kGiB};
    options.free_floor = {.bytes = 0};
    Result<std::shared_ptr<Cache>> cache = Cache::open(options);
    EXPECT_TRUE(cache.ok()) << cache.error().to_string();
    return cache.ok() ? *cache : nullptr;
  }

  // As `penstock cache warm` does.
  WarmReport warm_by(const std::string& address) {
    const Result<io::LocalFileSystem*> fs = io::process_file_system();
    const Result<store::Selection> selection = store::Selection::parse({address}, **fs);
    EXPECT_TRUE(selection.ok()) << selection.error().to_string();
    const store::S3Options s3 = direct_options();
    auto source = store::open_store(selection->stores().at(0), {.read_only = true, .s3 = &s3});
    EXPECT_TRUE(source.ok()) << source.error().to_string();
    const std::shared_ptr<Cache> cache = open_cache();
    const auto store = make_cached_store(std::move(*source), cache);
    store::ObjectStore* const stores[] = {store.get()};
    Result<WarmReport> report = warm(
        [&](const WarmTake& take) {
          return selection->for_each(
              stores, [&](size_t, const store::ObjectInfo& object) { return take(*store, object); },
              [](const std::string& missing) { ADD_FAILURE() << missing; });
        },
        {});
    EXPECT_TRUE(report.ok()) << report.error().to_string();
    cache->drain();
    return report.ok() ? *report : WarmReport();
  }

  // How many gets reach the server when `key` of `source` is read whole.
  uint64_t gets_of(std::unique_ptr<store::ObjectStore> source, const store::ObjectInfo& info,
                   const std::string& key) {
    auto counting = std::make_unique<store::CountingStore>(std::move(source));
    const store::CountingStore& counted = *counting;
    const auto store = make_cached_store(std::move(counting), open_cache());
    std::vector<std::byte> into(info.size);
    store::GetOptions options;
    options.if_match = info.etag;
    options.size = info.size;
    const Result<store::GetResult> got = store->get(key, 0, into, options);
    EXPECT_TRUE(got.ok()) << got.error().to_string();
    EXPECT_TRUE(into == store::random_bytes(5 * kMiB, 7));
    return counted.counts(store::CallKind::kGet).calls;
  }

  std::string path_;
  std::vector<store::ObjectInfo> infos_;
};

TEST_F(S3WarmTest, ReadersOfAnyPrefixFindIt) {
  const std::string bucket = store::S3TestServer::get().bucket;
  const WarmReport report = warm_by(fmt::format("s3://{}/{}/train-*.tar", bucket, prefix_));
  EXPECT_EQ(report.totals.objects, 2u);
  EXPECT_EQ(report.totals.fetched_bytes, 10 * kMiB);
  EXPECT_EQ(warm_by(fmt::format("s3://{}/{}", bucket, prefix_)).totals.fetched_bytes, 5 * kMiB);

  const auto at = [&](const std::string& prefix) {
    auto store = store::make_s3_store(bucket, prefix, direct_options(), {});
    EXPECT_TRUE(store.ok());
    return std::move(*store);
  };
  EXPECT_EQ(gets_of(at(prefix_), infos_[0], "train-0.tar"), 0u);
  EXPECT_EQ(gets_of(at(prefix_ + "/"), infos_[1], "train-1.tar"), 0u);
  EXPECT_EQ(gets_of(at(""), infos_[1], prefix_ + "/train-1.tar"), 0u);
  EXPECT_EQ(gets_of(at(prefix_ + "/deep"), infos_[2], "er/train-2.tar"), 0u);
  EXPECT_EQ(gets_of(at(prefix_ + "/deep/er"), infos_[2], "train-2.tar"), 0u);
}

}  // namespace
}  // namespace penstock::cache
