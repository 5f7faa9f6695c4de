// Files. Everything above reaches the operating system through io::FileSystem and io::File, so that
// tests can put one in memory, one that fails or one that loses power in the place of the real one.
//
//   auto fs = PENSTOCK_TRY(io::open_local_file_system({}));
//   auto file = PENSTOCK_TRY(fs->open("/data/shard-0.tar", {.mode = io::CacheMode::kDirect}));
//   size_t n = PENSTOCK_TRY(file->read(0, buffer.bytes()));            // one read, on this thread
//   PENSTOCK_TRY(io::run_all(*file, requests));                        // many at once, then wait
//   file->submit(io::IoRequest::read(offset, slice, done));           // or do not wait
//
// Which to use. read()/write(): one transfer, blocking, no thread is crossed. submit(): many
// transfers in flight, which is what fast devices need; completions arrive on an engine thread. A
// completion may submit the next request itself, which costs no thread switch: that is the fastest
// loop there is here.
//
// Paths are bytes, as the kernel sees them. kNotFound is also the answer where a part of a path, or
// a path that must be a directory, is none.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/result.h"
#include "penstock/units.h"

namespace penstock::io {

// How a file's bytes meet the page cache.
enum class CacheMode : uint8_t {
  kBuffered,  // Through the page cache, which keeps them: for data read again soon.
  // O_DIRECT: device to memory. Any offset, size and address is accepted; aligned ones (see
  // File::alignment) go straight, the rest is widened or goes through the page cache for its first
  // and last block only.
  kDirect,
  // Through the page cache, which drops them afterwards (RWF_DONTCACHE, Linux 6.14 and later).
  kUncached,
};
std::string_view cache_mode_name(CacheMode mode);

enum class Access : uint8_t { kRead, kWrite, kReadWrite };

enum class Create : uint8_t {
  kNever,         // The file must be there: kNotFound otherwise.
  kIfMissing,     // Made when missing, kept when there.
  kMustNotExist,  // kExists when there, also when it is a symbolic link to nowhere.
  kTruncate,      // Made when missing, emptied when there, whatever the access.
};

// What the caller is about to do with a range; the kernel may use it, or not.
enum class Advice : uint8_t {
  kNormal,
  kSequential,
  kRandom,
  kWillNeed,
  kDontNeed,
  // As kWillNeed, but waits until it is there, with all around it up to multiples of 2 MiB, in pages of
  // that size where the file system has such: they are copied from two or three times as fast.
  kFill,
};

struct OpenOptions {
  Access access = Access::kRead;
  Create create = Create::kNever;
  CacheMode mode = CacheMode::kBuffered;
  // When the file system cannot do `mode`: true fails with kUnsupported; false opens buffered, says
  // so once in the log, and File::mode() tells.
  bool require_mode = true;
  Advice advice = Advice::kNormal;
  // kInvalid where the last part of the path is a link, a pipe or anything else but a regular file,
  // without waiting for or changing what is there: for directories where others may plant things.
  bool plain_only = false;
  mode_t permissions = 0644;  // Of a file that is made, before the umask.
  // false: kInvalid (ELOOP) when any part of the path is a symbolic link.
  bool follow_links = true;
};

// Memory for a transfer: a plain span, or part of a Buffer, whose `region` lets the engine skip
// mapping the pages.
struct MemorySlice {
  std::byte* data = nullptr;
  size_t size = 0;
  // From Buffer::slice(); 0 when the memory is not registered. Only for files of the file system
  // whose registrar the buffer's provider was given.
  uint32_t region = 0;

  MemorySlice() = default;
  MemorySlice(std::span<std::byte> bytes)
      : data(bytes.data()), size(bytes.size()) {}  // NOLINT: implicit on purpose
  MemorySlice(std::byte* address, size_t length, uint32_t registered_region)
      : data(address), size(length), region(registered_region) {}
};

// Called exactly once, with the bytes transferred (0 for syncs), on an engine thread and never from
// inside submit(). Never empty; must not block and must not throw. Captures of up to two pointers
// cost no allocation.
using IoDone = std::function<void(Result<size_t>)>;

// One asynchronous operation on one file.
struct IoRequest {
  enum class Kind : uint8_t { kRead, kWrite, kSync, kDataSync };
  Kind kind = Kind::kRead;
  uint64_t offset = 0;
  MemorySlice
      memory;  // Written by reads, only read by writes. Stays valid and untouched until `done`.
  IoDone done;

