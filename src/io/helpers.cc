// What is built from the interface alone, so that every file system has it.
#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "penstock/io.h"

namespace penstock::io {

namespace {

// Counts completions down and wakes the one waiter. Notifies under the lock: the waiter destroys it
// right after.
class Countdown {
 public:
  explicit Countdown(size_t count) : left_(count) {}
  void done() {
    std::lock_guard lock(mutex_);
    if (--left_ == 0) zero_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    zero_.wait(lock, [this] { return left_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable zero_;
  size_t left_;
};

}  // namespace

std::string_view cache_mode_name(CacheMode mode) {
  switch (mode) {
    case CacheMode::kBuffered:
      return "buffered";
    case CacheMode::kDirect:
      return "direct";
    case CacheMode::kUncached:
      return "uncached";
  }
  return "unknown";
}

IoRequest IoRequest::read(uint64_t offset, MemorySlice into, IoDone done) {
  return {Kind::kRead, offset, into, std::move(done)};
}

IoRequest IoRequest::write(uint64_t offset, std::span<const std::byte> from, IoDone done) {
  // A write only reads the memory; one slice type for both directions keeps the engines simple.
  auto* data = const_cast<std::byte*>(from.data());
  return {Kind::kWrite, offset, MemorySlice(data, from.size(), 0), std::move(done)};
}

IoRequest IoRequest::write(uint64_t offset, MemorySlice from, IoDone done) {
  return {Kind::kWrite, offset, from, std::move(done)};
}

IoRequest IoRequest::sync(IoDone done) {
  return {Kind::kSync, 0, {}, std::move(done)};
}

IoRequest IoRequest::data_sync(IoDone done) {
  return {Kind::kDataSync, 0, {}, std::move(done)};
}

Result<std::string> FileSystem::read_link(const std::string& path) {
  return make_error(ErrorCode::kUnsupported, fmt::format("{}: no links are known here", path));
}

Result<void> FileSystem::make_link(const std::string&, const std::string& path) {
  return make_error(ErrorCode::kUnsupported, fmt::format("{}: no links are known here", path));
}

Result<void> run_all(File& file, std::span<IoRequest> requests,
                     std::vector<Result<size_t>>* results) {
  if (results != nullptr) results->clear();
  if (requests.empty()) return {};
  std::vector<Result<size_t>> answers(requests.size(), Result<size_t>(0));
  Countdown countdown(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].done = [&answers, &countdown, i](Result<size_t> answer) {
      answers[i] = std::move(answer);
      countdown.done();
    };
  }
  file.submit(requests);
  countdown.wait();

  Result<void> outcome;
  for (const Result<size_t>& answer : answers) {
    if (!answer.ok() && outcome.ok()) outcome = answer.error();
  }
  if (results != nullptr) *results = std::move(answers);
  return outcome;
}

std::string parent_path(const std::string& path) {
  size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return path.empty() ? "." : "/";
  const size_t slash = path.find_last_of('/', end);
  if (slash == std::string::npos) return ".";
  end = path.find_last_not_of('/', slash);
  return end == std::string::npos ? "/" : path.substr(0, end + 1);
}

Result<void> make_directories(FileSystem& fs, const std::string& path, mode_t permissions) {
  Result<void> made = fs.make_directory(path, permissions);
  if (!made.ok() && made.error().code == ErrorCode::kNotFound) {
    const std::string parent = parent_path(path);
    if (parent == path) return made;
    PENSTOCK_TRY(make_directories(fs, parent, permissions));
    made = fs.make_directory(path, permissions);
  }
  if (made.ok() || made.error().code != ErrorCode::kExists) return made;
  const FileInfo info = PENSTOCK_TRY(fs.stat(path));
  if (info.kind == FileKind::kDirectory) return {};
  return make_error(ErrorCode::kExists, fmt::format("{} is there and is not a directory", path));
}

Result<void> remove_tree(FileSystem& fs, const std::string& given) {
  // With a slash at its end the name of a link means what it leads to.
  const size_t end = given.find_last_not_of('/');
  const std::string path = end == std::string::npos ? given : given.substr(0, end + 1);
  const Result<FileInfo> info = fs.stat_link(path);
  if (!info.ok()) return info.error().code == ErrorCode::kNotFound ? Result<void>() : info.error();
  if (info->kind != FileKind::kDirectory) return fs.remove(path);
  std::vector<DirectoryEntry> entries;
  PENSTOCK_TRY(fs.list(path, [&](const DirectoryEntry& entry) {
    entries.push_back(entry);
    return true;
  }));
  for (const DirectoryEntry& entry : entries)
    PENSTOCK_TRY(remove_tree(fs, path + "/" + entry.name));
  return fs.remove_directory(path);
}

Result<std::string> read_file(FileSystem& fs, const std::string& path, uint64_t limit_bytes) {
  const std::unique_ptr<File> file = PENSTOCK_TRY(fs.open(path, {}));
  std::string contents;
  // Read until the end rather than trust the size: files under /proc and /sys claim none.
  while (contents.size() <= limit_bytes) {
    const size_t have = contents.size();
    const size_t step = std::min<uint64_t>(std::max<uint64_t>(have, 4096), limit_bytes + 1 - have);
    contents.resize(have + step);
    const size_t got =
        PENSTOCK_TRY(file->read(have, std::as_writable_bytes(std::span(contents).subspan(have))));
    contents.resize(have + got);
    if (got < step) return contents;
  }
  return make_error(ErrorCode::kNoMemory,
                    fmt::format("{} is larger than {}", path, format_size(limit_bytes)));
}

Result<void> write_file_durably(FileSystem& fs, const std::string& path,
                                std::string_view contents) {
  static std::atomic<uint64_t> counter{0};
  const std::string temporary = fmt::format("{}.tmp-{}-{}", path, ::getpid(), counter++);
  const auto write = [&]() -> Result<void> {
    const std::unique_ptr<File> file =
        PENSTOCK_TRY(fs.open(temporary, {.access = Access::kWrite, .create = Create::kTruncate}));
    PENSTOCK_TRY(file->write(0, std::as_bytes(std::span(contents))));
    PENSTOCK_TRY(file->sync());
    PENSTOCK_TRY(file->close());
    return fs.rename(temporary, path);
  };
  const Result<void> written = write();
  if (!written.ok()) {
    (void)fs.remove(temporary);
    return written;
  }
  return fs.sync_directory(parent_path(path));
}

}  // namespace penstock::io
