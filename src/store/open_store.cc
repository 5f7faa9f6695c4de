#include <fmt/core.h>

#include "penstock/s3.h"
#include "penstock/store.h"
#include "store/s3_store.h"

namespace penstock::store {

namespace {

// "s3://bucket/prefix"; `rest` is what follows "s3://".
Result<std::unique_ptr<ObjectStore>> open_s3_address(std::string_view rest,
                                                     const StoreOptions& options) {
  const size_t slash = std::min(rest.find('/'), rest.size());
  const std::string bucket(rest.substr(0, slash));
  const std::string prefix(rest.substr(std::min(slash + 1, rest.size())));
  const S3Options s3 =
      options.s3 != nullptr ? *options.s3 : PENSTOCK_TRY(s3_options_from_environment());
  return std::unique_ptr<ObjectStore>(
      PENSTOCK_TRY(make_s3_store(bucket, prefix, s3, {.read_only = options.read_only})));
}

}  // namespace

Result<std::unique_ptr<ObjectStore>> open_store(const std::string& address,
                                                const StoreOptions& options) {
  const std::string_view text = address;
  if (text.starts_with("s3://")) return open_s3_address(text.substr(5), options);
  return make_error(
      ErrorCode::kInvalid,
      fmt::format("'{}' is not the address of a store: expected s3://BUCKET/PREFIX", address));
}

}  // namespace penstock::store
