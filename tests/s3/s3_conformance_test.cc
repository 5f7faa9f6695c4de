// The S3 store under the tests that all stores pass.
#include "store/conformance.h"

#include <fmt/core.h>

#include <atomic>

#include "s3_fixture.h"

namespace penstock::store {
namespace {

// A bucket of its own: with a prefix keys could not be as long as the tests want them.
class S3Bed : public StoreBed {
 public:
  S3Bed() { EXPECT_THAT(create_bucket(bucket_, S3TestServer::get().options), IsOk()); }
  std::unique_ptr<ObjectStore> open() override { return open_folder(""); }
  std::unique_ptr<ObjectStore> open_folder(const std::string& folder) override {
    auto store = make_s3_store(bucket_, folder, S3TestServer::get().options, {});
    EXPECT_THAT(store, IsOk());
    return store.ok() ? std::move(*store) : nullptr;
  }

 private:
  static std::string next_bucket() {
    static std::atomic<int> next{0};
    return fmt::format("{}-bed{}", S3TestServer::get().bucket, next++);
  }
  const std::string bucket_ = next_bucket();
};

StoreKind s3_kind() {
  StoreKind kind;
  kind.name = "S3";
  kind.make = [] { return std::make_unique<S3Bed>(); };
  kind.remote = true;
  kind.any_bytes = false;
  kind.attributes = Attributes::kMetadata;
  return kind;
}

INSTANTIATE_TEST_SUITE_P(Real, StoreConformance, testing::Values(s3_kind()), store_kind_name);

}  // namespace
}  // namespace penstock::store
