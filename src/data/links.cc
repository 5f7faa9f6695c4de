#include "data/links.h"

#include <fmt/core.h>

#include "store/tree_files.h"

namespace penstock::data {

namespace {

Result<void> check_link(io::FileSystem& fs, const LinkSearch& search, const std::string& real_root,
                        const std::string& path) {
  const Result<io::FileInfo> target = fs.stat(path);
  if (!target.ok() && target.error().code == ErrorCode::kNotFound) {
    if (!search.is_wanted(path, /*is_folder=*/false)) return {};
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{} is a symbolic link that leads nowhere", path));
  }
  if (!target.ok() || target->kind != io::FileKind::kDirectory) return {};
  if (!search.is_wanted(path, /*is_folder=*/true)) return {};
  const std::string real = PENSTOCK_TRY(store::real_path(fs, path));
  // What is within is found under its own name.
  if (real.starts_with(real_root == "/" ? real_root : real_root + "/")) return {};
  return make_error(
      ErrorCode::kUnsupported,
      fmt::format("{} is a symbolic link to the folder {}: such are not followed, so its "
                  "samples would be missing. Give that folder itself, or use a bind mount",
                  path, real));
}

}  // namespace

Result<void> refuse_lost_links(io::FileSystem& fs, const LinkSearch& search) {
  if (!search.root.starts_with('/')) return {};
  const std::string real_root = PENSTOCK_TRY(store::real_path(fs, search.root));
  std::vector<std::string> folders = search.folders;
  while (!folders.empty()) {
    const std::string folder = std::move(folders.back());
    folders.pop_back();
    std::vector<std::string> links;
    const Result<void> listed = fs.list(folder, [&](const io::DirectoryEntry& entry) {
      const std::string path = folder == "/" ? "/" + entry.name : folder + "/" + entry.name;
      if (entry.kind == io::FileKind::kSymlink) links.push_back(path);
      if (entry.kind == io::FileKind::kDirectory && search.deep) folders.push_back(path);
      return true;
    });
    // Gone since it was found.
    if (!listed.ok() && listed.error().code != ErrorCode::kNotFound) return listed;
    for (const std::string& link : links) {
      PENSTOCK_TRY(check_link(fs, search, real_root, link));
    }
  }
  return {};
}

}  // namespace penstock::data
