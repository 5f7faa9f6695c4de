// ObjectStore::identity() of the stores on this machine.
#pragma once

#include <string>
#include <string_view>

#include "penstock/io.h"

namespace penstock::store {

// "memory:9f86d081884c7d65…/": unlike that of any other store, in this process or another.
std::string own_identity(std::string_view scheme);

// "tree:/real/path/", without links, of a directory that is there. One of its own when `path` is
// relative: only the file system knows to what.
Result<std::string> directory_identity(io::FileSystem& fs, std::string_view scheme,
                                       const std::string& path);

}  // namespace penstock::store
