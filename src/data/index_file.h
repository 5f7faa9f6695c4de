// The file in which the indexes of the shards of one folder are kept: docs/formats/index.md gives the
// bytes. It may be lost, old or damaged: then the shards are looked at again.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/column_index.h"
#include "penstock/data.h"
#include "penstock/io.h"

namespace penstock::data {

// A shard as it was when it was indexed, and where in the file its block is.
struct IndexEntry {
  std::string name;     // In the folder.
  std::string version;  // With the size, what tells that it is the same.
  uint64_t size = 0;
  Format format = Format::kTar;
  Compression compression = Compression::kNone;
  uint64_t samples = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t checksum = 0;

  bool same_shard(const IndexEntry& other) const {
    return name == other.name && version == other.version && size == other.size &&
           format == other.format;
  }
};

struct IndexTable {
  std::string folder;               // Whose it is; empty where it lies beside the data.
  std::vector<IndexEntry> entries;  // Sorted by name, each once.

  const IndexEntry* find(const std::string& name) const;
};

// An index and its entry, of which offset, length and checksum are not yet known.
struct NewIndex {
  IndexEntry entry;
  std::shared_ptr<const ColumnIndex> index;
};

// kNotFound; kCorrupt when it is no such file; kUnsupported when a newer version wrote it.
Result<IndexTable> read_index_table(io::FileSystem& fs, const std::string& path);
// kCorrupt when the block is not the one of that entry. (It may have been replaced meanwhile.)
Result<std::shared_ptr<const ColumnIndex>> read_index(io::FileSystem& fs, const std::string& path,
                                                      const IndexEntry& entry);

// Replaces the file by one with `added` and those entries of the old one that they do not replace
// and `keep` wants; after a power cut it is the old or the new one. Answers the new table. To be
// called by one at a time: see IndexLock.
Result<IndexTable> write_index_file(io::FileSystem& fs, const std::string& path,
                                    const std::string& folder, std::span<const NewIndex> added,
                                    const std::function<bool(const IndexEntry&)>& keep);

}  // namespace penstock::data
