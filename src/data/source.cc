#include "data/source.h"

#include <fmt/core.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>

#include "data/stoppable_store.h"
#include "store/linked_tree.h"

namespace penstock::data {

namespace {

// Those of linux/magic.h that are served by others, and some that are not listed there.
constexpr std::array<uint32_t, 12> kNetworkFileSystems = {
    NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC,         CIFS_SUPER_MAGIC,      SMB2_SUPER_MAGIC,
    CEPH_SUPER_MAGIC, AFS_SUPER_MAGIC,         CODA_SUPER_MAGIC,      V9FS_MAGIC,
    FUSE_SUPER_MAGIC, 0x0BD00BD0 /* Lustre */, 0x47504653 /* GPFS */, 0x19830326 /* BeeGFS */};

constexpr std::string_view kObjects =
    "file:";  // What addresses of directories of objects begin with.

class LocalShardFile final : public ShardFile {
 public:
  LocalShardFile(std::string name, uint64_t size, std::unique_ptr<io::File> file)
      : name_(std::move(name)), size_(size), file_(std::move(file)) {}

  const std::string& name() const override { return name_; }
  uint64_t size() const override { return size_; }
  bool is_remote() const override { return false; }

  Result<void> read(uint64_t offset, std::span<std::byte> into) override {
    PENSTOCK_TRY(check_range(name_, size_, offset, into.size()));
    const size_t got = PENSTOCK_TRY(file_->read(offset, into));
    if (got < into.size()) return short_read(name_, offset, into.size());
    return {};
  }

  Result<void> check_size() override {
    if (PENSTOCK_TRY(file_->stat()).size >= size_) return {};
    return short_read(name_, 0, size_);
  }

  std::unique_ptr<io::FileMap> map() override {
    Result<std::unique_ptr<io::FileMap>> map = file_->map();
    return map.ok() && (*map)->bytes().size() >= size_ ? std::move(*map) : nullptr;
  }

  void fill_page_cache(uint64_t offset, uint64_t length) override {
    (void)file_->advise(io::Advice::kFill, offset, length);
  }

  void start_read(uint64_t offset, io::MemorySlice into, Done done) override {
    file_->submit(io::IoRequest::read(
        offset, into,
        [this, offset, wanted = into.size, done = std::move(done)](Result<size_t> got) {
          if (got.ok() && *got < wanted) return done(short_read(name_, offset, wanted));
          done(got.ok() ? Result<void>() : std::move(got).error());
        }));
  }

 private:
  const std::string name_;
  const uint64_t size_;
  const std::unique_ptr<io::File> file_;
};

class StoreShardFile final : public ShardFile {
 public:
  StoreShardFile(std::string name, store::ObjectStore& store, const store::ObjectInfo& object,
                 std::stop_token cancel)
      : name_(std::move(name)), store_(store), key_(object.key), size_(object.size) {
    options_.if_match = object.etag;
    options_.size = object.size;
    options_.cancel = std::move(cancel);
  }

  const std::string& name() const override { return name_; }
  uint64_t size() const override { return size_; }
  bool is_remote() const override { return true; }

  Result<void> read(uint64_t offset, std::span<std::byte> into) override {
    PENSTOCK_TRY(check_range(name_, size_, offset, into.size()));
    return checked(store_.get(key_, offset, into, options_), name_, offset, into.size());
  }

  void start_read(uint64_t offset, io::MemorySlice into, Done done) override {
    store_.async_get(
        key_, offset, std::span(into.data, into.size), options_,
        [name = name_, offset, wanted = into.size, done = std::move(done)](
            Result<store::GetResult> got) { done(checked(got, name, offset, wanted)); });
  }

 private:
  static Result<void> checked(const Result<store::GetResult>& got, const std::string& name,
                              uint64_t offset, uint64_t wanted) {
    if (!got.ok()) return got.error();
    if (got->bytes < wanted) return short_read(name, offset, wanted);
    return {};
  }

