#include "cli/mounts.h"

#include "store/tree_files.h"

namespace penstock::cli {

std::optional<tune::doctor::Mount> mount_of(io::FileSystem& fs, const std::string& directory) {
  const Result<std::string> table = io::read_file(fs, "/proc/self/mountinfo", 16 * kMiB);
  const Result<std::string> real = store::real_path(fs, directory);
  if (!table.ok()) return std::nullopt;
  const std::vector<tune::doctor::Mount> mounts = tune::doctor::parse_mountinfo(*table);
  const tune::doctor::Mount* mount =
      tune::doctor::find_mount(mounts, real.ok() ? *real : directory);
  return mount != nullptr ? std::optional(*mount) : std::nullopt;
}

}  // namespace penstock::cli
