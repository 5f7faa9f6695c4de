#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "penstock/io.h"
#include "penstock/sync.h"
#include "sync/staged_file.h"

namespace penstock::sync {

inline constexpr uint32_t kModeBits =
    0777;  // Never the bits that lend somebody's rights to others.

// A local directory that is written to. No name leads out of it: parts of keys are checked, and
// directories on the way that are links are refused.
// Threads: all calls from any thread.
class TreeTarget {
 public:
  struct Settings {
    // Tells the permission bits for a new directory, relative and without '/' at the end ("" is the
    // top); nothing means the usual ones.
    std::function<std::optional<uint32_t>(const std::string& folder)> mode_of_folder;
    std::function<void(const std::string& path)> on_directory;
  };
  // `directory` is absolute, without links, and need not be there yet; `fs` outlives it.
  TreeTarget(io::FileSystem& fs, std::string directory, Settings settings);
  // Gives directories their modes, as finish().
  ~TreeTarget();

  // Makes the directory when it is missing and finds out, with a file that is there for a moment,
  // what the file system does to names and times.
  Result<void> prepare();
  // "A" and "a" are one file.
  bool folds_case() const { return folds_case_; }
  // Times are kept in steps of so much.
  int64_t time_step_ns() const { return time_step_ns_; }

  // Nothing, or why a tree cannot hold this key.
  static Result<void> check_name(std::string_view key);
  std::string path_of(std::string_view key) const;
  // What is there, links not followed; nothing when it is missing.
  Result<std::optional<io::FileInfo>> look(std::string_view key) const;

  // The directory and its parents. `folder` is empty or ends with '/'.
  Result<void> make_folder(std::string_view folder);
  // Sets the permission bits of a directory that is there.
  Result<void> set_folder_mode(std::string_view folder, uint32_t mode);
  // A file or link that will have the name `key`; its folder is made. One that will be given a mode
  // is nobody else's to read before.
  Result<std::unique_ptr<StagedFile>> start(const std::string& key, bool has_mode);
  Result<std::unique_ptr<StagedFile>> start_link(const std::string& key,
                                                 const std::string& leads_to);
  // Of a file that is there.
  Result<void> set_attributes(const std::string& key, std::optional<uint32_t> mode,
                              std::optional<int64_t> mtime_ns);

  // A missing one is fine. Of a folder: only when it is empty; false when it is not.
  Result<void> remove(const std::string& key);
  Result<bool> remove_folder(std::string_view folder);
  // What a killed run left behind. `key` is that of an unfinished file; one that somebody may still
  // be writing stays.
  void remove_if_old(const std::string& key);

  // Gives directories that their owner may not write to their modes, now that they are filled, and
  // with `durable` makes all names so.
  Result<void> finish(bool durable);
  void note_change() { changed_ = true; }

 private:
  std::string temporary_path(std::string_view folder);
  bool is_known(std::string_view folder);
  void know(std::string folder);
  Result<void> make_one(std::string_view folder);
  Result<void> dress_folder(const std::string& name, std::optional<uint32_t> mode);
  Result<void> probe();
  template <typename Attempt>
  auto write_in(std::string_view folder, const Attempt& attempt) -> decltype(attempt());
  Result<void> open_up(std::string_view folder);
  Result<void> keep_for_last(std::string_view folder, uint32_t mode);
  Result<void> restore_modes();
  Error in_the_way(std::string_view key, std::string_view what) const;

  io::FileSystem& fs_;
  const std::string directory_;
  const Settings settings_;
  const uint64_t number_;  // Of this run, in temporary names.
  std::atomic<uint64_t> counter_{0};
  std::atomic<bool> changed_{false};
  bool folds_case_ = false;
  int64_t time_step_ns_ = 1;

  std::mutex make_mutex_;  // While a new directory is shown to on_directory: nothing is put there.
  std::mutex mutex_;
  std::unordered_set<std::string> known_;  // Folders that are there, and no links.
  std::map<std::string, uint32_t> late_modes_;
};

}  // namespace penstock::sync