  static IoRequest read(uint64_t offset, MemorySlice into, IoDone done);
  static IoRequest write(uint64_t offset, std::span<const std::byte> from, IoDone done);
  static IoRequest write(uint64_t offset, MemorySlice from, IoDone done);
  // As File::sync(): covers what completed before it was submitted, not what is in flight beside
  // it.
  static IoRequest sync(IoDone done);
  static IoRequest data_sync(IoDone done);
};

enum class FileKind : uint8_t { kFile, kDirectory, kSymlink, kOther };

struct FileInfo {
  FileKind kind = FileKind::kFile;
  uint64_t size = 0;
  uint64_t allocated_bytes = 0;  // On the device; less than `size` for sparse files.
  uint64_t inode = 0;
  uint64_t device = 0;
  uint32_t mode = 0;  // Permission bits.
  uint32_t links = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  int64_t mtime_ns = 0;  // Since the epoch.
  int64_t ctime_ns = 0;
};

struct SpaceInfo {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;       // With what is kept for root.
  uint64_t available_bytes = 0;  // To this process.
  uint64_t total_inodes = 0;     // 0 where the file system makes them as it goes.
  uint64_t free_inodes = 0;
  uint64_t block_bytes = 0;
};

// What direct transfers must be multiples of to avoid any copying.
struct Alignment {
  uint32_t memory_bytes = 1;
  // Of offset and size. A power of two; 1 where the mode has no such rule.
  uint32_t offset_bytes = 1;
};

// A file as memory, as large as it was when it was mapped. Where the file has become shorter since, or
// its drive fails, there are zeros, and lost() says so from the moment in which they were seen.
// Threads: all calls from any thread.
class FileMap {
 public:
  virtual ~FileMap() = default;
  virtual std::span<const std::byte> bytes() const = 0;
  virtual bool lost() const = 0;
  // All of it fits in memory, and will be wanted: pages come, and are found, as with Advice::kFill.
  virtual void expect_all() = 0;
};

// An open file.
// Threads: every call from any thread. Transfers in flight together on the same bytes may mix, as
// with pread and pwrite; ranges that only share a block do not, also in direct mode.
// Lifetime: outlives its requests; the destructor closes, waiting for those in flight, so neither
// it nor close() may be called inside the `done` of one of them. Its FileSystem outlives it.
// Transfers are whole: short transfers and EINTR/EAGAIN are continued inside; what cannot go on is
// returned.
class File {
 public:
  virtual ~File() = default;

  // Reads until `into` is full or the file ends; the count is less than into.size() only at the end
  // of the file.
  virtual Result<size_t> read(uint64_t offset, std::span<std::byte> into) = 0;

  // Writes all of `from`. On failure an unknown part of the range was written.
  virtual Result<void> write(uint64_t offset, std::span<const std::byte> from) = 0;

  // Starts every request (their `done` is moved out). Waits only while the engine's queue is full,
  // and never when called from a completion. Requests run in any order: to order two, submit the
  // second from the first one's `done`.
  virtual void submit(std::span<IoRequest> requests) = 0;
  void submit(IoRequest request) { submit(std::span(&request, 1)); }

  // On return every write that completed before the call survives a power cut, together with the
  // file's size; sync() also its times and permissions. NOT its name: that takes
  // FileSystem::sync_directory. A failure is final: the kernel may have dropped the data, so a
  // second sync() can succeed falsely. Write the data to a new file instead.
  virtual Result<void> sync() = 0;
  virtual Result<void> data_sync() = 0;

  // Reserves blocks for the range (contents read as zeros), growing the file when needed: a later
  // write there does not run out of space. kUnsupported where the file system cannot.
  virtual Result<void> allocate(uint64_t offset, uint64_t length) = 0;
  virtual Result<void> truncate(uint64_t size) = 0;
  virtual Result<void> advise(Advice advice, uint64_t offset, uint64_t length) = 0;
  // Permission bits and time of change, whatever the file was opened for; what is not given stays.
  // The time is kept as exactly as the file system does. A later write sets it anew.
  virtual Result<void> set_attributes(std::optional<uint32_t> mode,
                                      std::optional<int64_t> mtime_ns) = 0;
  virtual Result<FileInfo> stat() = 0;

  // All of it. kUnsupported where that cannot be: then it has to be read.
  virtual Result<std::unique_ptr<FileMap>> map() {
    return make_error(ErrorCode::kUnsupported, "this file cannot be mapped");
  }

  // The mode in effect, which differs from the one asked for only with require_mode = false.
  virtual CacheMode mode() const = 0;
  virtual Alignment alignment() const = 0;

