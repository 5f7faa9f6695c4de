// Where the index of a folder of shards may be kept.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/source.h"
#include "penstock/io.h"

namespace penstock::data {

inline constexpr const char* kIndexName = ".penstock-index";

struct IndexPlace {
  std::string path;
  std::string folder;  // What the file says whose it is; empty beside the data.
  bool writable = true;
};

// Best first: beside the data, though on another machine's file system only to be read; below
// `index_dir`, unless that is empty.
// `folder` is what the keys of its shards begin with.
std::vector<IndexPlace> index_places(const Source& source, const std::string& folder,
                                     const std::string& index_dir, bool real_file_system);

// $XDG_CACHE_HOME/penstock/index, or ~/.cache/penstock/index; empty where there is neither.
std::string default_index_dir();

// Held by the one who writes an index file. Releasing it removes the lock's file.
class IndexLock {
 public:
  // kBusy while another holds it; other errors where no index can be written.
  static Result<std::unique_ptr<IndexLock>> try_take(io::FileSystem& fs, const IndexPlace& place);
  ~IndexLock();

 private:
  IndexLock(io::FileSystem& fs, std::string path, std::unique_ptr<io::FileLock> lock)
      : fs_(fs), path_(std::move(path)), lock_(std::move(lock)) {}

  io::FileSystem& fs_;
  const std::string path_;
  std::unique_ptr<io::FileLock> lock_;
};

}  // namespace penstock::data
