// Indexes that other tools left beside a shard: those of DALI's wds2idx and tfrecord2idx, and the
// lists of shards of wids. What they say is believed only as far as it was checked.
// Threads: the parsers are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/column_index.h"
#include "data/source.h"
#include "penstock/data.h"

namespace penstock::data {

struct SidecarMember {
  std::string_view name;  // Of the file, in the text.
  uint64_t offset = 0;
  uint64_t size = 0;
};

// wds2idx: "v1.2 SAMPLES", and then per sample a line of "EXTENSION OFFSET SIZE NAME" repeated.
// Files must lie behind each other within the first `shard_bytes`. kCorrupt for anything else.
Result<std::vector<SidecarMember>> parse_wds2idx(std::string_view text, uint64_t shard_bytes);

// tfrecord2idx: lines of "OFFSET SIZE", which together must be all of the shard.
Result<std::vector<SidecarMember>> parse_tfrecord2idx(std::string_view text, uint64_t shard_bytes);

struct WidsShard {
  std::string url;
  uint64_t samples = 0;
};
// The shards that a wids index lists. kCorrupt when it is none.
Result<std::vector<WidsShard>> parse_wids(std::string_view text);

// The index of `file`, from a sidecar that is there, not older than the shard, and right where it was
// compared with it. Nothing otherwise, with a line in the log when there was one.
std::optional<Block> index_from_sidecar(const Source& source, const store::ObjectInfo& object,
                                        Format format, ShardFile& file,
                                        const std::stop_token& cancel);

}  // namespace penstock::data
