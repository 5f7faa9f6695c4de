#include <future>

#include "cache/test_store.h"
#include "cache/testing.h"
#include "io/memory_file_system.h"
#include "penstock/cache.h"

namespace penstock::cache {
namespace {

// With no more memory than it must have: few windows may be on their way to the drive at once.
TEST(Staging, WaitsForADriveThatIsBusy) {
  constexpr uint64_t kBytes = 96 * kWindow;
  io::MemoryFileSystem fs;
  ASSERT_THAT(fs.make_directory("/drive"), IsOk());
  CacheOptions options;
  options.directories = {"/drive/cache"};
  options.quota = {.bytes = kGiB};
  options.free_floor = {.bytes = 0};
  options.window_bytes = kWindow;
  options.memory_bytes = 16 * kWindow;
  options.file_system = &fs;
  const Result<std::shared_ptr<Cache>> cache = Cache::open(options);
  ASSERT_THAT(cache, IsOk());
  auto counting = std::make_unique<store::CountingStore>(store::make_memory_store());
  store::CountingStore& source = *counting;
  const Result<store::ObjectInfo> object = source.put("a", random_bytes(kBytes, 1));
  ASSERT_THAT(object, IsOk());
  const auto store = make_cached_store(std::move(counting), *cache);

  std::promise<Result<uint64_t>> promise;
  store->async_stage({"a", object->etag, kBytes, 0, kBytes}, /*verify=*/false, {},
                     [&](Result<uint64_t> staged) { promise.set_value(std::move(staged)); });
  const Result<uint64_t> staged = promise.get_future().get();
  ASSERT_THAT(staged, IsOk());
  EXPECT_EQ(*staged, kBytes);
  EXPECT_EQ(source.counts(store::CallKind::kGet).bytes, kBytes) << "what was fetched is kept";
  EXPECT_EQ((*cache)->stats().fills, 96);
}

}  // namespace
}  // namespace penstock::cache
