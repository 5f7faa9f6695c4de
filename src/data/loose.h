// Datasets that are files, not shards: a shard is then a folder, and its index the list of its files.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/column_index.h"
#include "data/etags.h"
#include "penstock/result.h"

namespace penstock::data {

struct LooseFile {
  std::string key;
  uint64_t size = 0;
  std::optional<std::string> etag = {};  // Where it is wanted later; of all or of none.
};

struct LooseShard {
  std::string folder;  // What the keys of its files begin with: empty, or ending with '/'.
  uint64_t bytes = 0;
  int32_t label = -1;
  std::shared_ptr<const ColumnIndex> index;
  Etags etags;  // By ColumnIndex::member_number(); empty where none was given.
};

// Files of one key, in one folder, are the fields of a sample. Folders and samples sorted by name.
Result<std::vector<LooseShard>> group_files(std::vector<LooseFile> files);

// Images below the folders of `root` (empty, or ending with '/'), one shard for each of `classes`,
// which are sorted: a sample is an image, in the order of torchvision's ImageFolder. kInvalid names a
// class without images.
Result<std::vector<LooseShard>> group_classes(std::vector<LooseFile> files, const std::string& root,
                                              const std::vector<std::string>& classes);

}  // namespace penstock::data
