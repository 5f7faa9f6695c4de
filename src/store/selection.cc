#include "store/selection.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/glob.h"

namespace penstock::store {

namespace {

constexpr std::string_view kWild = "*?[{\\";

}  // namespace

Result<Selection> Selection::parse(const std::vector<std::string>& addresses, io::FileSystem& fs) {
  Selection selection;
  for (const std::string& address : addresses) PENSTOCK_TRY(selection.add(address, fs));
  return selection;
}

Result<void> Selection::add(const std::string& address, io::FileSystem& fs) {
  if (auto parts = split_object_address(address)) return add_objects(address, std::move(*parts));
  // Where its directory ends and its keys begin cannot be seen from outside.
  if (address.starts_with("file:")) return add_part(address, address + "/", "");
  if (address.starts_with("tree:")) return add_path("tree:", address.substr(5), fs);
  const size_t colon = address.find(':');
  if (address.empty() || (colon != std::string::npos && address.find_first_of("./") > colon)) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("'{}' names no objects: expected s3://BUCKET/KEY, "
                                  "pen://VOLUME/PATH, tree:PATH, file:PATH or a path",
                                  address));
  }
  return add_path("", address, fs);
}

Result<void> Selection::add_objects(const std::string& address, ObjectAddress parts) {
  if (parts.store.ends_with('/') || parts.store.find_first_of(kWild) != std::string::npos) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("'{}' needs the whole name of a bucket or volume: "
                                  "s3://BUCKET/KEY, with wildcards in KEY only",
                                  address));
  }
  std::string front = parts.store + "/";
  return add_part(std::move(parts.store), std::move(front), std::move(parts.key));
}

Result<void> Selection::add_path(std::string_view scheme, std::string path, io::FileSystem& fs) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const Result<io::FileInfo> there = fs.stat(path);
  if (there.ok() && there->kind == io::FileKind::kDirectory) {
    return add_part(fmt::format("tree:{}", path),
                    fmt::format("{}{}{}", scheme, path, path == "/" ? "" : "/"), "");
  }
  const size_t wild = there.ok() ? path.size() : path.find_first_of(kWild);
  if (wild == std::string::npos && there.error().code != ErrorCode::kNotFound) return there.error();
  if (wild == std::string::npos) {
    return make_error(ErrorCode::kNotFound, fmt::format("there is nothing at '{}'", path));
  }
  const size_t slash = path.rfind('/', wild);
  const std::string front = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  const std::string name = path.substr(front.size());
  return add_part(fmt::format("tree:{}", io::parent_path(front + "x")),
                  fmt::format("{}{}", scheme, front), there.ok() ? glob_escape(name) : name);
}

Result<void> Selection::add_part(std::string store, std::string front, std::string pattern) {
  PENSTOCK_TRY(expand_braces(pattern, kNamesMax));
  const auto known = std::ranges::find(stores_, store);
  Part part{static_cast<size_t>(known - stores_.begin()), std::move(front), std::move(pattern)};
  if (known == stores_.end() && stores_.size() == kStoresMax) {
    return make_error(
        ErrorCode::kInvalid,
        fmt::format("these are in more than {} directories: name them by one pattern, "
                    "in quotes, as in '/data/*/*.tar'",
                    kStoresMax));
  }
  if (known == stores_.end()) stores_.push_back(std::move(store));
  parts_.push_back(std::move(part));
  return {};
}

}  // namespace penstock::store
