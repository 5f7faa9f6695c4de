#include "io/faulty_file_system.h"

#include <fmt/core.h>

#include <atomic>
#include <cassert>
#include <cstring>
#include <mutex>

#include "base/gate.h"
#include "io/completion_thread.h"

namespace penstock::io {

namespace {

// Calls that a power cut in their middle may have carried out.
bool changes_something(CallKind kind) {
  switch (kind) {
    case CallKind::kOpen:
    case CallKind::kRename:
    case CallKind::kRemove:
    case CallKind::kRemoveDirectory:
    case CallKind::kMakeDirectory:
    case CallKind::kMakeSymlink:
    case CallKind::kLock:
    case CallKind::kWrite:
    case CallKind::kAllocate:
    case CallKind::kTruncate:
    case CallKind::kSetAttributes:
      return true;
    default:
      return false;
  }
}

CallKind kind_of(IoRequest::Kind kind) {
  if (kind == IoRequest::Kind::kRead) return CallKind::kRead;
  return kind == IoRequest::Kind::kWrite ? CallKind::kWrite : CallKind::kSync;
}

}  // namespace

std::string_view call_kind_name(CallKind kind) {
  switch (kind) {
    case CallKind::kOpen:
      return "open";
    case CallKind::kStat:
      return "stat";
    case CallKind::kRename:
      return "rename";
    case CallKind::kRemove:
      return "remove";
    case CallKind::kRemoveDirectory:
      return "remove_directory";
    case CallKind::kMakeDirectory:
      return "make_directory";
    case CallKind::kMakeSymlink:
      return "make_symlink";
    case CallKind::kMakeLink:
      return "make_link";
    case CallKind::kList:
      return "list";
    case CallKind::kSyncDirectory:
      return "sync_directory";
    case CallKind::kSyncFileSystem:
      return "sync_file_system";
    case CallKind::kSpace:
      return "space";
    case CallKind::kLock:
      return "lock";
    case CallKind::kRead:
      return "read";
    case CallKind::kWrite:
      return "write";
    case CallKind::kSync:
      return "sync";
    case CallKind::kAllocate:
      return "allocate";
    case CallKind::kTruncate:
      return "truncate";
    case CallKind::kAdvise:
      return "advise";
    case CallKind::kSetAttributes:
      return "set_attributes";
    case CallKind::kClose:
      return "close";
  }
  return "unknown";
}

struct FaultyFileSystem::State {
  enum class Fate : uint8_t { kPass, kFail, kCut, kNoPower };
  struct Verdict {
    Fate fate = Fate::kPass;
    Error error;
  };
  struct Record {
    CallKind kind;
    std::string subject;
    int os_errno;
  };

  State(const FaultOptions& fault_options, MemoryFileSystem* memory_disk)
      : options(fault_options), memory(memory_disk) {}

  // Counts the call and says what becomes of it.
  Verdict judge(CallKind kind, const std::string& subject) {
    std::lock_guard lock(mutex);
    const Fate fate = next_fate(kind);
    const int os_errno = fate == Fate::kPass ? 0 : fate == Fate::kFail ? options.error : EIO;
    records.push_back({kind, subject, os_errno});
    if (fate == Fate::kPass) return {};
    const std::string action =
        fmt::format("{} {} (call {}, made to fail)", call_kind_name(kind), subject, records.size());
    return {fate, errno_error(os_errno, action)};
  }

  // The call itself, or what the fault leaves of it.
  template <typename Perform>
  auto call(CallKind kind, const std::string& subject, Perform perform) -> decltype(perform()) {
    Verdict verdict = judge(kind, subject);
    if (verdict.fate == Fate::kPass) return perform();
    if (verdict.fate == Fate::kCut && changes_something(kind)) (void)perform();
    return std::move(verdict.error);
  }

  const FaultOptions options;
  MemoryFileSystem* const memory;  // Null when another file system is wrapped.
  mutable std::mutex mutex;
  std::vector<Record> records;   // Under `mutex`.
  uint64_t counted = 0;          // Under `mutex`: the calls that options.only lets through.
  bool hit = false;              // Under `mutex`.
  bool powered = true;           // Under `mutex`.
  CompletionThread completions;  // Answers the submitted requests that fail.

 private:
  Fate next_fate(CallKind kind) {
    if (!powered) return Fate::kNoPower;
    if (options.only && *options.only != kind) return Fate::kPass;
    ++counted;
    if (counted == options.cut_at) {
      hit = true;
      powered = false;
      return Fate::kCut;
    }
    if (options.fail_at == 0 || counted < options.fail_at) return Fate::kPass;
    if (counted > options.fail_at && !options.for_good) return Fate::kPass;
    hit = true;
    return Fate::kFail;
  }
};

class FaultyFileSystem::FaultyFile : public File {
 public:
  FaultyFile(State& state, std::string path, std::unique_ptr<File> inner)
      : state_(state), path_(std::move(path)), inner_(std::move(inner)) {}
  ~FaultyFile() override {
    gate_.close();
    (void)inner_->close();  // Here, while completions that still run may call this file.
  }

