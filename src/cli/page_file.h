// --html PATH: where a page goes, and writing it there.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/io.h"

namespace penstock::cli {

// For looking around and small files: no need of an engine that moves data.
Result<std::unique_ptr<io::LocalFileSystem>> open_plain_file_system();

// Where the page goes: a new file, or a regular one that is none of `sources`, which are read or
// measured. Found out before the work, not after. The page replaces what is there, so the answer has
// symbolic links followed: it is their target that is replaced. Empty for an empty path.
Result<std::string> resolve_page_path(const std::string& path,
                                      const std::vector<std::string>& sources);

// Nothing for an empty path.
Result<void> write_page(std::string_view command, const std::string& path, const std::string& page);

}  // namespace penstock::cli
