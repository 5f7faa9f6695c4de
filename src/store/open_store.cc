#include <fmt/core.h>

#include <map>

#include "penstock/s3.h"
#include "penstock/store.h"
#include "store/open_local_stores.h"
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

std::map<std::string, OpenScheme, std::less<>>& schemes() {
  static std::map<std::string, OpenScheme, std::less<>> all;
  return all;
}

}  // namespace

void add_store_scheme(const std::string& name, OpenScheme open) {
  schemes().insert_or_assign(name, open);
}

Result<std::unique_ptr<ObjectStore>> open_store(const std::string& address,
                                                const StoreOptions& options) {
  const std::string_view text = address;
  if (text.starts_with("s3://")) return open_s3_address(text.substr(5), options);
  const size_t mark = text.find("://");
  if (mark != std::string_view::npos) {
    const auto added = schemes().find(text.substr(0, mark));
    if (added != schemes().end()) return added->second(text.substr(mark + 3), options);
  }
  if (auto local = open_local_store(address, options)) return std::move(*local);
  return make_error(ErrorCode::kInvalid,
                    fmt::format("'{}' is not the address of a store: expected s3://BUCKET/PREFIX, "
                                "file:DIRECTORY, tree:DIRECTORY, a path or memory:",
                                address));
}

}  // namespace penstock::store
