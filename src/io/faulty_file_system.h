// A file system that fails the Nth call or loses power at it, to walk through every way in which an
// operation can go wrong:
//
//   for (uint64_t n = 1;; ++n) {
//     FaultyFileSystem fs({.cut_at = n}, prepared.clone());
//     const bool saved = save(fs).ok();
//     for (uint64_t seed = 0; seed < 20; ++seed) check(*fs.power_cut(seed), saved);
//     if (!fs.fault_hit()) break;
//   }
//
// Each call of FileSystem and File counts as one, as does each submitted request, in the order in
// which they are made. boot_id(), description(), mode() and alignment() do not count, nor does the
// closing by a destructor, which has nobody to tell.
#pragma once

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/memory_file_system.h"
#include "penstock/io.h"

namespace penstock::io {

enum class CallKind : uint8_t {
  kOpen,
  kStat,  // By path or of a File; reading a link too.
  kRename,
  kRemove,
  kRemoveDirectory,
  kMakeDirectory,
  kMakeSymlink,
  kMakeLink,
  kList,
  kSyncDirectory,
  kSyncFileSystem,
  kSpace,
  kLock,
  kRead,
  kWrite,
  kSync,  // Of a file, data_sync() too.
  kAllocate,
  kTruncate,
  kAdvise,
  kSetAttributes,
  kClose,
};
std::string_view call_kind_name(CallKind kind);

struct FaultOptions {
  // The call that fails, counted from 1; 0: none. It does nothing, save that a write has written
  // half of its bytes, a close has closed, and a sync has done what Linux does then: the data not
  // yet durable never will be, whatever a second sync answers.
  uint64_t fail_at = 0;
  // The call during which the power goes; 0: never. It and all later ones fail with EIO. What it
  // was about to change counts as changed and not synced, so power_cut() keeps, loses or tears it;
  // later ones do nothing.
  uint64_t cut_at = 0;
  // Only calls of this kind count for the two above.
  std::optional<CallKind> only = std::nullopt;
  int error = EIO;        // What `fail_at` fails with.
  bool for_good = false;  // `fail_at` fails the later calls too (those of kind `only`, when set).
};

// Threads: every call from any thread; which call is the Nth is certain only with one thread.
class FaultyFileSystem : public FileSystem {
 public:
  // Starts with an empty disk.
  explicit FaultyFileSystem(const FaultOptions& options);
  // Starts with what `disk` holds.
  FaultyFileSystem(const FaultOptions& options, std::unique_ptr<MemoryFileSystem> disk);
  // Fails calls of any file system, which outlives this one. It has no power_cut() and no disk().
  FaultyFileSystem(const FaultOptions& options, FileSystem& wrapped);
  ~FaultyFileSystem() override;

  Result<std::unique_ptr<File>> open(const std::string& path, const OpenOptions& options) override;
  Result<FileInfo> stat(const std::string& path) override;
  Result<FileInfo> stat_link(const std::string& path) override;
  Result<std::string> read_link(const std::string& path) override;
  Result<void> make_symlink(const std::string& target, const std::string& path) override;
  Result<void> make_link(const std::string& file, const std::string& path) override;
  Result<void> rename(const std::string& from, const std::string& to,
                      RenameMode mode = RenameMode::kReplace) override;
  Result<void> remove(const std::string& path) override;
  Result<void> remove_directory(const std::string& path) override;
  Result<void> make_directory(const std::string& path, mode_t permissions = 0755) override;
  Result<void> list(const std::string& path,
                    const std::function<bool(const DirectoryEntry&)>& visit) override;
  Result<void> sync_directory(const std::string& path) override;
  Result<void> sync_file_system(const std::string& path) override;
  Result<SpaceInfo> space(const std::string& path) override;
  Result<std::unique_ptr<FileLock>> try_lock(const std::string& path) override;
  std::string boot_id() override;
  std::string description() const override;

  // The state that survives when the power goes now, or went at `cut_at`; see
  // MemoryFileSystem::power_cut. To be called while no other call runs.
  std::unique_ptr<MemoryFileSystem> power_cut(uint64_t seed) const;

  // What is inside, for a look that counts as no call.
  MemoryFileSystem& disk() { return *disk_; }

  // Whether the call that `fail_at` or `cut_at` names was made.
  bool fault_hit() const;
  uint64_t calls() const;
  // One line per call: "12 sync /a/b", and behind the failed ones ": Input/output error".
  std::vector<std::string> trace() const;

 private:
  struct State;
  class FaultyFile;

  std::unique_ptr<MemoryFileSystem> disk_;
  FileSystem& wrapped_;
  std::unique_ptr<State> state_;
};

}  // namespace penstock::io
