// The state behind MemoryFileSystem: a tree of inodes, and what of it is durable. A plain value:
// copying it is how file systems are cloned. Knows nothing of threads.
//
// Invariants: no inode number is used twice. An inode stays for as long as the tree, an open file,
// the durable tree or an unsynced change refers to it (Inode::references).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/file_content.h"
#include "penstock/io.h"

namespace penstock::io {

struct MemoryOptions {
  uint64_t capacity_bytes = 4 * kGiB;
  uint64_t inode_limit = 0;  // 0: as many as wanted.
  // What File::alignment() reports in direct mode. Transfers that ignore it work all the same.
  Alignment direct_alignment = {512, 4096};
  bool supports_direct = true;
  bool supports_uncached = true;
  mode_t umask = 022;
  // Since the epoch, for mtime and ctime; the system's clock when empty. Each change gets a later
  // time than the one before, whatever the clock says.
  std::function<int64_t()> now_ns = nullptr;
};

using InodeId = uint64_t;  // 0: none.

// A change of the namespace, atomic and not yet durable.
struct NameChange {
  struct Assignment {
    InodeId directory = 0;
    std::string name;
    InodeId inode = 0;  // 0: the name is gone.
  };
  std::vector<Assignment> assignments;
  // Directories that must be there for what was moved to be found again.
  std::vector<InodeId> needs;
  // A directory that was removed. It was empty, so what emptied it came first.
  InodeId emptied = 0;
};

// For each change the earlier ones that it depends on: those of the same name, those that put the
// directories it needs in their place, and those inside a directory it removes.
std::vector<std::vector<size_t>> name_dependencies(const std::vector<NameChange>& changes);

// Names a call in the details of its errors.
struct MemoryCall {
  std::string_view verb;
  std::string_view path;
  Error error(int os_errno) const;
};

class MemoryDisk {
 public:
  explicit MemoryDisk(MemoryOptions options);

  const MemoryOptions& options() const { return options_; }
  uint64_t boot() const { return boot_; }

  // The namespace.
  Result<InodeId> open(const std::string& path, const OpenOptions& options);
  void close(InodeId id);
  Result<FileInfo> stat(const std::string& path, bool follow) const;
  Result<std::string> read_link(const std::string& path) const;
  Result<void> rename(const std::string& from, const std::string& to, RenameMode mode);
  Result<void> remove(const std::string& path);
  Result<void> remove_directory(const std::string& path);
  Result<void> make_directory(const std::string& path, mode_t permissions);
  Result<void> make_symlink(const std::string& target, const std::string& path);
  Result<void> make_link(const std::string& file, const std::string& path);
  Result<InodeId> find_directory(std::string_view verb, const std::string& path) const;
  // At most `limit` entries of `directory` whose names come after `after`.
  std::vector<DirectoryEntry> entries_after(InodeId directory, const std::string& after,
                                            size_t limit) const;
  Result<void> sync_directory(const std::string& path);
  Result<void> sync_everything(const std::string& path);
  Result<SpaceInfo> space(const std::string& path) const;

  // Open files.
  FileInfo info(InodeId id) const;
  Result<size_t> read(InodeId id, uint64_t offset, std::span<std::byte> into) const;
  Result<void> write(const MemoryCall& call, InodeId id, uint64_t offset,
                     std::span<const std::byte> from, uint64_t ticket);
  void complete(InodeId id, uint64_t ticket);
  Result<void> resize(const MemoryCall& call, InodeId id, uint64_t size);
  Result<void> allocate(const MemoryCall& call, InodeId id, uint64_t offset, uint64_t length);
  void set_attributes(InodeId id, std::optional<uint32_t> mode, std::optional<int64_t> mtime_ns);
  void sync(InodeId id, bool with_attributes);
  void fail_sync(InodeId id);
  void fail_sync_everything();

  // As if every process had died: nothing is open or in flight, what had no name is gone.
  void close_everything();
  MemoryDisk after_power_cut(uint64_t seed) const;

 private:
  struct Attributes {
    uint32_t mode = 0;
    int64_t mtime_ns = 0;
    int64_t ctime_ns = 0;
  };
  using Names = std::map<std::string, InodeId>;
  struct Inode {
    FileKind kind = FileKind::kFile;
    Attributes attributes;
    Attributes synced_attributes;
    uint32_t links = 0;  // Names in the tree as users see it.
    uint64_t opens = 0;
    uint64_t references = 0;
    TrackedContent content;  // Of a file.
    std::string target;      // Of a symbolic link.
    Names names;             // Of a directory.
    Names durable_names;
    InodeId parent = 0;
  };
  // Where a path leads. `name` is empty when its last part is no name: "/", "." or "..".
  struct Place {
    InodeId directory = 0;
    std::string name;
    InodeId inode = 0;  // 0 when nothing is there.
    bool wants_directory = false;
  };
  using Tree = std::map<InodeId, Names>;

  static constexpr InodeId kRoot = 1;

  Inode& at(InodeId id) { return inodes_.at(id); }
  const Inode& at(InodeId id) const { return inodes_.at(id); }
  Result<Place> find(const MemoryCall& call, bool follow_last, bool refuse_links = false) const;
  Result<InodeId> find_existing(const MemoryCall& call, bool follow_last) const;
  Result<InodeId> make_inode(const MemoryCall& call, const Place& place, FileKind kind,
                             mode_t permissions, std::string target = {});
  Result<void> check_rename(const MemoryCall& call, const Place& from, const Place& to,
                            RenameMode mode) const;
  Result<void> exchange(const MemoryCall& call, const Place& from, const Place& to);
  std::vector<InodeId> ancestors(InodeId directory) const;

  void change_names(NameChange change);
  void make_durable(const NameChange& change);
  void unlink(InodeId id);
  void retain(InodeId id);
  void release(InodeId id);
  void give_back_space(const Inode& inode);
  void touch(Inode& inode);
  int64_t tick();
  uint64_t free_blocks() const;

  Tree surviving_names(PowerCutDice& dice) const;
  void adopt(const MemoryDisk& before, const Tree& tree, InodeId id, InodeId parent,
             PowerCutDice& dice);

  MemoryOptions options_;
  std::map<InodeId, Inode> inodes_;
  std::vector<NameChange> unsynced_names_;
  InodeId last_inode_ = kRoot;
  int64_t last_time_ns_ = 0;
  uint64_t boot_ = 1;
  uint64_t used_blocks_ = 0;
  uint64_t used_inodes_ = 1;
};

}  // namespace penstock::io
