// Objects of a volume never change, and no key is used twice. A cache that does not know that asks
// the store before every read which version there is: a request for each, and none is answered while
// the store is away. So reads name one version for all, and the size that the database knows.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "penstock/cache.h"
#include "penstock/meta.h"
#include "penstock/store.h"

namespace penstock::volume {

// How long an object is, where that is known.
using ObjectSize = std::function<std::optional<uint64_t>(meta::ObjectId)>;

// The store of a volume behind a cache. `size_of` may be called from any thread.
std::unique_ptr<store::ObjectStore> cache_objects(std::unique_ptr<store::ObjectStore> objects,
                                                  std::shared_ptr<cache::Cache> cache,
                                                  ObjectSize size_of);

}  // namespace penstock::volume
