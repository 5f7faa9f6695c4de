#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <optional>
#include <system_error>

#include "base/descriptor.h"
#include "base/log.h"
#include "io/local_file.h"
#include "penstock/io.h"

// Newer than the headers of the systems we build on.
#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x00000080
#endif

namespace penstock::io {

namespace {

constexpr uint32_t kAlignmentDefault = 4096;

int open_flags(const OpenOptions& options) {
  int flags = O_CLOEXEC;
  switch (options.access) {
    case Access::kRead:
      flags |= O_RDONLY;
      break;
    case Access::kWrite:
      flags |= O_WRONLY;
      break;
    case Access::kReadWrite:
      flags |= O_RDWR;
      break;
  }
  switch (options.create) {
    case Create::kNever:
      break;
    case Create::kIfMissing:
      flags |= O_CREAT;
      break;
    case Create::kMustNotExist:
      flags |= O_CREAT | O_EXCL;
      break;
    case Create::kTruncate:
      flags |= O_CREAT | O_TRUNC;
      break;
  }
  // A pipe without another end would make open wait.
  if (options.plain_only) flags |= O_NOFOLLOW | O_NONBLOCK;
  return flags;
}

int open_without_links(const char* path, int flags, mode_t permissions) {
  open_how how{};
  how.flags = static_cast<uint64_t>(flags);
  how.mode = (flags & O_CREAT) != 0 ? permissions : 0;
  how.resolve = RESOLVE_NO_SYMLINKS;
  return static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how)));
}

// Not before Linux 5.6, nor in containers whose rules are older than that.
bool can_open_without_links() {
  const int root = open_without_links("/", O_PATH | O_CLOEXEC, 0);
  if (root >= 0) ::close(root);
  return root >= 0;
}

// What direct transfers on this file must be aligned to; nothing when the file system says it
// cannot do them.
std::optional<Alignment> direct_alignment(int fd) {
  struct statx info {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) != 0 ||
      (info.stx_mask & STATX_DIOALIGN) == 0) {
    // Not said (Linux before 6.1, or this file system): a page satisfies every device in use.
    return Alignment{kAlignmentDefault, kAlignmentDefault};
  }
  if (info.stx_dio_offset_align == 0) return std::nullopt;
  // At least a page for offsets: partial blocks go through the page cache, whose unit that is (see
  // transfer.h).
  return Alignment{std::max<uint32_t>(info.stx_dio_mem_align, 1),
                   std::max(info.stx_dio_offset_align, kAlignmentDefault)};
}

Error not_plain(const std::string& path) {
  return make_error(ErrorCode::kInvalid, fmt::format("{} is not a regular file", path));
}

// Undoes what plain_only opened it with: a request on a descriptor that does not block is not
// handed to a thread by io_uring.
Result<void> check_plain(int fd, const std::string& path) {
  const FileInfo info = PENSTOCK_TRY(stat_path(fd, "", AT_EMPTY_PATH, path));
  if (info.kind != FileKind::kFile) return not_plain(path);
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags >= 0 && ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0) return {};
  return errno_error(errno, fmt::format("fcntl {}", path));
}

bool set_direct(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_DIRECT) == 0;
}

// Whether reads and writes that leave nothing in the page cache work here. The kernel checks the
// flag the same way for both, so a read of one byte tells; a file open for writing only is opened
// again for that.
bool uncached_works(int fd, Access access) {
  const Descriptor second(
      access == Access::kWrite
          ? ::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_RDONLY | O_CLOEXEC)
          : -1);
  char byte = 0;
  const iovec vector{&byte, 1};
  return ::preadv2(second.get() >= 0 ? second.get() : fd, &vector, 1, 0, RWF_DONTCACHE) >= 0;
}

Result<void> advise_at_open(int fd, Advice advice) {
  if (advice == Advice::kNormal) return {};
  const int result = ::posix_fadvise(fd, 0, 0, posix_advice(advice));
  if (result != 0 && result != ESPIPE) return errno_error(result, "fadvise");
  return {};
}

FileKind entry_kind(DIR* directory, const dirent& entry) {
  switch (entry.d_type) {
    case DT_REG:
      return FileKind::kFile;
    case DT_DIR:
      return FileKind::kDirectory;
    case DT_LNK:
      return FileKind::kSymlink;
    case DT_UNKNOWN:
      break;  // Some file systems do not say.
    default:
      return FileKind::kOther;
  }
  const Result<FileInfo> info =
      stat_path(::dirfd(directory), entry.d_name, AT_SYMLINK_NOFOLLOW, entry.d_name);
  return info.ok() ? info->kind : FileKind::kOther;
}

