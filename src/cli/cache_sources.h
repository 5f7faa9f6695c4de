#pragma once

#include <string>
#include <vector>

#include "base/glob.h"
#include "penstock/result.h"

namespace penstock::cli {

// Patterns for the urls of entries (ObjectVersion::url) of all that `address` names: as for
// store::Selection, but nothing needs to be there any more; or as `penstock cache show` prints them.
Result<std::vector<Glob>> source_patterns(const std::string& address);

}  // namespace penstock::cli
