// The S3 store under the tests that all stores pass.
#include "store/conformance.h"

#include <fmt/core.h>

#include <atomic>

#include "s3_fixture.h"

namespace penstock::store {
namespace {

// A prefix of its own in the tests' bucket.
class S3Bed : public StoreBed {
 public:
  std::unique_ptr<ObjectStore> open() override {
    auto store =
        make_s3_store(S3TestServer::get().bucket, prefix_, S3TestServer::get().options, {});
    EXPECT_THAT(store, IsOk());
    return store.ok() ? std::move(*store) : nullptr;
  }

 private:
  static std::string next_prefix() {
    static std::atomic<int> next{0};
    return fmt::format("bed{}", next++);
  }
  const std::string prefix_ = next_prefix();
};

StoreKind s3_kind() {
  StoreKind kind;
  kind.name = "S3";
  kind.make = [] { return std::make_unique<S3Bed>(); };
  kind.remote = true;
  kind.any_bytes = false;
  return kind;
}

INSTANTIATE_TEST_SUITE_P(Real, StoreConformance, testing::Values(s3_kind()), store_kind_name);

}  // namespace
}  // namespace penstock::store