class LocalLock final : public FileLock {
 public:
  explicit LocalLock(int fd) : fd_(fd) {}
  ~LocalLock() override {
    ::flock(fd_,
            LOCK_UN);  // Closing alone leaves it to a forked child that has the descriptor too.
    ::close(fd_);
  }

 private:
  const int fd_;
};

class LocalFileSystemImpl final : public LocalFileSystem {
 public:
  explicit LocalFileSystemImpl(std::unique_ptr<Engine> engine)
      : shared_{.engine = std::move(engine),
                .read_bytes = Metrics::global().counter("penstock_io_read_bytes_total",
                                                        "Bytes read from files."),
                .written_bytes = Metrics::global().counter("penstock_io_written_bytes_total",
                                                           "Bytes written to files."),
                .syncs = Metrics::global().counter("penstock_io_syncs_total",
                                                   "fsync and fdatasync calls.")} {}

  Result<std::unique_ptr<File>> open(const std::string& path, const OpenOptions& options) override;

  Result<FileInfo> stat(const std::string& path) override {
    return stat_path(AT_FDCWD, path.c_str(), 0, path);
  }
  Result<FileInfo> stat_link(const std::string& path) override {
    return stat_path(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, path);
  }
  Result<std::string> read_link(const std::string& path) override {
    std::array<char, PATH_MAX> target;
    const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
    if (length < 0) return errno_error(errno, fmt::format("readlink {}", path));
    return std::string(target.data(), static_cast<size_t>(length));
  }
  Result<void> make_symlink(const std::string& target, const std::string& path) override {
    PENSTOCK_TRY(check_path(target));
    PENSTOCK_TRY(check_path(path));
    return check(::symlink(target.c_str(), path.c_str()), "symlink", path);
  }
  Result<void> make_link(const std::string& file, const std::string& path) override {
    PENSTOCK_TRY(check_path(file));
    PENSTOCK_TRY(check_path(path));
    if (::link(file.c_str(), path.c_str()) == 0) return {};
    const Error error = errno_error(errno, fmt::format("link {} -> {}", file, path));
    // How file systems without links, and links across them, are refused.
    if (error.os_errno != EPERM && error.os_errno != EXDEV) return error;
    return make_error(ErrorCode::kUnsupported, error.detail);
  }

  Result<void> rename(const std::string& from, const std::string& to, RenameMode mode) override;

  Result<void> remove(const std::string& path) override {
    PENSTOCK_TRY(check_path(path));
    return check(::unlink(path.c_str()), "unlink", path);
  }
  Result<void> remove_directory(const std::string& path) override {
    PENSTOCK_TRY(check_path(path));
    return check(::rmdir(path.c_str()), "rmdir", path);
  }
  Result<void> make_directory(const std::string& path, mode_t permissions) override {
    PENSTOCK_TRY(check_path(path));
    return check(::mkdir(path.c_str(), permissions), "mkdir", path);
  }

  Result<void> list(const std::string& path,
                    const std::function<bool(const DirectoryEntry&)>& visit) override;

  Result<void> sync_directory(const std::string& path) override {
    const Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory.get() < 0) return errno_error(errno, fmt::format("open directory {}", path));
    shared_.syncs.add();
    return check(::fsync(directory.get()), "fsync directory", path);
  }

  Result<void> sync_file_system(const std::string& path) override {
    const Descriptor place(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (place.get() < 0) return errno_error(errno, fmt::format("open {}", path));
    shared_.syncs.add();
    return check(::syncfs(place.get()), "syncfs", path);
  }

  Result<SpaceInfo> space(const std::string& path) override;
  Result<std::unique_ptr<FileLock>> try_lock(const std::string& path) override;

  std::string boot_id() override {
    const Result<std::string> id = read_file(*this, "/proc/sys/kernel/random/boot_id", kKiB);
    return id.ok() ? id->substr(0, id->find('\n')) : "unknown";
  }

  std::string description() const override { return shared_.engine->description(); }
  EngineKind engine() const override { return shared_.engine->kind(); }
  MemoryRegistrar* registrar() override { return shared_.engine.get(); }

 private:
  // The kernel would see only what is before a NUL byte.
  static Result<void> check_path(const std::string& path) {
    if (path.find('\0') == std::string::npos) return {};
    return make_error(ErrorCode::kInvalid, "a path with a NUL byte names nothing");
  }
  static Result<void> check(int result, const char* action, const std::string& path) {
    if (result < 0) return errno_error(errno, fmt::format("{} {}", action, path));
    return {};
  }
  // The descriptor, or -1 and errno.
  int open_path(const std::string& path, const OpenOptions& options) const;
  // Puts `fd` into the mode asked for, or tells why not.
  static Result<void> apply_mode(const OpenOptions& options, TransferTarget& target,
                                 const std::string& path);

  LocalShared shared_;
  const bool opens_without_links_ = can_open_without_links();
};

