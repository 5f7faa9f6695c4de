#include <fmt/core.h>

#include <map>

#include "penstock/s3.h"
#include "penstock/store.h"
#include "store/object_address.h"
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

using Schemes = std::map<std::string, OpenScheme, std::less<>>;

Schemes& schemes() {
  static Schemes all = {{"s3", open_s3_address}};
  return all;
}

constexpr std::string_view kMark = "://";

Schemes::const_iterator scheme_of(std::string_view address) {
  const size_t mark = address.find(kMark);
  return mark == std::string_view::npos ? schemes().end() : schemes().find(address.substr(0, mark));
}

}  // namespace

void add_store_scheme(const std::string& name, OpenScheme open) {
  schemes().insert_or_assign(name, open);
}

std::optional<ObjectAddress> split_object_address(std::string_view address) {
  const auto scheme = scheme_of(address);
  if (scheme == schemes().end()) return std::nullopt;
  const size_t slash =
      std::min(address.find('/', scheme->first.size() + kMark.size()), address.size());
  return ObjectAddress{std::string(address.substr(0, slash)),
                       std::string(address.substr(std::min(slash + 1, address.size())))};
}

Result<std::unique_ptr<ObjectStore>> open_store(const std::string& address,
                                                const StoreOptions& options) {
  const std::string_view text = address;
  if (const auto scheme = scheme_of(text); scheme != schemes().end()) {
    return scheme->second(text.substr(scheme->first.size() + kMark.size()), options);
  }
  if (auto local = open_local_store(address, options)) return std::move(*local);
  return make_error(ErrorCode::kInvalid,
                    fmt::format("'{}' is not the address of a store: expected s3://BUCKET/PREFIX, "
                                "file:DIRECTORY, tree:DIRECTORY, a path or memory:",
                                address));
}

}  // namespace penstock::store
