#include "io/memory_file_system.h"

#include <fmt/core.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <set>

#include "base/gate.h"
#include "base/log.h"
#include "io/completion_thread.h"

namespace penstock::io {

struct MemoryCore {
  explicit MemoryCore(MemoryDisk initial) : disk(std::move(initial)) {}

  std::mutex mutex;
  MemoryDisk disk;               // Under `mutex`.
  std::set<InodeId> locked;      // Under `mutex`.
  uint64_t last_ticket = 0;      // Under `mutex`.
  CompletionThread completions;  // Last: its thread uses the others.
};

namespace {

constexpr size_t kListBatch = 64;

class MemoryLock : public FileLock {
 public:
  MemoryLock(MemoryCore& core, InodeId inode) : core_(core), inode_(inode) {}
  ~MemoryLock() override {
    std::lock_guard lock(core_.mutex);
    core_.locked.erase(inode_);
    core_.disk.close(inode_);
  }

 private:
  MemoryCore& core_;
  const InodeId inode_;
};

class MemoryFile : public File {
 public:
  MemoryFile(MemoryCore& core, std::string path, InodeId inode, Access access, CacheMode mode)
      : core_(core), path_(std::move(path)), inode_(inode), access_(access), mode_(mode) {}
  ~MemoryFile() override { (void)close(); }

  InodeId inode() const { return inode_; }

  Result<size_t> read(uint64_t offset, std::span<std::byte> into) override {
    return with_disk([&](MemoryDisk& disk) { return read_from(disk, offset, into); });
  }

  Result<void> write(uint64_t offset, std::span<const std::byte> from) override {
    return with_disk([&](MemoryDisk& disk) { return write_to(disk, offset, from, 0); });
  }

  void submit(std::span<IoRequest> requests) override {
    for (IoRequest& request : requests) start(request);
  }
  using File::submit;

  Result<void> sync() override {
    return with_disk([&](MemoryDisk& disk) { return disk.sync(inode_, true), Result<void>(); });
  }

  Result<void> data_sync() override {
    return with_disk([&](MemoryDisk& disk) { return disk.sync(inode_, false), Result<void>(); });
  }

  Result<void> allocate(uint64_t offset, uint64_t length) override {
    return with_disk([&](MemoryDisk& disk) -> Result<void> {
      const MemoryCall call{"allocate", path_};
      if (access_ == Access::kRead) return call.error(EBADF);
      return disk.allocate(call, inode_, offset, length);
    });
  }

  Result<void> truncate(uint64_t size) override {
    return with_disk([&](MemoryDisk& disk) -> Result<void> {
      const MemoryCall call{"truncate", path_};
      if (access_ == Access::kRead) return call.error(EINVAL);
      return disk.resize(call, inode_, size);
    });
  }

  Result<void> advise(Advice, uint64_t, uint64_t) override {
    return with_disk([](MemoryDisk&) { return Result<void>(); });
  }

  Result<void> set_attributes(std::optional<uint32_t> mode,
                              std::optional<int64_t> mtime_ns) override {
    return with_disk([&](MemoryDisk& disk) {
      return disk.set_attributes(inode_, mode, mtime_ns), Result<void>();
    });
  }

  Result<FileInfo> stat() override {
    return with_disk([&](MemoryDisk& disk) -> Result<FileInfo> { return disk.info(inode_); });
  }

  CacheMode mode() const override { return mode_; }

  Alignment alignment() const override {
    return mode_ == CacheMode::kDirect ? core_.disk.options().direct_alignment : Alignment{};
  }

  Result<void> close() override {
    gate_.close();
    if (closed_.exchange(true)) return {};
    std::lock_guard lock(core_.mutex);
    core_.disk.close(inode_);
    return {};
  }

 private:
  Error closed_error() const { return make_error(ErrorCode::kClosed, path_ + " is closed"); }

  template <typename Body>
  auto with_disk(Body body) -> decltype(body(std::declval<MemoryDisk&>())) {
    const Gate::Pass pass = gate_.enter();
    if (!pass) return closed_error();
    std::lock_guard lock(core_.mutex);
    return body(core_.disk);
  }