Result<void> LocalFileSystemImpl::apply_mode(const OpenOptions& options, TransferTarget& target,
                                             const std::string& path) {
  const auto unsupported = [&](std::string_view what) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("open {}: its file system does not do {}", path, what));
  };
  switch (options.mode) {
    case CacheMode::kBuffered:
      return {};
    case CacheMode::kDirect: {
      const std::optional<Alignment> alignment = direct_alignment(target.fd);
      if (!alignment || !set_direct(target.fd)) return unsupported("direct I/O (O_DIRECT)");
      target.direct = true;
      target.alignment = *alignment;
      return {};
    }
    case CacheMode::kUncached:
      if (!uncached_works(target.fd, options.access)) {
        return unsupported("uncached I/O (RWF_DONTCACHE, Linux 6.14 and later)");
      }
      target.rw_flags = RWF_DONTCACHE;
      return {};
  }
  return {};
}

int LocalFileSystemImpl::open_path(const std::string& path, const OpenOptions& options) const {
  const int flags = open_flags(options);
  if (options.follow_links) return ::open(path.c_str(), flags, options.permissions);
  if (opens_without_links_) return open_without_links(path.c_str(), flags, options.permissions);
  // Part by part, then: a link that is made meanwhile may be followed.
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const Result<FileInfo> info =
        stat_path(AT_FDCWD, path.substr(0, slash).c_str(), AT_SYMLINK_NOFOLLOW, path);
    if (info.ok() && info->kind != FileKind::kSymlink) continue;
    errno = info.ok() ? ELOOP : info.error().os_errno;
    return -1;
  }
  return ::open(path.c_str(), flags | O_NOFOLLOW, options.permissions);
}

Result<std::unique_ptr<File>> LocalFileSystemImpl::open(const std::string& path,
                                                        const OpenOptions& options) {
  PENSTOCK_TRY(check_path(path));
  Descriptor fd(open_path(path, options));
  if (fd.get() < 0 && options.plain_only && errno == ENXIO) return not_plain(path);
  if (fd.get() < 0) return errno_error(errno, fmt::format("open {}", path));
  if (options.plain_only) PENSTOCK_TRY(check_plain(fd.get(), path));
  TransferTarget target;
  target.fd = fd.get();
  CacheMode mode = options.mode;
  if (Result<void> applied = apply_mode(options, target, path); !applied.ok()) {
    if (options.require_mode) {
      if (options.create == Create::kMustNotExist)
        ::unlink(path.c_str());  // Made just above, by us.
      return std::move(applied).error();
    }
    log_once(LogLevel::kWarn, fmt::format("io.mode.{}", cache_mode_name(mode)),
             fmt::format("{}; using buffered I/O there", applied.error().detail));
    mode = CacheMode::kBuffered;
  }
  PENSTOCK_TRY(advise_at_open(target.fd, options.advice));
  fd.release();
  return std::unique_ptr<File>(std::make_unique<LocalFile>(shared_, path, target, mode));
}

Result<void> LocalFileSystemImpl::rename(const std::string& from, const std::string& to,
                                         RenameMode mode) {
  PENSTOCK_TRY(check_path(from));
  PENSTOCK_TRY(check_path(to));
  const std::string names = from + " -> " + to;
  if (mode == RenameMode::kReplace)
    return check(::rename(from.c_str(), to.c_str()), "rename", names);
  const unsigned flag = mode == RenameMode::kExchange ? RENAME_EXCHANGE : RENAME_NOREPLACE;
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flag) == 0) return {};
  if (errno != EINVAL && errno != ENOSYS) return check(-1, "rename", names);
  // NFS and some others lack the flags.
  if (mode == RenameMode::kExchange) {
    return make_error(ErrorCode::kUnsupported, fmt::format("names cannot be exchanged: {}", names));
  }
  // A link refuses an existing name too, and the file has both names for a moment. Directories have no
  // second names; one that is not empty is not replaced by any rename.
  if (::link(from.c_str(), to.c_str()) != 0) {
    if (errno != EPERM) return check(-1, "link", names);
    return check(::rename(from.c_str(), to.c_str()), "rename", names);
  }
  return check(::unlink(from.c_str()), "unlink", from);
}

