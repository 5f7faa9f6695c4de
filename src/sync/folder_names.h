// What is in one folder of a place, in the order of the names as bytes, in which the folder "a"
// stands as "a/". Only odd keys are out of order.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "penstock/io.h"
#include "penstock/store.h"

namespace penstock::sync {

enum class EntryKind : uint8_t {
  kObject,
  kFolder,
  kLink,   // Only of trees.
  kOther,  // A device or the like.
  kOdd,    // A key or folder that no store can name; of S3 only.
};

struct Entry {
  EntryKind kind = EntryKind::kObject;
  std::string key;  // Relative to the place; that of a folder ends with '/'.
  // Of an object in a store, the first of an odd one too; a tree's files have to be asked one by one.
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  std::string etag;
};

// Reads as it goes. Memory: one page of a store's listing, or the names of one directory.
// Threads: one at a time. Blocking.
class FolderNames {
 public:
  virtual ~FolderNames() = default;
  // The entry in front, or null at the end; valid until advance(). An error is final.
  virtual Result<const Entry*> peek() = 0;
  virtual void advance() = 0;
};

// `folder` is empty or ends with '/'. What is given outlives the answer.
std::unique_ptr<FolderNames> list_store_folder(store::ObjectStore& store, std::string folder,
                                               std::stop_token stop);
// kNotFound when the directory is missing. Unfinished files (see open_tree_store), and whatever else
// has such a name, are left out; their keys are shown to `on_unfinished` when it is given.
std::unique_ptr<FolderNames> list_tree_folder(
    io::FileSystem& fs, const std::string& root, std::string folder,
    std::function<void(const std::string& key)> on_unfinished = {});

}  // namespace penstock::sync
