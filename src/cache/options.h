#pragma once

#include "penstock/cache.h"

namespace penstock::cache {

// kInvalid says which option makes no sense, and what would.
Result<void> check_options(const CacheOptions& options);

}  // namespace penstock::cache
