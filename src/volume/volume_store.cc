#include "volume/volume_store.h"

#include <fmt/core.h>

#include <atomic>
#include <cerrno>
#include <random>

#include "store/blocking_store.h"
#include "store/object_address.h"
#include "volume/uuid.h"
#include "volume/volume_listing.h"

namespace penstock::volume {

namespace {

using store::CallOptions;
using store::GetOptions;
using store::GetResult;
using store::ListOptions;
using store::ListPage;
using store::ObjectInfo;
using store::PutOptions;
using store::RemoveFailure;

constexpr int kReadAttempts = 4;
constexpr int kMakeAttempts = 16;
constexpr uint32_t kNewFileMode = 0644;
constexpr uint32_t kNewDirectoryMode = 0755;

struct Found {
  meta::Ino parent = 0;
  std::string name;
};

std::string temporary_name() {
  static const uint32_t process = std::random_device{}();
  static std::atomic<uint64_t> counter = 0;
  return fmt::format("{}{:08x}-{:x}", kTemporaryPrefix, process, counter++);
}

class VolumeStore final : public store::BlockingStore {
 public:
  // `volume` is null where `view` is a past one.
  VolumeStore(std::shared_ptr<VolumeView> view, Volume* volume, const VolumeStoreOptions& options)
      : BlockingStore("store-volume", store::kStoreThreads),
        view_(std::move(view)),
        volume_(volume),
        options_(options) {}
  ~VolumeStore() override { finish_calls(); }

  store::Capabilities capabilities() const override {
    return {.writable = volume_ != nullptr && !options_.read_only, .shared = options_.shared};
  }
  std::string description() const override {
    return "pen://" + options_.name + (options_.folder.empty() ? "" : "/" + options_.folder);
  }
  // A past version is another one: it never changes.
  std::string identity() const override {
    const meta::Version version = view_->names().version();
    const std::string at = version == meta::kLive ? "" : fmt::format("@{}", version);
    return "pen:" + uuid_text(view_->uuid()) + at + "/" + folder();
  }

  Result<ObjectInfo> publish(const std::string& key, meta::Ino ino, const Found& temporary,
                             const PutOptions& options);
  // A new file beside where `key` goes, that nobody sees as an object.
  Result<std::pair<meta::Ino, Found>> make_temporary(const std::string& key);
  Volume& volume() { return *volume_; }

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
  Result<void> do_flush(const CallOptions&, uint64_t) override {
    return volume_ == nullptr ? Result<void>() : volume_->sync();
  }
  Result<std::unique_ptr<store::Upload>> do_start_upload(const std::string& key,
                                                         const PutOptions& options) override;

 private:
  // What all paths begin with.
  std::string folder() const { return options_.folder.empty() ? "" : options_.folder + "/"; }
  // Where the name of the key is; `make`: with its directories.
  Result<Found> find_place(const std::string& key, bool make);
  Result<meta::Inode> enter(meta::Ino directory, std::string_view name, bool make);
  Result<meta::Inode> find(const std::string& key);
  Result<void> remove_one(const std::string& key);
  void remove_empty_folders(const std::string& key);

  const std::shared_ptr<VolumeView> view_;
  Volume* const volume_;
  const VolumeStoreOptions options_;
};

class VolumeUpload final : public store::Upload {
 public:
  VolumeUpload(VolumeStore& store, std::string key, PutOptions options, meta::Ino ino,
               Found temporary)
      : store_(store),
        key_(std::move(key)),
        options_(std::move(options)),
        ino_(ino),
        temporary_(std::move(temporary)) {}
  ~VolumeUpload() override { abort(); }

  Result<void> write(std::span<const std::byte> bytes) override {
    PENSTOCK_TRY(check_open());
    PENSTOCK_TRY(store_.volume().write(ino_, written_, bytes));
    written_ += bytes.size();
    return {};
  }
  Result<ObjectInfo> finish() override {
    PENSTOCK_TRY(check_open());
    Result<ObjectInfo> done = store_.publish(key_, ino_, temporary_, options_);
    if (!done.ok()) abort();
    closed_ = true;
    return done;
  }
  void abort() override {
    if (closed_) return;
    closed_ = true;
    (void)store_.volume().unlink(temporary_.parent, temporary_.name);
  }

 private:
  Result<void> check_open() const {
    if (closed_) return make_error(ErrorCode::kClosed, "the upload is over");
    return store::check_call(options_);
  }

