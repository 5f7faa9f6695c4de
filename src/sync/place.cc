#include "sync/place.h"

#include <fmt/core.h>

#include <filesystem>

#include "store/object_address.h"
#include "store/tree_files.h"

namespace penstock::sync {

namespace {

bool has_scheme(std::string_view address) {
  const size_t colon = address.find(':');
  return colon != std::string_view::npos && address.find_first_of("./") > colon;
}

// What is relative is so to the working directory of now, not of later.
Result<std::string> absolute_path(std::string_view path, bool local) {
  if (path.empty()) return make_error(ErrorCode::kInvalid, "an empty path names no place");
  if (path.starts_with('/')) return std::string(path);
  if (!local) return "/" + std::string(path);
  std::error_code failed;
  const std::filesystem::path here = std::filesystem::current_path(failed);
  if (failed) return errno_error(failed.value(), "the working directory");
  return (here / path).string();
}

std::string last_name(std::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));
}

// Without links, as far as it is there.
Result<std::string> real_path_of_missing(io::FileSystem& fs, const std::string& path) {
  std::string missing;  // What follows `at`, with '/' before it.
  std::string at = path;
  while (true) {
    const Result<std::string> real = store::real_path(fs, at);
    if (real.ok()) return (*real == "/" ? "" : *real) + missing;
    while (at.ends_with('/')) at.pop_back();
    const std::string name = last_name(at);
    const bool can_be_made = store::is_missing(real.error()) && name != "." && name != "..";
    if (!can_be_made) return real.error();
    missing = "/" + name + missing;
    at = io::parent_path(at);
  }
}

Result<std::unique_ptr<Place>> open_missing(io::FileSystem& fs, const std::string& path,
                                            const PlaceOptions& options) {
  if (!options.create) {
    return make_error(ErrorCode::kNotFound, fmt::format("{}: no such file or directory", path));
  }
  auto place = std::make_unique<Place>();
  place->file_system = &fs;
  place->directory = PENSTOCK_TRY(real_path_of_missing(fs, path));
  place->missing = true;
  return place;
}

Result<std::unique_ptr<Place>> open_path(std::string_view given, const PlaceOptions& options) {
  const bool local = options.store.file_system == nullptr;
  io::FileSystem* const chosen =
      local ? PENSTOCK_TRY(io::process_file_system()) : options.store.file_system;
  io::FileSystem& fs = *chosen;
  const std::string path = PENSTOCK_TRY(absolute_path(given, local));
  const Result<io::FileInfo> info = fs.stat(path);
  if (!info.ok() && info.error().code == ErrorCode::kNotFound) {
    return open_missing(fs, path, options);
  }
  if (!info.ok()) return info.error();
  auto place = std::make_unique<Place>();
  place->file_system = &fs;
  if (info->kind == io::FileKind::kFile) {
    place->directory = PENSTOCK_TRY(store::real_path(fs, io::parent_path(path)));
    place->only_key = last_name(path);
  } else if (info->kind == io::FileKind::kDirectory) {
    place->directory = PENSTOCK_TRY(store::real_path(fs, path));
  } else {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("{} is neither a directory nor a regular file", path));
  }
  place->store =
      PENSTOCK_TRY(store::open_tree_store(fs, place->directory, {.read_only = options.read_only}));
  return place;
}

// Keys that no store can name count too: marks of folders, for one. They are told of when it is walked.
Result<bool> has_objects(store::ObjectStore& store, const store::CallOptions& call) {
  store::ListOptions list;
  list.deadline = call.deadline;
  list.cancel = call.cancel;
  list.limit = 1;
  const store::ListPage page = PENSTOCK_TRY(store.list(list));
  return !page.objects.empty() || !page.odd.empty() || page.next.has_value();
}

// In a bucket, or in a volume.
Result<std::unique_ptr<Place>> open_objects(const std::string& address,
                                            const PlaceOptions& options) {
  auto place = std::make_unique<Place>();
  store::StoreOptions store_options = options.store;
  store_options.read_only = options.read_only;
  place->store = PENSTOCK_TRY(store::open_store(address, store_options));
  if (options.create) return place;
  const store::CallOptions call{.cancel = options.stop};
  const bool is_folder = PENSTOCK_TRY(has_objects(*place->store, call));
  if (is_folder) return place;
  // Nothing is in such a folder. A bucket may be empty; otherwise: is it one object?
  const auto parts = store::split_object_address(address);
  if (!parts || parts->key.empty()) return place;
  const auto nothing = [&] {
    return make_error(
        ErrorCode::kNotFound,
        fmt::format("{}: there is no such object, and none in a folder of that name", address));
  };
  if (address.ends_with('/')) return nothing();
  const size_t slash = address.rfind('/');
  place->only_key = address.substr(slash + 1);
  place->store = PENSTOCK_TRY(store::open_store(address.substr(0, slash), store_options));
  const Result<store::ObjectInfo> info = place->store->head(place->only_key, call);
  if (!info.ok() && info.error().code == ErrorCode::kNotFound) return nothing();
  if (!info.ok()) return info.error();
  return place;
}

std::string with_slash(std::string path) {
  if (!path.ends_with('/')) path += '/';
  return path;
}

// Ends with '/'. The same for two places only when they are one.
std::string address_of(const Place& place) {
  if (place.file_system != nullptr) return "tree:" + with_slash(place.directory);
  return with_slash(place.store->identity());
}

// Whether `directory` is `above` or below it, by what is really there: a directory can have several
// paths.
bool is_inside(io::FileSystem& fs, std::string directory, const std::string& above) {
  const Result<io::FileInfo> wanted = fs.stat(above);
  if (!wanted.ok()) return false;
  while (true) {
    const Result<io::FileInfo> info = fs.stat(directory);
    if (info.ok() && info->inode == wanted->inode && info->device == wanted->device) return true;
    if (directory == "/" || directory == ".") return false;
    directory = io::parent_path(directory);
  }
}

}  // namespace

std::string Place::description() const {
  std::string text = file_system != nullptr ? directory : store->description();
  if (!only_key.empty()) text += "/" + only_key;
  return text;
}

Result<std::unique_ptr<Place>> open_place(const std::string& address, const PlaceOptions& options) {
  if (store::is_object_address(address)) return open_objects(address, options);
  if (address.starts_with("tree:")) return open_path(address.substr(5), options);
  if (!has_scheme(address)) return open_path(address, options);
  return make_error(ErrorCode::kInvalid,
                    fmt::format("'{}' cannot be copied from or to: expected a path, "
                                "tree:DIRECTORY, s3://BUCKET/PREFIX or pen://VOLUME/FOLDER",
                                address));
}

Result<void> check_apart(const Place& from, const Place& to) {
  const auto refuse = [&](std::string_view why) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("{} and {} {}", from.description(), to.description(), why));
  };
  const std::string source = address_of(from);
  const std::string target = address_of(to);
  if (!from.only_key.empty()) {
    const std::string& name = to.only_key.empty() ? from.only_key : to.only_key;
    if (source + from.only_key == target + name) return refuse("are the same");
    return {};
  }
  if (source == target) return refuse("are the same");
  if (source.starts_with(target) || target.starts_with(source)) {
    return refuse("lie one inside the other: what is copied would be copied again");
  }
  const bool one_file_system = from.file_system != nullptr && from.file_system == to.file_system;
  if (one_file_system && (is_inside(*from.file_system, from.directory, to.directory) ||
                          is_inside(*from.file_system, to.directory, from.directory))) {
    return refuse("are the same directory by another path, or lie one inside the other");
  }
  return {};
}

}  // namespace penstock::sync
