#pragma once

#include <atomic>
#include <memory>
#include <stop_token>

#include "data/column_index.h"
#include "data/shard_parser.h"
#include "data/source.h"
#include "penstock/data.h"

namespace penstock::data {

class WindowReader;

struct ScannedShard {
  std::shared_ptr<const ColumnIndex> index;
  Compression compression = Compression::kNone;
};

// Makes the index of a shard: from an index of others beside it, or from the shard itself.
// `progress`, when given, is added to: the shard's size in all.
Result<ScannedShard> scan_shard(const Source& source, const store::ObjectInfo& object,
                                Format format, const std::stop_token& cancel,
                                std::atomic<uint64_t>* progress);

// Gives the parser all it wants.
Result<void> parse_in_place(ShardParser& parser, WindowReader& reader);
Result<void> parse_in_order(ShardParser& parser, SequentialReader& reader);

}  // namespace penstock::data
