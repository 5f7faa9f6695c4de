// Rows of inodes. A live one is changed in place when it was born in the version that is not
// committed yet; otherwise what it was is kept as a row that died in that version.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "meta/core.h"

namespace penstock::meta {

struct InodeRow : Inode {
  Ino parent = 0;  // Of a directory; the root is its own.
  Version born = 0;
};

// As `version` (kLive: now) has it.
Result<std::optional<InodeRow>> find_inode(Core& core, VolumeId volume, Ino ino, Version version);
// What has this name now, in one search of each table.
Result<std::optional<InodeRow>> find_named(Core& core, VolumeId volume, Ino parent,
                                           std::string_view name);
// ENOENT where there is none.
Result<InodeRow> load_inode(Core& core, VolumeId volume, Ino ino, Version version);
// ENOTDIR where it is something else.
Result<InodeRow> load_directory(Core& core, VolumeId volume, Ino ino, Version version);
// ENOTDIR, or ENOENT where it lost its own name, unless names can be put in it.
Result<void> check_parent(const InodeRow& row);
Result<InodeRow> load_parent(Core& core, VolumeId volume, Ino ino);
// EISDIR, or EINVAL, where it is no regular file.
Result<InodeRow> load_file(Core& core, VolumeId volume, Ino ino);

// A live one; `row` gets its version of birth. `target`: of symbolic links.
Result<void> add_inode(Core& core, VolumeId volume, InodeRow& row,
                       std::optional<std::string_view> target);
Result<void> save_inode(Core& core, VolumeId volume, InodeRow& row);
Result<void> end_inode(Core& core, VolumeId volume, const InodeRow& row);
Result<void> save_atime(Core& core, VolumeId volume, Ino ino, Time atime);

// The target of a symbolic link; EINVAL where it is something else.
Result<std::string> read_target(Core& core, VolumeId volume, Ino ino, Version version);
Result<std::vector<Ino>> find_nameless(Core& core, VolumeId volume);

// Inodes that one call changes: each is loaded once, however often it is asked for.
class InodeSet {
 public:
  InodeSet(Core& core, VolumeId volume) : core_(core), volume_(volume) {}
  // Stays where it is until the set is destroyed.
  Result<InodeRow*> get(Ino ino);
  Result<void> save();

 private:
  Core& core_;
  const VolumeId volume_;
  std::map<Ino, InodeRow> rows_;
};

}  // namespace penstock::meta
