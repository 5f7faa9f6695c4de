#pragma once

#include <memory>
#include <stop_token>

#include "data/source.h"
#include "penstock/cache.h"

namespace penstock::data {

// A shard behind a cache, for who reads through it once, as for an index: all that is read is on the
// drives of the cache first, for whoever reads it next. A plain read of a cache does not wait for its
// drives, so that a source which is faster than those is read and not kept. This one waits.
//
// What follows is staged ahead while it is read from front to back; of what is passed over in long
// steps nothing is. Where the cache has no room, or its drives fail, it is `file` from there on.
// Threads: one at a time. Lifetime: `cached` outlives it.
std::unique_ptr<ShardFile> make_staged_file(std::unique_ptr<ShardFile> file,
                                            cache::CachedStore& cached,
                                            const store::ObjectInfo& object,
                                            std::stop_token cancel);

}  // namespace penstock::data
