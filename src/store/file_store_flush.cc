// How a file store makes what was put durable: see the invariants in file_store.h.
#include <fmt/core.h>

#include <future>
#include <random>

#include "base/log.h"
#include "store/directory_sync.h"
#include "store/file_store.h"

namespace penstock::store {

namespace {

constexpr size_t kMovesPerLock = 256;

}  // namespace

Result<void> FileStore::do_flush(const CallOptions& options, uint64_t failures_before) {
  if (!temporary_) return {};
  const StoreLock::Held turn = PENSTOCK_TRY(flush_lock_.acquire(options));
  Result<void> flushed = flush_in_turn(options);
  if (!flushed.ok()) {
    const ErrorCode code = flushed.error().code;
    if (code != ErrorCode::kTimeout && code != ErrorCode::kCancelled) ++flush_failures_;
    return flushed;
  }
  if (flush_failures_ != failures_before) {
    return make_error(ErrorCode::kIo,
                      fmt::format("another flush of {} failed meanwhile: what was put before it "
                                  "must be put again",
                                  description()));
  }
  return {};
}

Result<void> FileStore::flush_in_turn(const CallOptions& options) {
  PENSTOCK_TRY(check_losses());
  if (discard_promoting_) PENSTOCK_TRY(discard_promoting());
  PENSTOCK_TRY(promote(options));  // What a flush that did not get to its end left there.
  PENSTOCK_TRY(start_promoting(options));
  PENSTOCK_TRY(promote(options));
  return directories_.sync(/*files_too=*/false);
}

// Requires that promoting/ is not there.
Result<void> FileStore::start_promoting(const CallOptions& options) {
  const StoreLock::Held names = PENSTOCK_TRY(names_lock_.acquire(options));
  Result<void> renamed = fs_.rename(pending_, promoting_);
  if (!renamed.ok() && renamed.error().code == ErrorCode::kNotFound) return {};  // Nothing was put.
  return renamed;
}

Result<void> FileStore::promote(const CallOptions& options) {
  std::vector<std::string> paths = PENSTOCK_TRY(promoting_paths(kSyncedOneByOneMax + 1));
  if (!paths.empty()) PENSTOCK_TRY(make_files_durable(paths));
  while (!paths.empty()) {
    PENSTOCK_TRY(move_to_objects(paths, options));
    paths = PENSTOCK_TRY(promoting_paths(kMovesPerLock));
  }
  return io::remove_tree(fs_, promoting_);
}

Result<std::vector<std::string>> FileStore::promoting_paths(size_t limit) {
  std::vector<std::string> paths;
  PENSTOCK_TRY(for_each_object_path(fs_, promoting_, [&](const std::string& path) {
    if (path_to_key(path)) paths.push_back(path);
    return paths.size() < limit;
  }));
  return paths;
}

Result<void> FileStore::make_files_durable(const std::vector<std::string>& paths) {
  if (paths.size() > kSyncedOneByOneMax) {
    const Result<void> synced = fs_.sync_file_system(root_);
    if (!synced.ok()) return lose_promoting(synced.error());
    return {};
  }
  std::vector<std::unique_ptr<io::File>> files;
  for (const std::string& path : paths) {
    Result<std::unique_ptr<io::File>> file = fs_.open(promoting_ + "/" + path, {});
    if (file.ok()) files.push_back(std::move(*file));
    // Not there: removed meanwhile.
    if (!file.ok() && file.error().code != ErrorCode::kNotFound) return file.error();
  }
  std::vector<std::future<Result<size_t>>> answers;
  for (const std::unique_ptr<io::File>& file : files) {
    auto answer = std::make_shared<std::promise<Result<size_t>>>();
    answers.push_back(answer->get_future());
    file->submit(io::IoRequest::data_sync(
        [answer](Result<size_t> synced) { answer->set_value(std::move(synced)); }));
  }
  std::optional<Error> failed;
  for (std::future<Result<size_t>>& answer : answers) {
    const Result<size_t> synced = answer.get();
    if (!synced.ok()) failed = synced.error();
  }
  files.clear();
  if (failed) return lose_promoting(*failed);
  return {};
}

Result<void> FileStore::move_to_objects(const std::vector<std::string>& paths,
                                        const CallOptions& options) {
  const StoreLock::Held names = PENSTOCK_TRY(names_lock_.acquire(options));
  for (const std::string& path : paths) {
    const std::string from = promoting_ + "/" + path;
    const std::string to = object_path(*path_to_key(path));
    directories_.changed(io::parent_path(to));
    Result<void> moved = fs_.rename(from, to);
    if (!moved.ok() && moved.error().code == ErrorCode::kNotFound) {
      PENSTOCK_TRY(io::make_directories(fs_, io::parent_path(to)));
      moved = fs_.rename(from, to);
    }
    // Still not found: the object was removed meanwhile.
    if (!moved.ok() && moved.error().code != ErrorCode::kNotFound) return moved;
  }
  return {};
}

// A sync that failed cannot be repeated: the kernel may have dropped the bytes, and then says that
// all is well. So everything that was to be made durable is given up.
Error FileStore::lose_promoting(const Error& error) {
  discard_promoting_ = true;
  const Result<void> discarded = discard_promoting();
  if (!discarded.ok()) {
    log_warn("objects whose sync failed could not be removed; the next flush tries again",
             {{"store", description()}, {"error", discarded.error().to_string()}});
  }
  return error.with_context(
      fmt::format("flush of {}: what was put since the last one must be put again", description()));
}

Result<void> FileStore::discard_promoting() {
  std::random_device device;
  const std::string mark = fmt::format("{:08x}{:08x}\n", device(), device());
  const std::unique_ptr<io::File> file = PENSTOCK_TRY(
      fs_.open(losses_, {.access = io::Access::kWrite, .create = io::Create::kIfMissing}));
  PENSTOCK_TRY(file->write(0, std::as_bytes(std::span(mark))));
  losses_seen_ = mark;
  const StoreLock::Held names = PENSTOCK_TRY(names_lock_.acquire({}));
  PENSTOCK_TRY(io::remove_tree(fs_, promoting_));
  discard_promoting_ = false;
  return {};
}

Result<void> FileStore::check_losses() {
  const Result<std::string> mark = io::read_file(fs_, losses_, kKiB);
  if (!mark.ok() && mark.error().code == ErrorCode::kNotFound) return {};
  if (!mark.ok()) return mark.error();
  if (*mark == losses_seen_) return {};
  losses_seen_ = *mark;
  return make_error(ErrorCode::kIo,
                    fmt::format("a flush of {} by another process failed: what was put since the "
                                "last one must be put again",
                                description()));
}

}  // namespace penstock::store
