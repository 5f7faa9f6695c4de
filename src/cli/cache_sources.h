#pragma once

#include <string>
#include <vector>

#include "base/glob.h"
#include "penstock/result.h"

namespace penstock::cli {

// Patterns for the urls of entries (ObjectVersion::url) of all that an address names: as for
// store::Selection, but nothing needs to be there any more; or as `penstock cache show` prints them.
struct SourcePatterns {
  std::vector<Glob> literal;  // The address as it is written: for names with brackets and the like.
  std::vector<Glob> wild;     // Its characters taken for wildcards, where it has any.
};
Result<SourcePatterns> source_patterns(const std::string& address);

}  // namespace penstock::cli
