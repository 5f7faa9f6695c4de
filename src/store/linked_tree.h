#pragma once

#include <memory>
#include <string>

#include "penstock/store.h"

namespace penstock::store {

// As open_tree_store() for reading only, but links to regular files are followed wherever they lead:
// for datasets, whose files may be links into another place, as in a snapshot of a hub. Links to
// directories are not there either.
Result<std::unique_ptr<ObjectStore>> open_linked_tree(io::FileSystem& fs,
                                                      const std::string& directory);

}  // namespace penstock::store
