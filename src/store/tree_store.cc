// A plain tree of files seen as objects. Nothing in it is ours: other programs read and change it.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>

#include "base/log.h"
#include "store/blocking_store.h"
#include "store/directory_sync.h"
#include "store/identity.h"
#include "store/linked_tree.h"
#include "store/random_number.h"
#include "store/temporary_file.h"
#include "store/tree_cursors.h"
#include "store/tree_files.h"

namespace penstock::store {

namespace {

constexpr size_t kFileNameBytesMax = 255;
// How often a get without if_match begins again when the file changes under it.
constexpr int kReadAttempts = 3;

// Some file systems (FAT, shares of other systems) have no modes, or let nobody set times: the
// object is as good without.
Result<void> keep_attributes(io::File& file, const PutOptions& options,
                             const std::string& description) {
  std::optional<uint32_t> mode = options.mode;
  if (mode) *mode &= kKeptModeBits;
  const auto refused = [](const Result<void>& set) {
    return !set.ok() && (set.error().code == ErrorCode::kPermission ||
                         set.error().code == ErrorCode::kUnsupported);
  };
  Result<void> set = file.set_attributes(mode, options.mtime_ns);
  if (!refused(set)) return set;
  log_once(LogLevel::kWarn, "tree-attributes." + description,
           "its file system does not let modes or times be set: they are not kept",
           {{"store", description}, {"error", set.error().to_string()}});
  if (mode) set = file.set_attributes(std::nullopt, options.mtime_ns);
  return refused(set) ? Result<void>() : set;
}

class TreeStore final : public BlockingStore {
 public:
  TreeStore(io::FileSystem& fs, std::string root, std::string name, std::string identity,
            const TreeOptions& options, bool links_out);
  ~TreeStore() override { finish_calls(); }

  Capabilities capabilities() const override { return {.writable = !options_.read_only}; }
  std::string description() const override { return "tree:" + name_; }
  std::string identity() const override { return identity_; }

 protected:
  Result<GetResult> do_get(const std::string& key, uint64_t offset, std::span<std::byte> into,
                           const GetOptions& options) override;
  Result<ObjectInfo> do_put(const std::string& key, std::span<const std::byte> bytes,
                            const PutOptions& options) override;
  Result<ObjectInfo> do_head(const std::string& key, const CallOptions& options) override;
  Result<ListPage> do_list(const ListOptions& options) override;
  Result<std::vector<RemoveFailure>> do_remove(const std::vector<std::string>& keys,
                                               const CallOptions& options) override;
  Result<ObjectInfo> do_copy(const std::string& from, const std::string& to,
                             const CallOptions& options) override;
  uint64_t flush_failures() const override { return flush_failures_.load(); }
  Result<void> do_flush(const CallOptions& options, uint64_t failures_before) override;
  Result<std::unique_ptr<Upload>> do_start_upload(const std::string& key,
                                                  const PutOptions& options) override;

 private:
  Result<TreeFile> find(const std::string& key) const;
  Result<std::unique_ptr<io::File>> open(const std::string& key, io::FileInfo& info) const;
  Result<std::unique_ptr<TemporaryFile>> start_file(const std::string& key);
  Result<void> make_folder(std::string_view folder);
  Error in_the_way(std::string_view key, std::string_view what) const;
  Result<ObjectInfo> publish(TemporaryFile& file, const std::string& key,
                             const PutOptions& options);
  Result<void> remove_one(const std::string& key);

  io::FileSystem& fs_;
  const std::string root_;
  const std::string name_;  // As the caller wrote it.
  const std::string identity_;
  const TreeOptions options_;
  const uint64_t session_;
  const TreeFiles files_;
  std::atomic<uint64_t> counter_{0};

  std::mutex flush_mutex_;
  DirectorySync directories_;
  std::atomic<uint64_t> flush_failures_{0};

