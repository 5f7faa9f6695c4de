#pragma once

#include "penstock/cache.h"

namespace penstock::cache {

// kInvalid says which option makes no sense, and what would.
Result<void> check_options(const CacheOptions& options);

// The same directory by another name must get the same entries: "/nvme//cache/" is "/nvme/cache".
// `local`: what is relative is so to the working directory.
std::string normal_directory(const std::string& path, bool local);

}  // namespace penstock::cache
