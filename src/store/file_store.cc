#include "store/file_store.h"

#include <fmt/core.h>

#include <algorithm>

#include "store/identity.h"
#include "store/random_number.h"

namespace penstock::store {

namespace {

constexpr size_t kRemovesPerLock = 256;
// The longest escaped key, and what stands around it, within Linux's limit of 4095 bytes.
constexpr size_t kRootBytesMax = 900;

bool is_missing(const Error& error) {
  return error.code == ErrorCode::kNotFound;
}

}  // namespace

FileStore::FileStore(io::FileSystem& fs, std::string root, std::string identity,
                     std::optional<TemporaryDirectory> temporary)
    : BlockingStore("store-file", kStoreThreads),
      fs_(fs),
      root_(std::move(root)),
      identity_(std::move(identity)),
      pending_(fmt::format("{}/pending-{}", root_, fs.boot_id())),
      promoting_(fmt::format("{}/promoting-{}", root_, fs.boot_id())),
      objects_(root_ + "/objects"),
      losses_(fmt::format("{}/losses-{}", root_, fs.boot_id())),
      temporary_(std::move(temporary)),
      session_(random_number()),
      names_lock_(fs, root_ + "/lock"),
      flush_lock_(fs, root_ + "/flush-lock"),
      directories_(fs, root_, /*directories_stay=*/true),
      losses_seen_(io::read_file(fs, losses_, kKiB).value_or("")) {}

FileStore::~FileStore() {
  finish_calls();
  if (temporary_) (void)io::remove_tree(fs_, temporary_->path);  // Or whoever opens next does.
}

std::string FileStore::object_path(const std::string& key) const {
  return fmt::format("{}/{}/{}", objects_, fan_out(key), key_to_path(key));
}

std::vector<std::string> FileStore::places(const std::string& key) const {
  const std::string path = key_to_path(key);
  return {pending_ + "/" + path, promoting_ + "/" + path, object_path(key)};
}

Result<OpenObject> FileStore::find(const std::string& key) {
  for (const std::string& place : places(key)) {
    Result<OpenObject> object = open_object(fs_, place, key);
    if (object.ok() || !is_missing(object.error())) return object;
  }
  return not_found(key);
}

Result<io::FileInfo> FileStore::stat(const std::string& key) {
  for (const std::string& place : places(key)) {
    Result<io::FileInfo> info = fs_.stat_link(place);
    if (info.ok() || !is_missing(info.error())) return info;
  }
  return not_found(key);
}

Result<GetResult> FileStore::do_get(const std::string& key, uint64_t offset,
                                    std::span<std::byte> into, const GetOptions& options) {
  const OpenObject object = PENSTOCK_TRY(find(key));
  if (!options.if_match.empty() && options.if_match != object.info.etag) return changed(key);
  const uint64_t size = object.info.size;
  const size_t read = PENSTOCK_TRY(read_in_steps(*object.file, size, offset, into, options));
  if (read < into.size() && offset + read < size) {
    return make_error(ErrorCode::kCorrupt, fmt::format("the file of '{}' was truncated", key));
  }
  return GetResult{read, object.info};
}

Result<ObjectInfo> FileStore::do_head(const std::string& key, const CallOptions&) {
  return PENSTOCK_TRY(find(key)).info;
}

Result<std::unique_ptr<TemporaryFile>> FileStore::start_object() {
  return TemporaryFile::create(fs_, fmt::format("{}/{}", temporary_->path, ++counter_));
}

Result<ObjectInfo> FileStore::publish(TemporaryFile& file, const std::string& key,
                                      const PutOptions& options) {
  const ObjectInfo info = PENSTOCK_TRY(seal_object(file, key, {session_, ++counter_}));
  const StoreLock::Held names = PENSTOCK_TRY(names_lock_.acquire(options));
  if (options.if_absent) {
    const Result<io::FileInfo> there = stat(key);
    if (there.ok()) return exists(key);
    if (!is_missing(there.error())) return there.error();
  }
  const std::string path = pending_ + "/" + key_to_path(key);
  Result<void> moved = file.move_to(path, io::RenameMode::kReplace);
  if (!moved.ok() && is_missing(moved.error())) {
    PENSTOCK_TRY(io::make_directories(fs_, io::parent_path(path)));
    moved = file.move_to(path, io::RenameMode::kReplace);
  }
  if (!moved.ok()) return moved.error();
  // Another process may flush it, and die before its directory is synced: then ours must sync it.
  directories_.changed(io::parent_path(object_path(key)));
  note_put(key);
  return info;
}

Result<ObjectInfo> FileStore::do_put(const std::string& key, std::span<const std::byte> bytes,
                                     const PutOptions& options) {
  const std::unique_ptr<TemporaryFile> file = PENSTOCK_TRY(start_object());
  PENSTOCK_TRY(file->write(bytes, options));
  return publish(*file, key, options);
}

Result<ObjectInfo> FileStore::do_copy(const std::string& from, const std::string& to,
                                      const CallOptions& options) {
  const OpenObject source = PENSTOCK_TRY(find(from));
  const std::unique_ptr<TemporaryFile> file = PENSTOCK_TRY(start_object());
  PENSTOCK_TRY(file->copy(*source.file, source.info.size, options));
  PutOptions put;
  static_cast<CallOptions&>(put) = options;
  return publish(*file, to, put);
}

Result<std::unique_ptr<Upload>> FileStore::do_start_upload(const std::string& key,
                                                           const PutOptions& options) {
  std::unique_ptr<TemporaryFile> file = PENSTOCK_TRY(start_object());
  return make_file_upload(std::move(file), options,
                          [this, key](TemporaryFile& whole, const PutOptions& put) {
                            return publish(whole, key, put);
                          });
}

// Requires names_lock_.
Result<void> FileStore::remove_one(const std::string& key) {
  std::vector<std::string> oldest_first = places(key);
  std::reverse(oldest_first.begin(), oldest_first.end());
  for (const std::string& place : oldest_first) {
    const Result<void> removed = fs_.remove(place);
    if (!removed.ok() && !is_missing(removed.error())) return removed;
    if (removed.ok() && place == oldest_first.front()) {
      directories_.changed(io::parent_path(place));
    }
  }
  return {};
}

Result<std::vector<RemoveFailure>> FileStore::do_remove(const std::vector<std::string>& keys,
                                                        const CallOptions& options) {
  std::vector<RemoveFailure> failures;
  for (size_t begin = 0; begin < keys.size(); begin += kRemovesPerLock) {
    const StoreLock::Held names = PENSTOCK_TRY(names_lock_.acquire(options));
    const size_t end = std::min(keys.size(), begin + kRemovesPerLock);
    for (size_t i = begin; i < end; ++i) {
      const Result<void> removed = remove_one(keys[i]);
      if (!removed.ok()) failures.push_back({keys[i], removed.error()});
    }
    note_removed();
  }
  return failures;
}

Result<std::unique_ptr<ObjectStore>> open_file_store(io::FileSystem& fs,
                                                     const std::string& directory, bool read_only) {
  std::string root = directory;
  while (root.size() > 1 && root.back() == '/') root.pop_back();
  if (root.empty() || root.size() > kRootBytesMax) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("the directory of a file store is a path of 1 to {} bytes; this "
                                  "one has {}",
                                  kRootBytesMax, root.size()));
  }
  PENSTOCK_TRY(prepare_file_store(fs, root, read_only));
  std::string identity = PENSTOCK_TRY(directory_identity(fs, "file", root));
  std::optional<TemporaryDirectory> temporary;
  if (!read_only) {
    PENSTOCK_TRY(discard_leftovers(fs, root));
    temporary = PENSTOCK_TRY(make_temporary_directory(fs, root));
  }
  return std::unique_ptr<ObjectStore>(
      std::make_unique<FileStore>(fs, std::move(root), std::move(identity), std::move(temporary)));
}

}  // namespace penstock::store
