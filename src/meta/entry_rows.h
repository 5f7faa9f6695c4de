// Rows of names in directories.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "meta/core.h"

namespace penstock::meta {

struct EntryRow {
  Ino ino = 0;
  uint32_t type = 0;
  uint64_t cookie = 0;
  Version born = 0;
};

// ENOENT, ENAMETOOLONG or EINVAL where nothing can have that name. "." and ".." can, here.
Result<void> check_name(std::string_view name);

Result<std::optional<EntryRow>> find_entry(Core& core, VolumeId volume, Ino parent,
                                           std::string_view name, Version version);
// False where the name is taken, and nothing changed.
Result<bool> add_entry_if_free(Core& core, VolumeId volume, Ino parent, std::string_view name,
                               const Inode& inode);
// `cookie` 0: a new one.
Result<void> add_entry(Core& core, VolumeId volume, Ino parent, std::string_view name,
                       const Inode& inode, uint64_t cookie = 0);
Result<void> end_entry(Core& core, VolumeId volume, Ino parent, std::string_view name,
                       const EntryRow& row);
Result<std::vector<Entry>> list_entries(Core& core, VolumeId volume, Ino parent, Version version,
                                        uint64_t cookie, size_t count);
Result<std::vector<Entry>> list_entries_by_name(Core& core, VolumeId volume, Ino parent,
                                                Version version, std::string_view from,
                                                size_t count);

}  // namespace penstock::meta