  // Closes now and tells whether the operating system had an error left to report. Waits for
  // requests in flight; later calls answer kClosed, and so does a request that a completion submits
  // meanwhile. A second close() does nothing.
  virtual Result<void> close() = 0;
};

struct DirectoryEntry {
  std::string name;
  FileKind kind = FileKind::kFile;
};

enum class RenameMode : uint8_t {
  kReplace,    // What is at the new name is replaced, atomically.
  kNoReplace,  // kExists when something is there.
  kExchange,  // Both are there and change places, atomically. kUnsupported where that cannot be done.
};

// Released when destroyed, and by the kernel when the process dies: no crash leaves one behind.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

// Threads: every call from any thread. All calls block, save File::submit.
// Durability: a name (made, renamed, removed) survives a power cut only after sync_directory of the
// directory that holds it. Until then any of the unsynced changes may be lost, or kept; each single
// rename is all or nothing.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // A directory opens for reading only (kBuffered), to be looked at and given attributes.
  virtual Result<std::unique_ptr<File>> open(const std::string& path,
                                             const OpenOptions& options) = 0;
  // Follows symbolic links; `stat_link` tells about the link itself.
  virtual Result<FileInfo> stat(const std::string& path) = 0;
  virtual Result<FileInfo> stat_link(const std::string& path) = 0;
  // Where a symbolic link leads, as it is written there. kInvalid when `path` is something else;
  // kUnsupported where the file system has no links.
  virtual Result<std::string> read_link(const std::string& path);
  // A symbolic link at `path` that says `target`, which need not be there. kExists when something is
  // at `path`.
  virtual Result<void> make_symlink(const std::string& target, const std::string& path) = 0;
  // A second name for a file, which goes when its last name does. kExists when something is at `path`;
  // kUnsupported where the file system has no such links.
  virtual Result<void> make_link(const std::string& file, const std::string& path);
  virtual Result<void> rename(const std::string& from, const std::string& to,
                              RenameMode mode = RenameMode::kReplace) = 0;
  virtual Result<void> remove(const std::string& path) = 0;  // A file or link.
  // An empty one; kExists when it is not.
  virtual Result<void> remove_directory(const std::string& path) = 0;
  // kExists when something is there.
  virtual Result<void> make_directory(const std::string& path, mode_t permissions = 0755) = 0;

  // Calls `visit` for every entry but "." and "..", in no order, until it returns false. Memory
  // does not grow with the directory. Entries that come and go meanwhile may be seen or not.
  virtual Result<void> list(const std::string& path,
                            const std::function<bool(const DirectoryEntry&)>& visit) = 0;

  // Makes the names in this directory durable.
  virtual Result<void> sync_directory(const std::string& path) = 0;
  // Makes everything on the file system that holds `path` durable, other programs' writes too: one
  // barrier for many files.
  virtual Result<void> sync_file_system(const std::string& path) = 0;

  virtual Result<SpaceInfo> space(const std::string& path) = 0;

  // An exclusive lock on `path`, a regular file, which is made when missing. kBusy when anyone,
  // this process included, holds it. Who removes the file lets go of the lock: do so only while
  // holding it, and last.
  virtual Result<std::unique_ptr<FileLock>> try_lock(const std::string& path) = 0;

  // Changes with every boot of the machine: what was written and not synced under another id may be
  // torn.
  virtual std::string boot_id() = 0;

  // For people: "io_uring, 1 ring, depth 256".
  virtual std::string description() const = 0;
};

enum class EngineKind : uint8_t {
  kAuto,   // io_uring where the kernel and the container allow it, threads otherwise; said once in
           // the log.
  kUring,  // kUnsupported where it is refused.
  kThreads,  // Blocking calls on a pool of threads.
};

struct LocalOptions {
  EngineKind engine = EngineKind::kAuto;
  // Rings, or threads of the pool. 0: one ring per four cores (1 to 4), or 32 threads.
  uint32_t threads = 0;
  // Of those rings, at least so many, 1 to 4. One is fastest where completions only ask for more;
  // with two, one keeps the device busy while the completions of the other work on what was read.
  uint32_t rings_min = 1;
  uint32_t queue_depth = 256;     // Requests at the device per ring. 1 to 4096.
  uint32_t pending_limit = 8192;  // Requests accepted beyond that before submit() waits.
};

class MemoryRegistrar;

// The real file system, and the engine behind it.
class LocalFileSystem : public FileSystem {
 public:
  virtual EngineKind engine() const = 0;  // kUring or kThreads.
  // For BufferOptions::registrar: lets buffers be registered with the rings. Never null.
  virtual MemoryRegistrar* registrar() = 0;
};

Result<std::unique_ptr<LocalFileSystem>> open_local_file_system(const LocalOptions& options);
// The one that everything in this process shares: default options, but two rings. Made when first asked for
// and never destroyed: its users may live until the process ends.
Result<LocalFileSystem*> process_file_system();

// Helpers over the interface.

// Submits all and waits for all; their `done` is replaced and never called. `results`, when given,
// holds one entry per request; the return is the first error, or nothing when all succeeded. A read
// that meets the end of the file is a success with a smaller count.
Result<void> run_all(File& file, std::span<IoRequest> requests,
                     std::vector<Result<size_t>>* results = nullptr);

// Makes `path` and its missing parents. One that exists already is fine.
Result<void> make_directories(FileSystem& fs, const std::string& path, mode_t permissions = 0755);
// Removes `path` and what is below it; one that is missing is fine. Does not follow links.
Result<void> remove_tree(FileSystem& fs, const std::string& path);
// The whole of a small file; kNoMemory when it is larger than `limit_bytes`.
Result<std::string> read_file(FileSystem& fs, const std::string& path, uint64_t limit_bytes);
// Replaces `path` by a new file with `contents` (mode 0644 before the umask; a link is replaced,
// not followed): afterwards, and after a power cut at any moment, it holds the old or the new.
Result<void> write_file_durably(FileSystem& fs, const std::string& path, std::string_view contents);
// "/a/b" of "/a/b/c"; "." of "c"; "/" of "/c".
std::string parent_path(const std::string& path);

}  // namespace penstock::io