  const std::string name_;
  store::ObjectStore& store_;
  const std::string key_;
  const uint64_t size_;
  store::GetOptions options_;
};

}  // namespace

std::string Source::path_of(const std::string& key) const {
  return root == "/" ? "/" + key : fmt::format("{}/{}", root, key);
}

std::string Source::version_of(const store::ObjectInfo& object) const {
  return !root.empty() ? fmt::format("{:x}", object.mtime_ns) : object.etag;
}

bool is_network_mount(const std::string& path) {
  struct statfs info {};
  if (::statfs(path.c_str(), &info) != 0) return false;
  return is_network_type(static_cast<uint32_t>(info.f_type));
}

bool is_network_type(uint32_t type) {
  return std::ranges::find(kNetworkFileSystems, type) != kNetworkFileSystems.end();
}

Result<Source> open_source(const std::string& address, io::FileSystem& fs, bool real_file_system,
                           const store::S3Options* s3, const std::shared_ptr<cache::Cache>& cache) {
  Source source;
  source.fs = &fs;
  source.front = address + "/";
  bool over_network = false;
  if (address.starts_with(kTree)) {
    source.root = address.substr(kTree.size());
    source.front = source.root == "/" ? "/" : source.root + "/";
    source.store = PENSTOCK_TRY(store::open_linked_tree(fs, source.root));
    over_network = real_file_system && is_network_mount(source.root);
    source.by_path = !(over_network && cache);
  } else {
    source.store =
        PENSTOCK_TRY(store::open_store(address, {.file_system = &fs, .read_only = true, .s3 = s3}));
    over_network = source.store->capabilities().shared;
    if (address.starts_with(kObjects)) {
      over_network = real_file_system && is_network_mount(address.substr(kObjects.size()));
    }
  }
  source.far = over_network && !cache;
  if (over_network) source.store = make_stoppable(std::move(source.store), source.stop.get_token());
  if (over_network && cache) {
    auto cached = cache::make_cached_store(std::move(source.store), cache);
    source.cached = cached.get();
    source.store = std::move(cached);
  }
  return source;
}

Error short_read(const std::string& name, uint64_t offset, uint64_t wanted) {
  return make_error(ErrorCode::kCorrupt,
                    fmt::format("{} is cut off: it has no {} bytes at {}", name, wanted, offset));
}

Result<void> check_range(const std::string& name, uint64_t shard_bytes, uint64_t offset,
                         uint64_t length) {
  if (offset <= shard_bytes && length <= shard_bytes - offset) return {};
  return make_error(ErrorCode::kInvalid, fmt::format("{} has no {} bytes at {}: it is of {} bytes",
                                                     name, length, offset, shard_bytes));
}

Result<std::unique_ptr<io::File>> open_unchanged(const Source& source,
                                                 const store::ObjectInfo& object,
                                                 io::CacheMode mode) {
  std::unique_ptr<io::File> file = PENSTOCK_TRY(
      source.fs->open(source.path_of(object.key), {.mode = mode, .require_mode = false}));
  const io::FileInfo info = PENSTOCK_TRY(file->stat());
  if (info.size == object.size && info.mtime_ns == object.mtime_ns) return file;
  return make_error(ErrorCode::kChanged,
                    fmt::format("{} changed since the dataset was opened: open it again",
                                source.name_of(object.key)));
}

Result<std::unique_ptr<ShardFile>> open_shard_file(const Source& source,
                                                   const store::ObjectInfo& object,
                                                   io::CacheMode mode, std::stop_token cancel) {
  std::string name = source.name_of(object.key);
  if (!source.by_path) {
    return std::unique_ptr<ShardFile>(std::make_unique<StoreShardFile>(
        std::move(name), *source.store, object, std::move(cancel)));
  }
  std::unique_ptr<io::File> file = PENSTOCK_TRY(open_unchanged(source, object, mode));
  return std::unique_ptr<ShardFile>(
      std::make_unique<LocalShardFile>(std::move(name), object.size, std::move(file)));
}

}  // namespace penstock::data