  TreeCursors cursors_;
};

TreeStore::TreeStore(io::FileSystem& fs, std::string root, std::string name, std::string identity,
                     const TreeOptions& options, bool links_out)
    : BlockingStore("store-tree", kStoreThreads),
      fs_(fs),
      root_(std::move(root)),
      name_(std::move(name)),
      identity_(std::move(identity)),
      options_(options),
      session_(random_number()),
      files_(fs, root_, links_out),
      directories_(fs, root_, /*directories_stay=*/false) {}

Result<TreeFile> TreeStore::find(const std::string& key) const {
  Result<TreeFile> file = files_.find(key);
  if (!file.ok() && is_missing(file.error())) return not_found(key);
  return file;
}

Result<std::unique_ptr<io::File>> TreeStore::open(const std::string& key,
                                                  io::FileInfo& info) const {
  Result<std::unique_ptr<io::File>> file = files_.open(key);
  if (!file.ok() && is_missing(file.error())) return not_found(key);
  if (file.ok()) info = PENSTOCK_TRY((*file)->stat());
  return file;
}

Result<GetResult> TreeStore::do_get(const std::string& key, uint64_t offset,
                                    std::span<std::byte> into, const GetOptions& options) {
  for (int attempt = 0; attempt < kReadAttempts; ++attempt) {
    io::FileInfo before;
    const std::unique_ptr<io::File> file = PENSTOCK_TRY(open(key, before));
    GetResult got{0, tree_object_info(key, before)};
    if (!options.if_match.empty() && options.if_match != got.info.etag) return changed(key);
    got.bytes = PENSTOCK_TRY(read_in_steps(*file, before.size, offset, into, options));
    const io::FileInfo after = PENSTOCK_TRY(file->stat());
    if (after.size == before.size && after.mtime_ns == before.mtime_ns) return got;
    if (!options.if_match.empty()) return changed(key);
  }
  return make_error(ErrorCode::kChanged,
                    fmt::format("'{}' in {} keeps changing while it is read", key, description()),
                    true);
}

Result<ObjectInfo> TreeStore::do_head(const std::string& key, const CallOptions&) {
  return tree_object_info(key, PENSTOCK_TRY(find(key)).info);
}

Error TreeStore::in_the_way(std::string_view key, std::string_view what) const {
  return make_error(ErrorCode::kInvalid,
                    fmt::format("{} is {}: a tree of files cannot hold both an object and objects "
                                "below its key",
                                files_.path_of(key), what));
}

Result<void> TreeStore::make_folder(std::string_view folder) {
  for (size_t slash = folder.find('/'); slash != std::string_view::npos;
       slash = folder.find('/', slash + 1)) {
    const std::string_view at = folder.substr(0, slash);
    Result<io::FileInfo> info = files_.look(at);
    if (!info.ok() && !is_missing(info.error())) return info.error();
    if (!info.ok()) {
      const std::string path = files_.path_of(at);
      const Result<void> made = fs_.make_directory(path);
      if (!made.ok() && made.error().code != ErrorCode::kExists) return made;
      directories_.changed(io::parent_path(path));
      continue;
    }
    if (info->kind == io::FileKind::kSymlink) {
      return make_error(ErrorCode::kInvalid,
                        fmt::format("{} is a symbolic link, and objects are not put through links",
                                    files_.path_of(at)));
    }
    if (info->kind != io::FileKind::kDirectory) return in_the_way(at, "a file");
  }
  return {};
}

Result<std::unique_ptr<TemporaryFile>> TreeStore::start_file(const std::string& key) {
  size_t begin = 0;
  while (begin < key.size()) {
    const size_t end = std::min(key.find('/', begin), key.size());
    const std::string_view part = std::string_view(key).substr(begin, end - begin);
    if (part.size() > kFileNameBytesMax || part.starts_with(kTreeTemporaryPrefix)) {
      return make_error(ErrorCode::kInvalid,
                        fmt::format("'{}' cannot be a key in {}: its parts are file names of up to "
                                    "{} bytes that do not begin with {}",
                                    key, description(), kFileNameBytesMax, kTreeTemporaryPrefix));
    }
    begin = end + 1;
  }
  const std::string path = files_.path_of(
      fmt::format("{}{}{:016x}-{}", folder_of(key), kTreeTemporaryPrefix, session_, ++counter_));
  // Mostly the folder is there, and one call does it. Else make_folder() finds out what is wrong; a
  // link above the root, made since the store was opened, is not.
  if (files_.root_is_real()) {
    Result<std::unique_ptr<TemporaryFile>> file =
        TemporaryFile::create(fs_, path, /*follow_links=*/false);
    if (file.ok() || !(is_missing(file.error()) || file.error().os_errno == ELOOP)) return file;
  }
  PENSTOCK_TRY(make_folder(folder_of(key)));
  return TemporaryFile::create(fs_, path);
}

Result<ObjectInfo> TreeStore::publish(TemporaryFile& file, const std::string& key,
                                      const PutOptions& options) {
  const bool keeps = options.mode || options.mtime_ns;
  // Last, as writing changes the time.
  if (keeps) PENSTOCK_TRY(keep_attributes(file.file(), options, description()));
  // A failure is final: the file is removed, never synced again.
  if (options_.sync_before_publish) {
    PENSTOCK_TRY(keeps ? file.file().sync() : file.file().data_sync());
  }
  const io::FileInfo info = PENSTOCK_TRY(file.file().stat());
  PENSTOCK_TRY(file.file().close());
  PENSTOCK_TRY(check_call(options));
  const std::string path = files_.path_of(key);
  const Result<void> moved =
      file.move_to(path, options.if_absent ? io::RenameMode::kNoReplace : io::RenameMode::kReplace);
  if (!moved.ok()) {
    const Result<io::FileInfo> there = files_.look(key);
    if (there.ok() && there->kind == io::FileKind::kDirectory)
      return in_the_way(key, "a directory");
    return moved.error().code == ErrorCode::kExists ? exists(key) : moved.error();
  }
  directories_.changed(io::parent_path(path));
  return tree_object_info(key, info);
}

Result<ObjectInfo> TreeStore::do_put(const std::string& key, std::span<const std::byte> bytes,
                                     const PutOptions& options) {
  const std::unique_ptr<TemporaryFile> file = PENSTOCK_TRY(start_file(key));
  PENSTOCK_TRY(file->write(bytes, options));
  return publish(*file, key, options);
}

Result<ObjectInfo> TreeStore::do_copy(const std::string& from, const std::string& to,
                                      const CallOptions& options) {
  io::FileInfo before;
  const std::unique_ptr<io::File> source = PENSTOCK_TRY(open(from, before));
  const std::unique_ptr<TemporaryFile> file = PENSTOCK_TRY(start_file(to));
  PENSTOCK_TRY(file->copy(*source, before.size, options));
  const io::FileInfo after = PENSTOCK_TRY(source->stat());
  if (after.size != before.size || after.mtime_ns != before.mtime_ns) return changed(from);
  PutOptions put;
  static_cast<CallOptions&>(put) = options;
  put.mtime_ns = before.mtime_ns;
  put.mode = before.mode;
  return publish(*file, to, put);
}

Result<std::unique_ptr<Upload>> TreeStore::do_start_upload(const std::string& key,
                                                           const PutOptions& options) {
  std::unique_ptr<TemporaryFile> file = PENSTOCK_TRY(start_file(key));
  return make_file_upload(std::move(file), options,
                          [this, key](TemporaryFile& whole, const PutOptions& put) {
                            return publish(whole, key, put);
                          });
}

Result<void> TreeStore::remove_one(const std::string& key) {
  // A directory, or a link that leads elsewhere, is no object: it is not there and stays there.
  const Result<TreeFile> there = files_.find(key);
  if (!there.ok()) return is_missing(there.error()) ? Result<void>() : there.error();
  const std::string path = files_.path_of(key);
  const Result<void> removed = fs_.remove(path);
  if (!removed.ok()) return is_missing(removed.error()) ? Result<void>() : removed;
  directories_.changed(io::parent_path(path));
  return {};
}

Result<std::vector<RemoveFailure>> TreeStore::do_remove(const std::vector<std::string>& keys,
                                                        const CallOptions& options) {
  std::vector<RemoveFailure> failures;
  for (const std::string& key : keys) {
    PENSTOCK_TRY(check_call(options));
    const Result<void> removed = remove_one(key);
    if (!removed.ok()) failures.push_back({key, removed.error()});
  }
  return failures;
}

Result<void> TreeStore::do_flush(const CallOptions& options, uint64_t failures_before) {
  std::lock_guard turn(flush_mutex_);
  PENSTOCK_TRY(check_call(options));
  Result<void> synced = directories_.sync(/*files_too=*/!options_.sync_before_publish);
  if (!synced.ok()) {
    ++flush_failures_;
    return synced.error().with_context(fmt::format("flush of {}", description()));
  }
  if (flush_failures_ == failures_before) return {};
  return make_error(ErrorCode::kIo,
                    fmt::format("another flush of {} failed meanwhile: what was put before it must "
                                "be put again",
                                description()));
}

Result<ListPage> TreeStore::do_list(const ListOptions& options) {
  std::unique_ptr<TreeCursor> cursor = cursors_.take(options, std::chrono::steady_clock::now());
  if (!cursor) cursor = std::make_unique<TreeCursor>(files_, options);
  ListPage page = PENSTOCK_TRY(cursor->next_page(options));
  if (page.next) cursors_.keep(std::move(cursor), std::chrono::steady_clock::now());
  return page;
}

Result<std::unique_ptr<ObjectStore>> open_tree(io::FileSystem& fs, const std::string& directory,
                                               const TreeOptions& options, bool links_out) {
  std::string name = directory;
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  if (name.empty()) {
    return make_error(ErrorCode::kInvalid, "the directory of a tree store is a path, not nothing");
  }
  const std::string root = name.starts_with('/') ? PENSTOCK_TRY(real_path(fs, name)) : name;
  const io::FileInfo info = PENSTOCK_TRY(fs.stat(root));
  if (info.kind != io::FileKind::kDirectory) {
    return make_error(ErrorCode::kInvalid, fmt::format("{} is not a directory", name));
  }
  const std::string identity = PENSTOCK_TRY(directory_identity(fs, "tree", root));
  return std::unique_ptr<ObjectStore>(
      std::make_unique<TreeStore>(fs, root, name, identity, options, links_out));
}

}  // namespace

Result<std::unique_ptr<ObjectStore>> open_tree_store(io::FileSystem& fs,
                                                     const std::string& directory,
                                                     const TreeOptions& options) {
  return open_tree(fs, directory, options, /*links_out=*/false);
}

Result<std::unique_ptr<ObjectStore>> open_linked_tree(io::FileSystem& fs,
                                                      const std::string& directory) {
  return open_tree(fs, directory, {.read_only = true}, /*links_out=*/true);
}

}  // namespace penstock::store
