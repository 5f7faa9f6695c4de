#include "volume/watched_store.h"

#include "store/passing_store.h"
#include "volume/store_health.h"

namespace penstock::volume {

namespace {

constexpr StoreHealth::Texts kTexts = {.failing = "content cannot be read from the store",
                                       .well = "content is read from the store again"};

class WatchedStore final : public store::PassingStore {
 public:
  WatchedStore(std::unique_ptr<store::ObjectStore> inner, Gauge& failing)
      : PassingStore(std::move(inner)),
        // Calls may be answered while the store ends.
        health_(std::make_shared<StoreHealth>(kTexts, description(), failing)) {}

  void async_get(std::string key, uint64_t offset, std::span<std::byte> into,
                 store::GetOptions options, store::Done<store::GetResult> done) override {
    const auto begun = StoreHealth::Clock::now();
    auto noted = [health = health_, begun, key,
                  done = std::move(done)](Result<store::GetResult> got) {
      if (got.ok()) {
        health->well();
      } else if (is_store_trouble(got.error())) {
        health->failed(got.error(), key, begun);
      }
      done(std::move(got));
    };
    PassingStore::async_get(std::move(key), offset, into, std::move(options), std::move(noted));
  }

 private:
  const std::shared_ptr<StoreHealth> health_;
};

}  // namespace

std::unique_ptr<store::ObjectStore> watch_store(std::unique_ptr<store::ObjectStore> inner,
                                                Gauge& failing) {
  return std::make_unique<WatchedStore>(std::move(inner), failing);
}

}  // namespace penstock::volume
