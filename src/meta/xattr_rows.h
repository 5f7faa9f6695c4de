// Rows of extended attributes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "meta/core.h"

namespace penstock::meta {

struct XattrRow {
  int64_t id = 0;
  Version born = 0;
};

// ERANGE, E2BIG.
Result<void> check_xattr(std::string_view name, std::string_view value);
Result<std::optional<XattrRow>> find_xattr(Core& core, VolumeId volume, Ino ino,
                                           std::string_view name);
Result<void> put_xattr(Core& core, VolumeId volume, Ino ino, std::string_view name,
                       std::string_view value, const std::optional<XattrRow>& before);
Result<void> end_xattr(Core& core, const XattrRow& row);
Result<void> end_all_xattrs(Core& core, VolumeId volume, Ino ino);

Result<std::string> read_xattr(Core& core, VolumeId volume, Ino ino, std::string_view name,
                               Version version);
Result<std::vector<std::string>> list_xattrs(Core& core, VolumeId volume, Ino ino, Version version);

}  // namespace penstock::meta
