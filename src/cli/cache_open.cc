#include <fmt/core.h>

#include "cache/options.h"
#include "cli/cache_command.h"
#include "penstock/io.h"

namespace penstock::cli {

namespace {

using cache::CacheDirectory;

bool is_cache(io::FileSystem& fs, const std::string& path) {
  return CacheDirectory::open(fs, path, io::CacheMode::kBuffered, /*must_exist=*/true).ok();
}

// Where the user may have meant: the cache that `path` is in, or one just below it.
std::string find_nearby(io::FileSystem& fs, const std::string& path) {
  for (std::string up = path; up != "/" && up != "."; up = io::parent_path(up)) {
    if (is_cache(fs, io::parent_path(up))) return io::parent_path(up);
  }
  std::string below;
  int looked_at = 0;
  (void)fs.list(path, [&](const io::DirectoryEntry& entry) {
    if (entry.kind != io::FileKind::kDirectory) return true;
    const std::string folder = fmt::format("{}/{}", path, entry.name);
    if (is_cache(fs, folder)) below = folder;
    return below.empty() && ++looked_at < 1000;
  });
  return below;
}

}  // namespace

Result<std::unique_ptr<CacheDirectory>> open_cache(const std::string& path) {
  io::FileSystem& fs = *PENSTOCK_TRY(io::process_file_system());
  const std::string normal = cache::normal_directory(path, true);
  auto opened = CacheDirectory::open(fs, normal, io::CacheMode::kDirect, /*must_exist=*/true);
  if (opened.ok() || opened.error().code != ErrorCode::kNotFound) return opened;
  const std::string nearby = find_nearby(fs, normal);
  return make_error(ErrorCode::kNotFound,
                    fmt::format("there is no cache at {}; {}", normal,
                                nearby.empty() ? "'penstock cache warm DIR SOURCE' makes one"
                                               : fmt::format("did you mean {}?", nearby)));
}

Result<std::vector<std::unique_ptr<CacheDirectory>>> open_caches(
    const std::vector<std::string>& paths) {
  std::vector<std::unique_ptr<CacheDirectory>> caches;
  std::vector<std::string> normal;
  for (const std::string& path : paths) {
    caches.push_back(PENSTOCK_TRY(open_cache(path)));
    normal.push_back(caches.back()->path());
  }
  io::FileSystem& fs = *PENSTOCK_TRY(io::process_file_system());
  PENSTOCK_TRY(cache::check_apart(fs, normal));
  return caches;
}

// Looks on without a quota of its own, so that those who use the cache keep theirs.
EntryRemover::EntryRemover(CacheDirectory& directory)
    : directory_(directory), keeper_(cache::Keeper::start(directory, {.may_evict = false})) {}

Result<void> EntryRemover::remove(const cache::EntryName& name) {
  PENSTOCK_TRY(directory_.drop(name));
  keeper_->note_dropped(name);
  return {};
}

}  // namespace penstock::cli
