#pragma once

#include <memory>
#include <optional>
#include <string>

#include "penstock/store.h"

namespace penstock::store {

// The part of open_store() that needs no network: "file:DIR", "tree:DIR", a plain path, "memory:".
// Nothing when the address is of another kind, "SCHEME:...". (A path with a colon in its first part
// is written "./a:b".)
std::optional<Result<std::unique_ptr<ObjectStore>>> open_local_store(const std::string& address,
                                                                     const StoreOptions& options);

}  // namespace penstock::store
