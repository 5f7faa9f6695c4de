#pragma once

#include <optional>
#include <string>

#include "penstock/io.h"
#include "tune/mount_table.h"

namespace penstock::cli {

// The mount that `directory` is on, or would be; nothing where that cannot be told.
std::optional<tune::doctor::Mount> mount_of(io::FileSystem& fs, const std::string& directory);

}  // namespace penstock::cli