  Result<size_t> read(uint64_t offset, std::span<std::byte> into) override {
    return call(CallKind::kRead, [&] { return inner_->read(offset, into); });
  }

  Result<void> write(uint64_t offset, std::span<const std::byte> from) override {
    const Gate::Pass pass = gate_.enter();
    if (!pass) return closed_error();
    State::Verdict verdict = state_.judge(CallKind::kWrite, path_);
    if (verdict.fate == State::Fate::kPass) return inner_->write(offset, from);
    leave_write(verdict.fate, offset, from);
    return std::move(verdict.error);
  }

  void submit(std::span<IoRequest> requests) override {
    for (IoRequest& request : requests) start(request);
  }
  using File::submit;

  Result<void> sync() override {
    return sync_by([this] { return inner_->sync(); });
  }

  Result<void> data_sync() override {
    return sync_by([this] { return inner_->data_sync(); });
  }

  Result<void> allocate(uint64_t offset, uint64_t length) override {
    return call(CallKind::kAllocate, [&] { return inner_->allocate(offset, length); });
  }

  Result<void> truncate(uint64_t size) override {
    return call(CallKind::kTruncate, [&] { return inner_->truncate(size); });
  }

  Result<void> advise(Advice advice, uint64_t offset, uint64_t length) override {
    return call(CallKind::kAdvise, [&] { return inner_->advise(advice, offset, length); });
  }

  Result<void> set_attributes(std::optional<uint32_t> mode,
                              std::optional<int64_t> mtime_ns) override {
    return call(CallKind::kSetAttributes, [&] { return inner_->set_attributes(mode, mtime_ns); });
  }

  Result<FileInfo> stat() override {
    return call(CallKind::kStat, [&] { return inner_->stat(); });
  }

  CacheMode mode() const override { return inner_->mode(); }
  Alignment alignment() const override { return inner_->alignment(); }

  Result<void> close() override {
    if (closed_.exchange(true)) {
      gate_.close();
      return {};
    }
    State::Verdict verdict = state_.judge(CallKind::kClose, path_);
    gate_.close();
    Result<void> closed = inner_->close();  // Whatever it answers, the file is closed.
    if (verdict.fate == State::Fate::kPass) return closed;
    return std::move(verdict.error);
  }

 private:
  Error closed_error() const { return make_error(ErrorCode::kClosed, path_ + " is closed"); }

  template <typename Perform>
  auto call(CallKind kind, Perform perform) -> decltype(perform()) {
    const Gate::Pass pass = gate_.enter();
    if (!pass) return closed_error();
    return state_.call(kind, path_, perform);
  }

  template <typename Perform>
  Result<void> sync_by(Perform perform) {
    const Gate::Pass pass = gate_.enter();
    if (!pass) return closed_error();
    State::Verdict verdict = state_.judge(CallKind::kSync, path_);
    if (verdict.fate == State::Fate::kPass) return perform();
    leave_sync(verdict.fate);
    return std::move(verdict.error);
  }

  void start(IoRequest& request) {
    CompletionThread::Item item;
    item.pass = gate_.enter();
    if (item.pass) {
      State::Verdict verdict = state_.judge(kind_of(request.kind), path_);
      if (verdict.fate == State::Fate::kPass) {
        inner_->submit(std::span(&request, 1));
        return;
      }
      const std::span<std::byte> memory(request.memory.data, request.memory.size);
      if (request.kind == IoRequest::Kind::kWrite) {
        leave_write(verdict.fate, request.offset, memory);
      } else if (request.kind != IoRequest::Kind::kRead) {
        leave_sync(verdict.fate);
      }
      item.answer = std::move(verdict.error);
    } else {
      item.answer = closed_error();
    }
    item.done = std::move(request.done);
    state_.completions.post(std::move(item));
  }

  // What a write that fails so leaves behind.
  void leave_write(State::Fate fate, uint64_t offset, std::span<const std::byte> from) {
    if (fate == State::Fate::kCut) (void)inner_->write(offset, from);
    if (fate == State::Fate::kFail) (void)inner_->write(offset, from.first(from.size() / 2));
  }

  void leave_sync(State::Fate fate) {
    if (fate == State::Fate::kFail && state_.memory != nullptr) state_.memory->fail_sync(*inner_);
  }

