#include "data/index_places.h"

#include <fmt/core.h>

#include <cstdlib>

#include "penstock/frame.h"

namespace penstock::data {

std::vector<IndexPlace> index_places(const Source& source, const std::string& folder,
                                     const std::string& index_dir, bool real_file_system) {
  std::vector<IndexPlace> places;
  if (!source.root.empty()) {
    const bool here = !real_file_system || !is_network_mount(source.root);
    places.push_back({source.path_of(folder + kIndexName), "", here});
  }
  if (!index_dir.empty()) {
    const std::string whose = source.store->identity() + folder;
    const uint64_t hash = codec::hash_bytes(std::as_bytes(std::span(whose)));
    places.push_back({fmt::format("{}/{:016x}", index_dir, hash), whose});
  }
  return places;
}

std::string default_index_dir() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::string(cache) + "/penstock/index";
  const char* const home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return std::string(home) + "/.cache/penstock/index";
  return "";
}

Result<std::unique_ptr<IndexLock>> IndexLock::try_take(io::FileSystem& fs,
                                                       const IndexPlace& place) {
  // The data's own folder is there; ours may have to be made.
  if (!place.folder.empty()) PENSTOCK_TRY(io::make_directories(fs, io::parent_path(place.path)));
  std::string path = place.path + ".lock";
  std::unique_ptr<io::FileLock> lock = PENSTOCK_TRY(fs.try_lock(path));
  return std::unique_ptr<IndexLock>(new IndexLock(fs, std::move(path), std::move(lock)));
}

IndexLock::~IndexLock() {
  (void)fs_.remove(path_);
}

}  // namespace penstock::data
