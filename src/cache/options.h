#pragma once

#include "penstock/cache.h"

namespace penstock::cache {

// kInvalid says which option makes no sense, and what would.
Result<void> check_options(const CacheOptions& options);

// kInvalid where two of them are one directory, or lie one inside the other, whatever their paths.
// Those that are missing are apart from all.
Result<void> check_apart(io::FileSystem& fs, const std::vector<std::string>& directories);

// The same directory by another name must get the same entries: "/nvme//cache/" is "/nvme/cache".
// `local`: what is relative is so to the working directory.
std::string normal_directory(const std::string& path, bool local);

}  // namespace penstock::cache
