// The store of a volume, with an eye on whether it can be read. It goes behind a cache, which answers
// for a while where the store does not.
// Threads and lifetime as for any store.
#pragma once

#include <memory>

#include "base/metrics.h"
#include "penstock/store.h"

namespace penstock::volume {

// `failing` is 1 while it cannot be read, and outlives the store.
std::unique_ptr<store::ObjectStore> watch_store(std::unique_ptr<store::ObjectStore> inner,
                                                Gauge& failing);

}  // namespace penstock::volume
