// The cached store under the tests that all stores pass.
#include <atomic>

#include "io/memory_file_system.h"
#include "penstock/cache.h"
#include "store/conformance.h"

namespace penstock::cache {
namespace {

class CachedBed : public store::StoreBed {
 public:
  CachedBed() {
    EXPECT_THAT(drive_.make_directory("/drive"), IsOk());
    EXPECT_THAT(files_.make_directory(path_), IsOk());
  }

  std::unique_ptr<store::ObjectStore> open() override {
    if (!cache_) {
      CacheOptions options;
      options.directories = {"/drive/cache"};
      options.quota = {.bytes = 64 * kMiB};
      options.free_floor = {.bytes = 0};
      options.window_bytes = 256 * kKiB;
      options.memory_bytes = 8 * kMiB;
      options.file_system = &drive_;
      Result<std::shared_ptr<Cache>> cache = Cache::open(options);
      EXPECT_THAT(cache, IsOk());
      cache_ = *cache;
    }
    auto source = store::open_file_store(files_, path_);
    EXPECT_THAT(source, IsOk());
    return make_cached_store(std::move(*source), cache_);
  }

 private:
  static std::string next_path() {
    static std::atomic<int> next{0};
    return "/store" + std::to_string(next++);
  }

  const std::string path_ = next_path();  // By which each is told apart.
  io::MemoryFileSystem drive_;
  io::MemoryFileSystem files_;
  std::shared_ptr<Cache> cache_;
};

store::StoreKind cached_kind() {
  store::StoreKind kind;
  kind.name = "Cached";
  kind.make = [] { return std::make_unique<CachedBed>(); };
  return kind;
}

}  // namespace
}  // namespace penstock::cache

namespace penstock::store {
INSTANTIATE_TEST_SUITE_P(Cache, StoreConformance, ::testing::Values(cache::cached_kind()),
                         store_kind_name);
}  // namespace penstock::store