Result<void> LocalFileSystemImpl::list(const std::string& path,
                                       const std::function<bool(const DirectoryEntry&)>& visit) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
  if (directory == nullptr) return errno_error(errno, fmt::format("open directory {}", path));
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) {
      if (errno != 0) return errno_error(errno, fmt::format("read directory {}", path));
      return {};
    }
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (!visit({std::string(name), entry_kind(directory.get(), *entry)})) return {};
  }
}

Result<SpaceInfo> LocalFileSystemImpl::space(const std::string& path) {
  struct statvfs info {};
  PENSTOCK_TRY(check(::statvfs(path.c_str(), &info), "statvfs", path));
  return SpaceInfo{.total_bytes = info.f_blocks * info.f_frsize,
                   .free_bytes = info.f_bfree * info.f_frsize,
                   .available_bytes = info.f_bavail * info.f_frsize,
                   .total_inodes = info.f_files,
                   .free_inodes = info.f_ffree,
                   .block_bytes = info.f_bsize};
}

Result<std::unique_ptr<FileLock>> LocalFileSystemImpl::try_lock(const std::string& path) {
  PENSTOCK_TRY(check_path(path));
  while (true) {
    // Never through a link: whoever planted one would choose which file we make.
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    Descriptor fd(::open(path.c_str(), flags, 0644));
    if (fd.get() < 0) return errno_error(errno, fmt::format("open {}", path));
    const FileInfo locked = PENSTOCK_TRY(stat_path(fd.get(), "", AT_EMPTY_PATH, path));
    if (locked.kind != FileKind::kFile) {
      return make_error(ErrorCode::kInvalid,
                        fmt::format("{} cannot be a lock: it is not a regular file", path));
    }
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return errno_error(errno, fmt::format("flock {}", path));
      return make_error(ErrorCode::kBusy, fmt::format("{} is locked by another user of it", path),
                        true);
    }
    // The one before us may have removed the file between our open and our lock: then it is the
    // lock of a file that nobody else will find.
    const Result<FileInfo> there = stat_link(path);
    if (there.ok() && there->inode == locked.inode && there->device == locked.device) {
      return std::unique_ptr<FileLock>(std::make_unique<LocalLock>(fd.release()));
    }
    if (!there.ok() && there.error().code != ErrorCode::kNotFound) return there.error();
  }
}

Result<void> validate(const LocalOptions& options) {
  const auto refuse = [](std::string_view name, uint32_t value, std::string_view expected) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("{} is {}: expected {}", name, value, expected));
  };
  if (options.queue_depth < 1 || options.queue_depth > 4096) {
    return refuse("queue_depth", options.queue_depth, "1 to 4096");
  }
  if (options.threads > 1024) return refuse("threads", options.threads, "at most 1024");
  if (options.rings_min < 1 || options.rings_min > 4)
    return refuse("rings_min", options.rings_min, "1 to 4");
  if (options.pending_limit < 1)
    return refuse("pending_limit", options.pending_limit, "at least 1");
  return {};
}

// Threads are what can run out here, and the standard library says so by throwing.
Result<std::unique_ptr<Engine>> make_any_engine(const LocalOptions& options);

Result<std::unique_ptr<Engine>> make_engine(const LocalOptions& options) {
  try {
    return make_any_engine(options);
  } catch (const std::system_error& error) {
    return errno_error(error.code().value(),
                       "start the threads of the I/O engine (see ulimit -u and memory limits)");
  }
}

Result<std::unique_ptr<Engine>> make_any_engine(const LocalOptions& options) {
  if (options.engine == EngineKind::kThreads) return make_thread_engine(options);
  Result<std::unique_ptr<Engine>> uring = make_uring_engine(options);
  if (uring.ok() || options.engine == EngineKind::kUring) return uring;
  log_once(LogLevel::kWarn, "io.engine",
           "io_uring is refused here (often by a container); using threads for file I/O",
           {{"reason", uring.error().detail}});
  return make_thread_engine(options);
}

}  // namespace

Result<std::unique_ptr<LocalFileSystem>> open_local_file_system(const LocalOptions& options) {
  PENSTOCK_TRY(validate(options));
  std::unique_ptr<Engine> engine = PENSTOCK_TRY(make_engine(options));
  return std::unique_ptr<LocalFileSystem>(std::make_unique<LocalFileSystemImpl>(std::move(engine)));
}

Result<LocalFileSystem*> process_file_system() {
  static const auto* const opened =
      new Result<std::unique_ptr<LocalFileSystem>>(open_local_file_system({.rings_min = 2}));
  if (!opened->ok()) return opened->error();
  return opened->value().get();
}

}  // namespace penstock::io
