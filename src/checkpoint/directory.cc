#include "checkpoint/directory.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/log.h"
#include "checkpoint/manifest.h"
#include "checkpoint/names.h"

namespace penstock::checkpoint {

Result<void> make_directories_durably(io::FileSystem& fs, const std::string& path) {
  const Result<io::FileInfo> there = fs.stat(path);
  if (there.ok()) {
    if (there->kind == io::FileKind::kDirectory) return {};
    return make_error(ErrorCode::kInvalid, fmt::format("{} is no directory", path));
  }
  if (there.error().code != ErrorCode::kNotFound) return there.error();
  const std::string parent = io::parent_path(path);
  if (parent != path) PENSTOCK_TRY(make_directories_durably(fs, parent));
  const Result<void> made = fs.make_directory(path);
  if (!made.ok() && made.error().code != ErrorCode::kExists) return made;
  return fs.sync_directory(parent);
}

Result<std::unique_ptr<io::FileLock>> lease_directory(io::FileSystem& fs,
                                                      const std::string& directory) {
  PENSTOCK_TRY(make_directories_durably(fs, directory));
  Result<std::unique_ptr<io::FileLock>> lock = fs.try_lock(join(directory, kLockName));
  if (!lock.ok() && lock.error().code == ErrorCode::kBusy) {
    return make_error(ErrorCode::kBusy,
                      fmt::format("{}: another process saves checkpoints there, or another "
                                  "Checkpointer of this one; close it, or choose another directory",
                                  directory));
  }
  return lock;
}

namespace {

Result<std::vector<std::string>> names_with(io::FileSystem& fs, const std::string& directory,
                                            std::string_view prefix) {
  std::vector<std::string> names;
  PENSTOCK_TRY(fs.list(directory, [&](const io::DirectoryEntry& entry) {
    if (entry.name.starts_with(prefix)) names.push_back(entry.name);
    return true;
  }));
  return names;
}

// A run died while one checkpoint took the name of another.
Result<void> settle_aside(io::FileSystem& fs, const std::string& directory) {
  for (const std::string& aside : PENSTOCK_TRY(names_with(fs, directory, kAsidePrefix))) {
    const std::string name = aside.substr(kAsidePrefix.size());
    const Result<void> back =
        fs.rename(join(directory, aside), join(directory, name), io::RenameMode::kNoReplace);
    if (back.ok()) {
      log_info("a checkpoint has its name again", {{"path", join(directory, name)}});
      continue;
    }
    if (back.error().code != ErrorCode::kExists) return back;
    PENSTOCK_TRY(io::remove_tree(fs, join(directory, aside)));
  }
  return {};
}

}  // namespace

Result<void> remove_leftovers(io::FileSystem& fs, const std::string& directory,
                              const std::string& alive) {
  PENSTOCK_TRY(settle_aside(fs, directory));
  const std::string kept = fmt::format("{}{}", kTemporaryPrefix, alive);
  for (const std::string& name : PENSTOCK_TRY(names_with(fs, directory, kTemporaryPrefix))) {
    if (!alive.empty() && name.starts_with(kept)) continue;
    log_info("removing what an earlier run left unfinished", {{"path", join(directory, name)}});
    PENSTOCK_TRY(io::remove_tree(fs, join(directory, name)));
  }
  return {};
}

Result<void> remove_run(io::FileSystem& fs, const std::string& directory, const std::string& run) {
  const std::string prefix = fmt::format("{}{}", kTemporaryPrefix, run);
  for (const std::string& name : PENSTOCK_TRY(names_with(fs, directory, prefix)))
    PENSTOCK_TRY(io::remove_tree(fs, join(directory, name)));
  return {};
}

Result<std::vector<uint64_t>> list_steps(io::FileSystem& fs, const std::string& directory) {
  std::vector<uint64_t> steps;
  PENSTOCK_TRY(fs.list(directory, [&](const io::DirectoryEntry& entry) {
    if (const std::optional<uint64_t> step = parse_step_name(entry.name)) steps.push_back(*step);
    return true;
  }));
  std::ranges::sort(steps);
  return steps;
}

std::vector<uint64_t> steps_to_remove(const std::vector<uint64_t>& steps,
                                      const Retention& retention) {
  std::vector<uint64_t> removed;
  if (retention.keep_last == 0 && retention.keep_every == 0) return removed;
  const uint64_t last = std::max<uint64_t>(retention.keep_last, 1);
  for (size_t i = 0; i + last < steps.size(); ++i) {
    const bool kept = retention.keep_every != 0 && steps[i] % retention.keep_every == 0;
    if (!kept) removed.push_back(steps[i]);
  }
  return removed;
}

Result<void> check_replaceable(io::FileSystem& fs, const std::string& path) {
  const io::FileInfo info = PENSTOCK_TRY(fs.stat_link(path));
  if (info.kind != io::FileKind::kDirectory) return {};
  if (fs.stat_link(join(path, kManifestName)).ok()) return {};
  bool empty = true;
  PENSTOCK_TRY(fs.list(path, [&](const io::DirectoryEntry&) { return empty = false; }));
  if (empty) return {};
  return make_error(ErrorCode::kExists,
                    fmt::format("{} is a directory and no checkpoint: it is not replaced or "
                                "removed; choose another name",
                                path));
}

Result<void> remove_checkpoint(io::FileSystem& fs, const std::string& directory,
                               const std::string& name) {
  const std::string away = join(directory, fmt::format("{}{}", kTemporaryPrefix, make_nonce()));
  PENSTOCK_TRY(fs.rename(join(directory, name), away, io::RenameMode::kNoReplace));
  // Or files could go while the name comes back.
  PENSTOCK_TRY(fs.sync_directory(directory));
  return io::remove_tree(fs, away);
}

Result<void> write_latest(io::FileSystem& fs, const std::string& directory, uint64_t step) {
  return io::write_file_durably(fs, join(directory, kLatestName), step_name(step) + "\n");
}

}  // namespace penstock::checkpoint
