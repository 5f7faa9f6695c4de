#include "checkpoint/attempt.h"

#include <fmt/core.h>

#include <condition_variable>
#include <mutex>

#include "base/log.h"
#include "checkpoint/names.h"

namespace penstock::checkpoint {

namespace {

// Syncs of several files at once, and the first error of them.
class Syncs {
 public:
  void start(io::File& file) {
    {
      std::lock_guard lock(mutex_);
      ++left_;
    }
    file.submit(io::IoRequest::sync([this](const Result<size_t>& result) { done(result); }));
  }
  Result<void> wait() {
    std::unique_lock lock(mutex_);
    zero_.wait(lock, [this] { return left_ == 0; });
    return first_;
  }

 private:
  void done(const Result<size_t>& result) {
    std::lock_guard lock(mutex_);
    if (!result.ok() && first_.ok()) first_ = result.error();
    if (--left_ == 0) zero_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable zero_;
  size_t left_ = 0;
  Result<void> first_;
};

}  // namespace

std::string attempt_path(const std::string& directory, const std::string& nonce) {
  return join(directory, fmt::format("{}{}", kTemporaryPrefix, nonce));
}

Attempt::Attempt(io::FileSystem& fs, const std::string& directory, const Place& place)
    : fs_(fs), directory_(directory), place_(place), path_(attempt_path(directory_, place.nonce)) {}

Result<std::unique_ptr<Attempt>> Attempt::begin(io::FileSystem& fs, const std::string& directory,
                                                Plan& plan, io::CacheMode mode,
                                                const Place& place) {
  std::unique_ptr<Attempt> attempt(new Attempt(fs, directory, place));
  PENSTOCK_TRY(attempt->make_files(plan, mode));
  return attempt;
}

Attempt::~Attempt() {
  files_.clear();
  if (!ours_) return;
  const Result<void> removed = place_.shared ? remove_files() : io::remove_tree(fs_, path_);
  if (!removed.ok()) {
    log_warn("a checkpoint that was not finished could not be removed",
             {{"path", path_}, {"error", removed.error().detail}});
  }
}

// The directory is the others' too: who leads them removes it.
Result<void> Attempt::remove_files() {
  for (const std::string& name : names_) {
    const Result<void> removed = fs_.remove(join(path_, name));
    if (!removed.ok() && removed.error().code != ErrorCode::kNotFound) return removed;
  }
  return {};
}

Result<void> Attempt::make_files(Plan& plan, io::CacheMode mode) {
  const Result<void> made = fs_.make_directory(path_);
  if (!made.ok() && !(place_.shared && made.error().code == ErrorCode::kExists)) return made;
  ours_ = true;
  for (size_t i = 0; i < plan.files.size(); ++i) {
    ManifestFile& entry = plan.files[i].entry;
    entry.rank = place_.rank;
    entry.name = place_.shared ? rank_data_name(place_.rank, place_.retry, i) : data_name(i);
    PENSTOCK_TRY(make_file(plan.files[i], mode));
  }
  return {};
}

Result<void> Attempt::make_file(const FilePlan& plan, io::CacheMode mode) {
  names_.push_back(plan.entry.name);
  files_.push_back(
      PENSTOCK_TRY(fs_.open(join(path_, plan.entry.name), {.access = io::Access::kWrite,
                                                           .create = io::Create::kMustNotExist,
                                                           .mode = mode,
                                                           .require_mode = false})));
  const Result<void> reserved = files_.back()->allocate(0, plan.entry.bytes);
  if (reserved.ok()) return {};
  if (reserved.error().code != ErrorCode::kUnsupported) return reserved;
  const io::SpaceInfo space = PENSTOCK_TRY(fs_.space(path_));
  if (space.available_bytes >= plan.entry.bytes) return {};
  return make_error(ErrorCode::kNoSpace,
                    fmt::format("{}: a checkpoint file of {} does not fit: {} are free", directory_,
                                format_size(plan.entry.bytes), format_size(space.available_bytes)));
}

Result<void> Attempt::link(size_t index, const std::string& existing) {
  const std::string path = join(path_, names_[index]);
  const std::string linked = path + ".link";
  PENSTOCK_TRY(fs_.make_link(existing, linked));
  // The reserved space goes with the file that had this name.
  const Result<void> moved = fs_.rename(linked, path);
  if (!moved.ok()) {
    (void)fs_.remove(linked);
    return moved;
  }
  files_[index].reset();
  return {};
}

Result<void> Attempt::finish_files(const Plan& plan) {
  Syncs syncs;
  for (size_t i = 0; i < files_.size(); ++i) {
    // What was reserved beyond, or written to fill the last block.
    if (files_[i] != nullptr) PENSTOCK_TRY(files_[i]->truncate(plan.files[i].entry.bytes));
  }
  for (const auto& file : files_) {
    if (file != nullptr) syncs.start(*file);
  }
  PENSTOCK_TRY(syncs.wait());
  for (const auto& file : files_) {
    if (file != nullptr) PENSTOCK_TRY(file->close());
  }
  // Who commits may be on another machine.
  return place_.shared ? fs_.sync_directory(path_) : Result<void>();
}

}  // namespace penstock::checkpoint
