// A file system in memory that knows what of it would survive a power cut. For tests.
//
//   MemoryFileSystem fs;
//   save(fs, "/checkpoint");
//   std::unique_ptr<MemoryFileSystem> after = fs.power_cut(/*seed=*/7);
//   load(*after, "/checkpoint");
//
// What io.h promises nothing about happens here: an unsynced write is lost, kept, or torn at
// sectors of 512 bytes, in no order; an unsynced name is lost or kept, each for itself; a sync
// covers no write in flight; a file's sync does not cover its name, nor a directory's sync the name
// of the directory. What journalling file systems do promise holds: a rename is all or nothing,
// sizes and truncations of one file keep their order, moving a file never loses it.
//
// Every operation, submitted ones too, takes effect in the order of the calls and inside them;
// completions follow on one engine thread. So a single-threaded caller sees the same states every
// time. Relative paths start at the root. Permissions are kept, not enforced. Unsynced changes are
// kept in memory until synced.
#pragma once

#include <memory>
#include <string>

#include "io/memory_disk.h"
#include "penstock/io.h"

namespace penstock::io {

struct MemoryCore;

class MemoryFileSystem : public FileSystem {
 public:
  explicit MemoryFileSystem(const MemoryOptions& options = {});
  ~MemoryFileSystem() override;

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

  // A copy, with its own unsynced changes; nothing is open or locked in it.
  std::unique_ptr<MemoryFileSystem> clone() const;
  // What a machine could find after losing power now, under a new boot id. Seed 0: everything
  // unsynced is lost; seed 1: all is kept; another: a mixture that depends on the seed alone.
  // This one stays as it is.
  std::unique_ptr<MemoryFileSystem> power_cut(uint64_t seed) const;

  // What a failed sync of a file (which must be one of this file system's), or of everything, does:
  // what was not durable stays so, although a later sync answers that all is well.
  void fail_sync(File& file);
  void fail_sync_everything();

 private:
  explicit MemoryFileSystem(MemoryDisk disk);

  std::unique_ptr<MemoryCore> core_;
};

}  // namespace penstock::io