  State& state_;
  const std::string path_;
  const std::unique_ptr<File> inner_;
  Gate gate_;  // Held by what runs here and by completions of our own; inner_ waits for the others.
  std::atomic<bool> closed_ = false;
};

FaultyFileSystem::FaultyFileSystem(const FaultOptions& options)
    : FaultyFileSystem(options, std::make_unique<MemoryFileSystem>()) {}

FaultyFileSystem::FaultyFileSystem(const FaultOptions& options,
                                   std::unique_ptr<MemoryFileSystem> disk)
    : disk_(std::move(disk)),
      wrapped_(*disk_),
      state_(std::make_unique<State>(options, disk_.get())) {}

FaultyFileSystem::FaultyFileSystem(const FaultOptions& options, FileSystem& wrapped)
    : wrapped_(wrapped), state_(std::make_unique<State>(options, nullptr)) {}

FaultyFileSystem::~FaultyFileSystem() = default;

Result<std::unique_ptr<File>> FaultyFileSystem::open(const std::string& path,
                                                     const OpenOptions& options) {
  return state_->call(CallKind::kOpen, path, [&]() -> Result<std::unique_ptr<File>> {
    std::unique_ptr<File> inner = PENSTOCK_TRY(wrapped_.open(path, options));
    return std::unique_ptr<File>(std::make_unique<FaultyFile>(*state_, path, std::move(inner)));
  });
}

Result<FileInfo> FaultyFileSystem::stat(const std::string& path) {
  return state_->call(CallKind::kStat, path, [&] { return wrapped_.stat(path); });
}

Result<FileInfo> FaultyFileSystem::stat_link(const std::string& path) {
  return state_->call(CallKind::kStat, path, [&] { return wrapped_.stat_link(path); });
}

Result<std::string> FaultyFileSystem::read_link(const std::string& path) {
  return state_->call(CallKind::kStat, path, [&] { return wrapped_.read_link(path); });
}

Result<void> FaultyFileSystem::make_symlink(const std::string& target, const std::string& path) {
  return state_->call(CallKind::kMakeSymlink, path,
                      [&] { return wrapped_.make_symlink(target, path); });
}

Result<void> FaultyFileSystem::make_link(const std::string& file, const std::string& path) {
  return state_->call(CallKind::kMakeLink, path, [&] { return wrapped_.make_link(file, path); });
}

Result<void> FaultyFileSystem::rename(const std::string& from, const std::string& to,
                                      RenameMode mode) {
  return state_->call(CallKind::kRename, fmt::format("{} to {}", from, to),
                      [&] { return wrapped_.rename(from, to, mode); });
}

Result<void> FaultyFileSystem::remove(const std::string& path) {
  return state_->call(CallKind::kRemove, path, [&] { return wrapped_.remove(path); });
}

Result<void> FaultyFileSystem::remove_directory(const std::string& path) {
  return state_->call(CallKind::kRemoveDirectory, path,
                      [&] { return wrapped_.remove_directory(path); });
}

Result<void> FaultyFileSystem::make_directory(const std::string& path, mode_t permissions) {
  return state_->call(CallKind::kMakeDirectory, path,
                      [&] { return wrapped_.make_directory(path, permissions); });
}

Result<void> FaultyFileSystem::list(const std::string& path,
                                    const std::function<bool(const DirectoryEntry&)>& visit) {
  return state_->call(CallKind::kList, path, [&] { return wrapped_.list(path, visit); });
}

Result<void> FaultyFileSystem::sync_directory(const std::string& path) {
  return state_->call(CallKind::kSyncDirectory, path,
                      [&] { return wrapped_.sync_directory(path); });
}

Result<void> FaultyFileSystem::sync_file_system(const std::string& path) {
  State::Verdict verdict = state_->judge(CallKind::kSyncFileSystem, path);
  if (verdict.fate == State::Fate::kPass) return wrapped_.sync_file_system(path);
  if (verdict.fate == State::Fate::kFail && disk_ != nullptr) disk_->fail_sync_everything();
  return std::move(verdict.error);
}

Result<SpaceInfo> FaultyFileSystem::space(const std::string& path) {
  return state_->call(CallKind::kSpace, path, [&] { return wrapped_.space(path); });
}

Result<std::unique_ptr<FileLock>> FaultyFileSystem::try_lock(const std::string& path) {
  return state_->call(CallKind::kLock, path, [&] { return wrapped_.try_lock(path); });
}

std::string FaultyFileSystem::boot_id() {
  return wrapped_.boot_id();
}

std::string FaultyFileSystem::description() const {
  return "faulty over " + wrapped_.description();
}

std::unique_ptr<MemoryFileSystem> FaultyFileSystem::power_cut(uint64_t seed) const {
  assert(disk_ != nullptr);
  return disk_->power_cut(seed);
}

bool FaultyFileSystem::fault_hit() const {
  std::lock_guard lock(state_->mutex);
  return state_->hit;
}

uint64_t FaultyFileSystem::calls() const {
  std::lock_guard lock(state_->mutex);
  return state_->records.size();
}

std::vector<std::string> FaultyFileSystem::trace() const {
  std::lock_guard lock(state_->mutex);
  std::vector<std::string> lines;
  for (const State::Record& record : state_->records) {
    std::string line =
        fmt::format("{} {} {}", lines.size() + 1, call_kind_name(record.kind), record.subject);
    if (record.os_errno != 0) line += fmt::format(": {}", std::strerror(record.os_errno));
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace penstock::io
