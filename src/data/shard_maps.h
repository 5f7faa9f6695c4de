#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "penstock/io.h"

namespace penstock::data {

// Files as memory, by number, each mapped when it is first asked for, and from then on.
// Threads: all calls from any thread.
class ShardMaps {
 public:
  explicit ShardMaps(size_t shards) : entries_(std::make_unique<Entry[]>(shards)) {}

  // Null where the file cannot be mapped: then it has to be read.
  const io::FileMap* find(uint32_t shard, io::File& file) {
    Entry& entry = entries_[shard];
    std::call_once(entry.once, [&] {
      Result<std::unique_ptr<io::FileMap>> map = file.map();
      if (map.ok()) entry.map = std::move(*map);
    });
    return entry.map.get();
  }

 private:
  struct Entry {
    std::once_flag once;
    std::unique_ptr<io::FileMap> map;
  };
  const std::unique_ptr<Entry[]> entries_;
};

}  // namespace penstock::data
