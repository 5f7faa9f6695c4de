#include "io/local_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <optional>

#include "io/file_map.h"

namespace penstock::io {

namespace {

const char* kind_name(RawOp::Kind kind) {
  switch (kind) {
    case RawOp::Kind::kNop:
      return "nothing";
    case RawOp::Kind::kRead:
      return "read";
    case RawOp::Kind::kWrite:
      return "write";
    case RawOp::Kind::kSync:
      return "fsync";
    case RawOp::Kind::kDataSync:
      return "fdatasync";
  }
  return "unknown";
}

RawOp::Kind raw_kind(IoRequest::Kind kind) {
  switch (kind) {
    case IoRequest::Kind::kRead:
      return RawOp::Kind::kRead;
    case IoRequest::Kind::kWrite:
      return RawOp::Kind::kWrite;
    case IoRequest::Kind::kSync:
      return RawOp::Kind::kSync;
    case IoRequest::Kind::kDataSync:
      return RawOp::Kind::kDataSync;
  }
  return RawOp::Kind::kNop;
}

bool moves_bytes(RawOp::Kind kind) {
  return kind == RawOp::Kind::kRead || kind == RawOp::Kind::kWrite;
}

template <typename Call>
int retry_on_interrupt(Call call) {
  int result = 0;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

constexpr int64_t kSecond = 1'000'000'000;

// A file may claim to be from the year 3000, of which there is no count of nanoseconds.
int64_t nanoseconds(const statx_timestamp& time) {
  constexpr int64_t kSecondsMax = std::numeric_limits<int64_t>::max() / kSecond - 1;
  return std::clamp<int64_t>(time.tv_sec, -kSecondsMax, kSecondsMax) * kSecond + time.tv_nsec;
}

timespec time_of(int64_t ns) {
  timespec time{.tv_sec = ns / kSecond, .tv_nsec = ns % kSecond};
  if (time.tv_nsec < 0) {  // Before 1970: the seconds are negative, the nanoseconds never are.
    time.tv_sec -= 1;
    time.tv_nsec += kSecond;
  }
  return time;
}

FileKind file_kind(uint32_t mode) {
  if (S_ISREG(mode)) return FileKind::kFile;
  if (S_ISDIR(mode)) return FileKind::kDirectory;
  if (S_ISLNK(mode)) return FileKind::kSymlink;
  return FileKind::kOther;
}

}  // namespace

// One request under way. It is its own RawOp: the engine carries it from piece to piece.
struct LocalFile::Transfer : RawOp {
  LocalFile* file = nullptr;
  Gate::Pass pass;
  RawOp::Kind wanted = RawOp::Kind::kNop;
  uint64_t first_offset = 0;
  size_t wanted_bytes = 0;
  TransferPlan plan;
  std::byte* bounce = nullptr;
  IoDone done;
  Result<size_t> answer = size_t{0};
};

LocalFile::LocalFile(LocalShared& shared, std::string path, TransferTarget target, CacheMode mode)
    : shared_(shared),
      path_(std::move(path)),
      target_(target),
      mode_(mode),
      fixed_(shared.engine->rings()) {}

LocalFile::~LocalFile() {
  (void)close();
}

Result<Gate::Pass> LocalFile::enter(const char* action) {
  Gate::Pass pass = gate_.enter();
  if (!pass)
    return make_error(ErrorCode::kClosed, fmt::format("{} {}: the file is closed", action, path_));
  return pass;
}

Error LocalFile::transfer_error(RawOp::Kind kind, uint64_t offset, size_t size,
                                int os_errno) const {
  if (!moves_bytes(kind))
    return errno_error(os_errno, fmt::format("{} {}", kind_name(kind), path_));
  return errno_error(os_errno,
                     fmt::format("{} {} ({} bytes at {})", kind_name(kind), path_, size, offset));
}

void LocalFile::count(RawOp::Kind kind, size_t bytes) {
  if (kind == RawOp::Kind::kRead) {
    shared_.read_bytes.add(bytes);
  } else if (kind == RawOp::Kind::kWrite) {
    shared_.written_bytes.add(bytes);
  } else {
    shared_.syncs.add();
  }
}

// The descriptors for a transfer; opens the buffered one when this is the first direct write that
// needs it.
Result<TransferTarget> LocalFile::target_for(RawOp::Kind kind, uint64_t offset, size_t size) {
  TransferTarget target = target_;
  if (!TransferPlan::needs_buffered_fd(target, kind, offset, size)) return target;
  target.buffered_fd = buffered_fd_.load(std::memory_order_acquire);
  if (target.buffered_fd >= 0) return target;
  std::lock_guard lock(buffered_mutex_);
  target.buffered_fd = buffered_fd_.load(std::memory_order_relaxed);
  if (target.buffered_fd >= 0) return target;
  // A file opened for reading must not become writable this way.
  if ((::fcntl(target_.fd, F_GETFL) & O_ACCMODE) == O_RDONLY)
    return transfer_error(kind, offset, size, EBADF);
  // By descriptor, not by path: the file may have been renamed or unlinked since.
  const std::string self = fmt::format("/proc/self/fd/{}", target_.fd);
  target.buffered_fd = ::open(self.c_str(), O_WRONLY | O_CLOEXEC);
  if (target.buffered_fd < 0)
    return errno_error(errno, fmt::format("open {} a second time, buffered", path_));
  buffered_fd_.store(target.buffered_fd, std::memory_order_release);
  return target;
}

// The kernel's offsets are signed, and to io_uring an offset of -1 means "the current position".
// Nothing can be read from beyond them; nothing can be written there.
Result<MemorySlice> LocalFile::within_range(RawOp::Kind kind, uint64_t offset,
                                            MemorySlice memory) const {
  constexpr uint64_t kEnd = std::numeric_limits<int64_t>::max();
  const uint64_t room = offset >= kEnd ? 0 : kEnd - offset;
  if (memory.size <= room) return memory;
  if (kind == RawOp::Kind::kWrite) return transfer_error(kind, offset, memory.size, EINVAL);
  memory.size = room;
  return memory;
}

Result<TransferPlan> LocalFile::plan_transfer(RawOp::Kind kind, uint64_t offset,
                                              MemorySlice wanted) {
  const MemorySlice memory = PENSTOCK_TRY(within_range(kind, offset, wanted));
  const TransferTarget target = PENSTOCK_TRY(target_for(kind, offset, memory.size));
  return TransferPlan(target, kind, offset, memory);
}

Result<size_t> LocalFile::run(RawOp::Kind kind, uint64_t offset, MemorySlice memory) {
  const Gate::Pass pass = PENSTOCK_TRY(enter(kind_name(kind)));
  TransferPlan plan = PENSTOCK_TRY(plan_transfer(kind, offset, memory));
  std::byte* bounce = plan.needs_bounce() && !plan.finished() ? shared_.bounces->take() : nullptr;
  plan.set_bounce(bounce);
  RawOp op;
  while (!plan.finished()) {
    plan.next(op);
    plan.absorb(run_blocking(op));
  }
  if (bounce != nullptr) shared_.bounces->give_back(bounce);
  const int64_t outcome = plan.outcome();
  if (outcome < 0) return transfer_error(kind, offset, memory.size, static_cast<int>(-outcome));
  count(kind, static_cast<size_t>(outcome));
  return static_cast<size_t>(outcome);
}

Result<size_t> LocalFile::read(uint64_t offset, std::span<std::byte> into) {
  return run(RawOp::Kind::kRead, offset, into);
}

Result<void> LocalFile::write(uint64_t offset, std::span<const std::byte> from) {
  auto* data = const_cast<std::byte*>(from.data());  // Only read: see IoRequest::write.
  PENSTOCK_TRY(run(RawOp::Kind::kWrite, offset, MemorySlice(data, from.size(), 0)));
  return {};
}

LocalFile::Transfer* LocalFile::make_transfer(IoRequest& request) {
  auto* transfer = new Transfer;
  transfer->complete = on_complete;
  transfer->file = this;
  transfer->wanted = raw_kind(request.kind);
  transfer->first_offset = request.offset;
  transfer->wanted_bytes = request.memory.size;
  transfer->done = std::move(request.done);
  Result<Gate::Pass> pass = enter(kind_name(transfer->wanted));
  if (!pass.ok()) {
    transfer->answer = std::move(pass).error();
    return transfer;
  }
  transfer->pass = std::move(pass).value();
  if (!moves_bytes(transfer->wanted)) return transfer;
  const Result<TransferPlan> plan = plan_transfer(transfer->wanted, request.offset, request.memory);
  if (plan.ok()) {
    transfer->plan = *plan;
  } else {
    transfer->answer = plan.error();
  }
  return transfer;
}

// Makes the transfer's first system call ready: at once, or when a bounce buffer is free. One that
// has nothing to do, or failed already, goes to the engine as a no-op, because `done` runs on its
// threads only.
void LocalFile::begin(Transfer& transfer, RawOpList& ready) {
  transfer.kind = RawOp::Kind::kNop;
  if (!transfer.answer.ok()) return ready.push(&transfer);
  transfer.fixed = fixed_.empty() ? nullptr : &fixed_;
  if (!moves_bytes(transfer.wanted)) {
    transfer.kind = transfer.wanted;
    transfer.fd = target_.fd;
    return ready.push(&transfer);
  }
  if (transfer.plan.finished()) return ready.push(&transfer);
  if (!transfer.plan.needs_bounce()) {
    transfer.plan.next(transfer);
    return ready.push(&transfer);
  }
  // The buffer may come later, from the completion of another transfer: the engine is then asked on
  // its own.
  shared_.bounces->take_async([&transfer, engine = shared_.engine.get()](std::byte* bounce) {
    transfer.bounce = bounce;
    transfer.plan.set_bounce(bounce);
    transfer.plan.next(transfer);
    RawOpList one;
    one.push(&transfer);
    engine->submit(one);
  });
}

void LocalFile::submit(std::span<IoRequest> requests) {
  RawOpList ready;
  for (IoRequest& request : requests) begin(*make_transfer(request), ready);
  if (!ready.empty()) shared_.engine->submit(ready);
}

void LocalFile::on_complete(RawOp& op, int result) {
  auto& transfer = static_cast<Transfer&>(op);
  if (!moves_bytes(transfer.wanted)) {
    if (op.kind != RawOp::Kind::kNop && result < 0) {
      transfer.answer = transfer.file->transfer_error(transfer.wanted, 0, 0, -result);
    }
    return deliver(transfer);
  }
  if (op.kind == RawOp::Kind::kNop) return deliver(transfer);
  transfer.plan.absorb(result);
  if (!transfer.plan.finished()) {
    transfer.fixed = transfer.file->fixed_.empty() ? nullptr : &transfer.file->fixed_;
    transfer.plan.next(transfer);
    RawOpList again;
    again.push(&transfer);
    transfer.file->shared_.engine->submit(again);
    return;
  }
  const int64_t outcome = transfer.plan.outcome();
  if (outcome < 0) {
    transfer.answer = transfer.file->transfer_error(
        transfer.wanted, transfer.first_offset, transfer.wanted_bytes, static_cast<int>(-outcome));
  } else {
    transfer.answer = static_cast<size_t>(outcome);
  }
  deliver(transfer);
}

void LocalFile::deliver(Transfer& transfer) {
  const std::unique_ptr<Transfer> owned(&transfer);
  LocalFile& file = *transfer.file;
  if (transfer.bounce != nullptr) file.shared_.bounces->give_back(transfer.bounce);
  if (transfer.answer.ok()) file.count(transfer.wanted, *transfer.answer);
  transfer.done(std::move(transfer.answer));
}

Result<void> LocalFile::call(const char* action, int result) {
  if (result < 0) return errno_error(errno, fmt::format("{} {}", action, path_));
  return {};
}

Result<void> LocalFile::sync() {
  const Gate::Pass pass = PENSTOCK_TRY(enter("fsync"));
  shared_.syncs.add();
  return call("fsync", retry_on_interrupt([this] { return ::fsync(target_.fd); }));
}

Result<void> LocalFile::data_sync() {
  const Gate::Pass pass = PENSTOCK_TRY(enter("fdatasync"));
  shared_.syncs.add();
  return call("fdatasync", retry_on_interrupt([this] { return ::fdatasync(target_.fd); }));
}

Result<void> LocalFile::allocate(uint64_t offset, uint64_t length) {
  const Gate::Pass pass = PENSTOCK_TRY(enter("fallocate"));
  return call("fallocate", retry_on_interrupt([&] {
                return ::fallocate(target_.fd, 0, static_cast<off_t>(offset),
                                   static_cast<off_t>(length));
              }));
}

Result<void> LocalFile::truncate(uint64_t size) {
  const Gate::Pass pass = PENSTOCK_TRY(enter("ftruncate"));
  return call("ftruncate", retry_on_interrupt(
                               [&] { return ::ftruncate(target_.fd, static_cast<off_t>(size)); }));
}

Result<void> LocalFile::advise(Advice advice, uint64_t offset, uint64_t length) {
  const Gate::Pass pass = PENSTOCK_TRY(enter("fadvise"));
  if (advice == Advice::kFill && fill_page_cache(target_.fd, offset, length)) return {};
  const int result = ::posix_fadvise(target_.fd, static_cast<off_t>(offset),
                                     static_cast<off_t>(length), posix_advice(advice));
  if (result != 0) return errno_error(result, fmt::format("fadvise {}", path_));
  return {};
}

Result<void> LocalFile::set_attributes(std::optional<uint32_t> mode,
                                       std::optional<int64_t> mtime_ns) {
  const Gate::Pass pass = PENSTOCK_TRY(enter("set attributes of"));
  if (mode) PENSTOCK_TRY(call("chmod", ::fchmod(target_.fd, *mode & 07777)));
  if (!mtime_ns) return {};
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, time_of(*mtime_ns)};
  return call("set the time of", ::futimens(target_.fd, times));
}

Result<FileInfo> LocalFile::stat() {
  const Gate::Pass pass = PENSTOCK_TRY(enter("stat"));
  return stat_path(target_.fd, "", AT_EMPTY_PATH, path_);
}

Result<std::unique_ptr<FileMap>> LocalFile::map() {
  const Gate::Pass pass = PENSTOCK_TRY(enter("map"));
  const FileInfo info = PENSTOCK_TRY(stat_path(target_.fd, "", AT_EMPTY_PATH, path_));
  return map_file(target_.fd, info.size);
}

Result<void> LocalFile::close() {
  gate_.close();
  std::lock_guard lock(close_mutex_);
  if (std::exchange(closed_, true)) return {};
  if (!fixed_.empty()) shared_.engine->forget(fixed_);
  const int buffered = buffered_fd_.load(std::memory_order_relaxed);
  const int first = buffered >= 0 ? ::close(buffered) : 0;
  const int first_errno = errno;
  // Linux releases the descriptor even when close() is interrupted: it must not be retried.
  if (::close(target_.fd) < 0 && errno != EINTR)
    return errno_error(errno, fmt::format("close {}", path_));
  if (first < 0 && first_errno != EINTR)
    return errno_error(first_errno, fmt::format("close {}", path_));
  return {};
}

int posix_advice(Advice advice) {
  constexpr int kAdvice[] = {POSIX_FADV_NORMAL,   POSIX_FADV_SEQUENTIAL, POSIX_FADV_RANDOM,
                             POSIX_FADV_WILLNEED, POSIX_FADV_DONTNEED,   POSIX_FADV_WILLNEED};
  return kAdvice[static_cast<size_t>(advice)];
}

Result<FileInfo> stat_path(int directory_fd, const char* path, int flags,
                           const std::string& shown) {
  struct statx info {};
  if (::statx(directory_fd, path, flags, STATX_BASIC_STATS, &info) < 0) {
    return errno_error(errno, fmt::format("stat {}", shown));
  }
  FileInfo result;
  result.kind = file_kind(info.stx_mode);
  result.size = info.stx_size;
  result.allocated_bytes = info.stx_blocks * 512;
  result.inode = info.stx_ino;
  result.device = makedev(info.stx_dev_major, info.stx_dev_minor);
  result.mode = info.stx_mode & 07777;
  result.links = info.stx_nlink;
  result.uid = info.stx_uid;
  result.gid = info.stx_gid;
  result.mtime_ns = nanoseconds(info.stx_mtime);
  result.ctime_ns = nanoseconds(info.stx_ctime);
  return result;
}

}  // namespace penstock::io
