// From addresses to shards: what is there, and of which format it is.
#pragma once

#include <string>
#include <vector>

#include "data/loose.h"
#include "data/source.h"
#include "penstock/data.h"

namespace penstock::data {

// A shard that is one object.
struct FoundShard {
  uint32_t source = 0;
  store::ObjectInfo object;
};
// One that is a folder of files.
struct FoundFolder {
  uint32_t source = 0;
  LooseShard shard;
};

struct Found {
  Format format = Format::kAuto;
  std::vector<Source> sources;
  std::vector<FoundShard> shards;    // Of tar and TFRecord, or
  std::vector<FoundFolder> folders;  // of others.
  std::vector<std::string> classes;
};

// What a name alone says about an object.
enum class NameKind : uint8_t { kTar, kTfRecord, kImage, kOther, kHidden };
NameKind kind_of_name(std::string_view key);

Result<Found> find_shards(const std::vector<std::string>& addresses, const OpenOptions& options,
                          io::FileSystem& fs);

}  // namespace penstock::data