  VolumeStore& store_;
  const std::string key_;
  const PutOptions options_;
  const meta::Ino ino_;
  const Found temporary_;
  uint64_t written_ = 0;
  bool closed_ = false;
};

Result<meta::Inode> VolumeStore::enter(meta::Ino directory, std::string_view name, bool make) {
  Result<meta::Inode> inode = view_->names().lookup(directory, name);
  if (inode.ok() && !inode->is_directory()) {
    // A file in the way: nothing is below it, and nothing can be put there.
    return make_error(make ? ErrorCode::kInvalid : ErrorCode::kNotFound,
                      fmt::format("'{}' is no directory", name));
  }
  if (inode.ok() || !make || inode.error().code != ErrorCode::kNotFound) return inode;
  inode = volume_->create(directory, name, {.mode = S_IFDIR | kNewDirectoryMode});
  // Somebody else made it meanwhile.
  if (!inode.ok() && inode.error().os_errno == EEXIST) return enter(directory, name, false);
  return inode;
}

Result<Found> VolumeStore::find_place(const std::string& key, bool make) {
  const std::string path = folder() + key;
  Found found{meta::kRoot, {}};
  size_t at = 0;
  for (size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', at)) {
    found.parent =
        PENSTOCK_TRY(enter(found.parent, std::string_view(path).substr(at, slash - at), make)).ino;
    at = slash + 1;
  }
  found.name = path.substr(at);
  return found;
}

Result<ListPage> VolumeStore::do_list(const ListOptions& options) {
  const std::string front = folder();
  ListOptions below = options;
  below.prefix = front + options.prefix;
  if (!options.start_after.empty()) below.start_after = front + options.start_after;
  ListPage page = PENSTOCK_TRY(list_page(view_->names(), below));
  for (ObjectInfo& info : page.objects) info.key.erase(0, front.size());
  for (std::string& name : page.folders) name.erase(0, front.size());
  if (page.next) page.next->erase(0, front.size());
  return page;
}

Result<meta::Inode> VolumeStore::find(const std::string& key) {
  const Found found = PENSTOCK_TRY(find_place(key, /*make=*/false));
  if (found.name.starts_with(kTemporaryPrefix)) return not_found(key);
  const Result<meta::Inode> inode = view_->names().lookup(found.parent, found.name);
  const bool is_there = inode.ok() && S_ISREG(inode->mode);
  if (is_there || (!inode.ok() && inode.error().code != ErrorCode::kNotFound)) return inode;
  return not_found(key);
}

Result<GetResult> VolumeStore::do_get(const std::string& key, uint64_t offset,
                                      std::span<std::byte> into, const GetOptions& options) {
  for (int attempt = 0; attempt < kReadAttempts; ++attempt) {
    PENSTOCK_TRY(store::check_call(options));
    const meta::Inode inode = PENSTOCK_TRY(find(key));
    GetResult got{0, info_of(key, inode)};
    if (!options.if_match.empty() && options.if_match != got.info.etag) return changed(key);
    const Result<size_t> read = view_->read(inode.ino, offset, into);
    const Result<meta::Inode> after = view_->names().inode(inode.ino);
    const bool same = after.ok() && after->data_version == inode.data_version;
    if (!read.ok() && same) return read.error();
    if (!read.ok() || !same) continue;  // It was written to, or replaced, meanwhile.
    got.bytes = *read;
    return got;
  }
  return changed(key);
}

Result<ObjectInfo> VolumeStore::do_head(const std::string& key, const CallOptions&) {
  const meta::Inode inode = PENSTOCK_TRY(find(key));
  return info_of(key, inode);
}

Result<std::pair<meta::Ino, Found>> VolumeStore::make_temporary(const std::string& key) {
  if (key.substr(key.rfind('/') + 1).starts_with(kTemporaryPrefix)) {
    return make_error(ErrorCode::kInvalid, "a name of unfinished puts");
  }
  for (int attempt = 1;; ++attempt) {
    Result<Found> place = find_place(key, /*make=*/true);
    if (place.ok()) place->name = temporary_name();
    const Result<meta::Inode> made =
        place.ok() ? volume_->create(place->parent, place->name, {.mode = S_IFREG | kNewFileMode})
                   : Result<meta::Inode>(place.error());
    if (made.ok()) return std::pair(made->ino, std::move(*place));
    // A directory that was just made is empty, and a remove() took it for one that had become so.
    if (made.error().os_errno != ENOENT || attempt == kMakeAttempts) return made.error();
  }
}

Result<ObjectInfo> VolumeStore::publish(const std::string& key, meta::Ino ino,
                                        const Found& temporary, const PutOptions& options) {
  meta::Changes changes;
  if (options.mode) changes.permissions = *options.mode & store::kKeptModeBits;
  if (options.mtime_ns) changes.mtime = *options.mtime_ns;
  if (options.mode || options.mtime_ns) PENSTOCK_TRY(volume_->change(ino, changes));
  const std::string name = key.substr(key.rfind('/') + 1);
  const meta::Rename mode = options.if_absent ? meta::Rename::kNoReplace : meta::Rename::kReplace;
  const Result<meta::Renamed> renamed =
      volume_->rename(temporary.parent, temporary.name, temporary.parent, name, mode);
  if (!renamed.ok() && renamed.error().os_errno == EEXIST) return exists(key);
  if (!renamed.ok() && renamed.error().os_errno == EISDIR) {
    return make_error(ErrorCode::kInvalid, "there is a directory of that name");
  }
  if (!renamed.ok()) return renamed.error();
  return info_of(key, renamed->moved);
}

Result<ObjectInfo> VolumeStore::do_put(const std::string& key, std::span<const std::byte> bytes,
                                       const PutOptions& options) {
  const std::unique_ptr<store::Upload> upload = PENSTOCK_TRY(do_start_upload(key, options));
  PENSTOCK_TRY(upload->write(bytes));
  return upload->finish();
}

Result<std::unique_ptr<store::Upload>> VolumeStore::do_start_upload(const std::string& key,
                                                                    const PutOptions& options) {
  auto [ino, temporary] = PENSTOCK_TRY(make_temporary(key));
  return std::unique_ptr<store::Upload>(
      std::make_unique<VolumeUpload>(*this, key, options, ino, std::move(temporary)));
}

Result<void> VolumeStore::remove_one(const std::string& key) {
  const Result<meta::Inode> inode = find(key);
  if (!inode.ok() && inode.error().code == ErrorCode::kNotFound) return {};
  if (!inode.ok()) return inode.error();
  const Found place = PENSTOCK_TRY(find_place(key, /*make=*/false));
  const Result<meta::Inode> gone = volume_->unlink(place.parent, place.name);
  if (!gone.ok() && gone.error().code != ErrorCode::kNotFound) return gone.error();
  remove_empty_folders(key);
  return {};
}

// Those of the key, the innermost first, up to one that has something in it.
void VolumeStore::remove_empty_folders(const std::string& key) {
  size_t slash = key.rfind('/');
  while (slash != std::string::npos) {
    const Result<Found> place = find_place(key.substr(0, slash), /*make=*/false);
    if (!place.ok() || !volume_->remove_directory(place->parent, place->name).ok()) return;
    slash = slash == 0 ? std::string::npos : key.rfind('/', slash - 1);
  }
}

Result<std::vector<RemoveFailure>> VolumeStore::do_remove(const std::vector<std::string>& keys,
                                                          const CallOptions& options) {
  std::vector<RemoveFailure> failures;
  for (const std::string& key : keys) {
    PENSTOCK_TRY(store::check_call(options));
    const Result<void> removed = remove_one(key);
    if (!removed.ok()) failures.push_back({key, removed.error()});
  }
  return failures;
}

// The same content twice: only metadata.
Result<ObjectInfo> VolumeStore::do_copy(const std::string& from, const std::string& to,
                                        const CallOptions&) {
  const meta::Inode source = PENSTOCK_TRY(find(from));
  const auto [ino, temporary] = PENSTOCK_TRY(make_temporary(to));
  Result<meta::Inode> copied = volume_->copy_range(source.ino, 0, ino, 0, source.size);
  if (copied.ok() && copied->size < source.size) {
    copied = volume_->change(ino, {.size = source.size});  // It ends with a hole.
  }
  PutOptions options;
  options.mtime_ns = source.mtime;
  options.mode = source.mode & store::kKeptModeBits;
  Result<ObjectInfo> done =
      copied.ok() ? publish(to, ino, temporary, options) : Result<ObjectInfo>(copied.error());
  if (!done.ok()) (void)volume_->unlink(temporary.parent, temporary.name);
  return done;
}

}  // namespace

std::unique_ptr<store::ObjectStore> make_volume_store(std::shared_ptr<Volume> volume,
                                                      const VolumeStoreOptions& options) {
  Volume* const writable = volume.get();
  VolumeStoreOptions known = options;
  known.shared |= store::is_object_address(volume->settings().store);
  return std::make_unique<VolumeStore>(std::move(volume), writable, known);
}

std::unique_ptr<store::ObjectStore> make_view_store(std::shared_ptr<VolumeView> view,
                                                    const VolumeStoreOptions& options) {
  return std::make_unique<VolumeStore>(std::move(view), nullptr, options);
}

}  // namespace penstock::volume
