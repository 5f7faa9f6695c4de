#include "volume/immutable_objects.h"

#include "store/passing_store.h"
#include "volume/object_format.h"

namespace penstock::volume {

namespace {

// Of every object: there is but one version.
constexpr const char* kVersion = "immutable";

// Below the cache: whatever the store calls its version, it is the one there is.
class OneVersion final : public store::PassingStore {
 public:
  using PassingStore::PassingStore;

  void async_get(std::string key, uint64_t offset, std::span<std::byte> into,
                 store::GetOptions options, store::Done<store::GetResult> done) override {
    options.if_match.clear();
    options.size.reset();
    PassingStore::async_get(std::move(key), offset, into, std::move(options),
                            [done = std::move(done)](Result<store::GetResult> got) {
                              if (got.ok()) got->info.etag = kVersion;
                              done(std::move(got));
                            });
  }
  void async_put(std::string key, std::span<const std::byte> bytes, store::PutOptions options,
                 store::Done<store::ObjectInfo> done) override {
    PassingStore::async_put(std::move(key), bytes, std::move(options), named(std::move(done)));
  }
  void async_head(std::string key, store::CallOptions options,
                  store::Done<store::ObjectInfo> done) override {
    PassingStore::async_head(std::move(key), std::move(options), named(std::move(done)));
  }

 private:
  static store::Done<store::ObjectInfo> named(store::Done<store::ObjectInfo> done) {
    return [done = std::move(done)](Result<store::ObjectInfo> info) {
      if (info.ok()) info->etag = kVersion;
      done(std::move(info));
    };
  }
};

// Above the cache: says which version is wanted, and how long it is.
class KnownObjects final : public store::PassingStore {
 public:
  KnownObjects(std::unique_ptr<store::ObjectStore> inner, ObjectSize size_of)
      : PassingStore(std::move(inner)), size_of_(std::move(size_of)) {}

  void async_get(std::string key, uint64_t offset, std::span<std::byte> into,
                 store::GetOptions options, store::Done<store::GetResult> done) override {
    options.if_match = kVersion;
    if (const auto id = parse_object_key(key)) options.size = size_of_(*id);
    // A cache says which object it could not read, but not where that is.
    PassingStore::async_get(std::move(key), offset, into, std::move(options),
                            [done = std::move(done), this](Result<store::GetResult> got) {
                              if (got.ok()) return done(std::move(got));
                              done(got.error().with_context(inner().description()));
                            });
  }

 private:
  const ObjectSize size_of_;
};

}  // namespace

std::unique_ptr<store::ObjectStore> cache_objects(std::unique_ptr<store::ObjectStore> objects,
                                                  std::shared_ptr<cache::Cache> cache,
                                                  ObjectSize size_of) {
  return std::make_unique<KnownObjects>(
      cache::make_cached_store(std::make_unique<OneVersion>(std::move(objects)), std::move(cache)),
      std::move(size_of));
}

}  // namespace penstock::volume