  Result<size_t> read_from(MemoryDisk& disk, uint64_t offset, std::span<std::byte> into) const {
    const MemoryCall call{"read", path_};
    if (access_ == Access::kWrite) return call.error(EBADF);
    return disk.read(inode_, offset, into);
  }

  Result<void> write_to(MemoryDisk& disk, uint64_t offset, std::span<const std::byte> from,
                        uint64_t ticket) const {
    const MemoryCall call{"write", path_};
    if (access_ == Access::kRead) return call.error(EBADF);
    return disk.write(call, inode_, offset, from, ticket);
  }

  // Carries the request out now, and leaves only its completion to the engine thread.
  void start(IoRequest& request) {
    CompletionThread::Item item;
    item.done = std::move(request.done);
    item.pass = gate_.enter();
    if (item.pass) {
      std::lock_guard lock(core_.mutex);
      const uint64_t ticket = ++core_.last_ticket;
      item.answer = perform(core_.disk, request, ticket);
      if (request.kind == IoRequest::Kind::kWrite) {
        item.before = [this, ticket] {
          std::lock_guard relock(core_.mutex);
          core_.disk.complete(inode_, ticket);
        };
      }
    } else {
      item.answer = closed_error();
    }
    core_.completions.post(std::move(item));
  }

  Result<size_t> perform(MemoryDisk& disk, const IoRequest& request, uint64_t ticket) const {
    const std::span<std::byte> memory(request.memory.data, request.memory.size);
    switch (request.kind) {
      case IoRequest::Kind::kRead:
        return read_from(disk, request.offset, memory);
      case IoRequest::Kind::kWrite:
        PENSTOCK_TRY(write_to(disk, request.offset, memory, ticket));
        return memory.size();
      case IoRequest::Kind::kSync:
      case IoRequest::Kind::kDataSync:
        disk.sync(inode_, request.kind == IoRequest::Kind::kSync);
        return size_t{0};
    }
    return make_error(ErrorCode::kInvalid, "no such kind of request");
  }

  MemoryCore& core_;
  const std::string path_;
  const InodeId inode_;
  const Access access_;
  const CacheMode mode_;
  Gate gate_;
  std::atomic<bool> closed_ = false;
};

// The mode that a file opened so gets.
Result<CacheMode> choose_mode(const MemoryOptions& memory, const std::string& path,
                              const OpenOptions& options) {
  const bool supported = options.mode == CacheMode::kBuffered ||
                         (options.mode == CacheMode::kDirect && memory.supports_direct) ||
                         (options.mode == CacheMode::kUncached && memory.supports_uncached);
  if (supported) return options.mode;
  const std::string_view name = cache_mode_name(options.mode);
  if (options.require_mode) return errno_error(EOPNOTSUPP, fmt::format("open {} {}", path, name));
  log_once(LogLevel::kWarn, fmt::format("memory-no-{}", name),
           "this mode is not supported; using buffered", {{"mode", name}});
  return CacheMode::kBuffered;
}

}  // namespace

MemoryFileSystem::MemoryFileSystem(const MemoryOptions& options)
    : MemoryFileSystem(MemoryDisk(options)) {}

MemoryFileSystem::MemoryFileSystem(MemoryDisk disk)
    : core_(std::make_unique<MemoryCore>(std::move(disk))) {}

MemoryFileSystem::~MemoryFileSystem() = default;

Result<std::unique_ptr<File>> MemoryFileSystem::open(const std::string& path,
                                                     const OpenOptions& options) {
  std::lock_guard lock(core_->mutex);
  const CacheMode mode = PENSTOCK_TRY(choose_mode(core_->disk.options(), path, options));
  const InodeId inode = PENSTOCK_TRY(core_->disk.open(path, options));
  return std::unique_ptr<File>(
      std::make_unique<MemoryFile>(*core_, path, inode, options.access, mode));
}

Result<FileInfo> MemoryFileSystem::stat(const std::string& path) {
  std::lock_guard lock(core_->mutex);
  return core_->disk.stat(path, true);
}

Result<FileInfo> MemoryFileSystem::stat_link(const std::string& path) {
  std::lock_guard lock(core_->mutex);
  return core_->disk.stat(path, false);
}

Result<std::string> MemoryFileSystem::read_link(const std::string& path) {
  std::lock_guard lock(core_->mutex);
  return core_->disk.read_link(path);
}

Result<void> MemoryFileSystem::rename(const std::string& from, const std::string& to,
                                      RenameMode mode) {
  std::lock_guard lock(core_->mutex);
  return core_->disk.rename(from, to, mode);
}

Result<void> MemoryFileSystem::remove(const std::string& path) {
  std::lock_guard lock(core_->mutex);
  return core_->disk.remove(path);
}

Result<void> MemoryFileSystem::remove_directory(const std::string& path) {
  std::lock_guard lock(core_->mutex);
  return core_->disk.remove_directory(path);
}

Result<void> MemoryFileSystem::make_directory(const std::string& path, mode_t permissions) {
  std::lock_guard lock(core_->mutex);
  return core_->disk.make_directory(path, permissions);
}

Result<void> MemoryFileSystem::make_symlink(const std::string& target, const std::string& path) {
  std::lock_guard lock(core_->mutex);
  return core_->disk.make_symlink(target, path);
}

Result<void> MemoryFileSystem::make_link(const std::string& file, const std::string& path) {
  std::lock_guard lock(core_->mutex);
  return core_->disk.make_link(file, path);
}

Result<void> MemoryFileSystem::list(const std::string& path,
                                    const std::function<bool(const DirectoryEntry&)>& visit) {
  std::unique_lock lock(core_->mutex);
  const InodeId directory = PENSTOCK_TRY(core_->disk.find_directory("list", path));
  std::string last;
  while (true) {
    const auto entries = core_->disk.entries_after(directory, last, kListBatch);
    if (entries.empty()) return {};
    lock.unlock();  // `visit` may call back.
    for (const DirectoryEntry& entry : entries) {
      if (!visit(entry)) return {};
    }
    last = entries.back().name;
    lock.lock();
  }
}

Result<void> MemoryFileSystem::sync_directory(const std::string& path) {
  std::lock_guard lock(core_->mutex);
  return core_->disk.sync_directory(path);
}

Result<void> MemoryFileSystem::sync_file_system(const std::string& path) {
  std::lock_guard lock(core_->mutex);
  return core_->disk.sync_everything(path);
}

Result<SpaceInfo> MemoryFileSystem::space(const std::string& path) {
  std::lock_guard lock(core_->mutex);
  return core_->disk.space(path);
}

Result<std::unique_ptr<FileLock>> MemoryFileSystem::try_lock(const std::string& path) {
  std::lock_guard lock(core_->mutex);
  const InodeId inode = PENSTOCK_TRY(core_->disk.open(
      path, {.access = Access::kReadWrite, .create = Create::kIfMissing, .plain_only = true}));
  if (!core_->locked.insert(inode).second) {
    core_->disk.close(inode);
    return MemoryCall{"lock", path}.error(EAGAIN);
  }
  return std::unique_ptr<FileLock>(std::make_unique<MemoryLock>(*core_, inode));
}

std::string MemoryFileSystem::boot_id() {
  return fmt::format("memory-boot-{}", core_->disk.boot());
}

std::string MemoryFileSystem::description() const {
  return "memory, 1 completion thread";
}

std::unique_ptr<MemoryFileSystem> MemoryFileSystem::clone() const {
  std::unique_lock lock(core_->mutex);
  MemoryDisk copy = core_->disk;
  lock.unlock();
  copy.close_everything();
  return std::unique_ptr<MemoryFileSystem>(new MemoryFileSystem(std::move(copy)));
}

std::unique_ptr<MemoryFileSystem> MemoryFileSystem::power_cut(uint64_t seed) const {
  std::lock_guard lock(core_->mutex);
  return std::unique_ptr<MemoryFileSystem>(new MemoryFileSystem(core_->disk.after_power_cut(seed)));
}

void MemoryFileSystem::fail_sync(File& file) {
  std::lock_guard lock(core_->mutex);
  core_->disk.fail_sync(static_cast<MemoryFile&>(file).inode());
}

void MemoryFileSystem::fail_sync_everything() {
  std::lock_guard lock(core_->mutex);
  core_->disk.fail_sync_everything();
}

}  // namespace penstock::io
