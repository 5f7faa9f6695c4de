#include "cache/options.h"

#include <fmt/core.h>

#include <bit>
#include <filesystem>

#include "store/tree_files.h"

namespace penstock::cache {

namespace {

constexpr uint64_t kWindowBytesMin = 256 * kKiB;
constexpr uint64_t kWindowBytesMax = 16 * kMiB;
constexpr uint64_t kWindowsInMemoryMin = 16;

Error refuse(std::string text) {
  return make_error(ErrorCode::kInvalid, std::move(text));
}

bool is_inside(std::string_view path, std::string_view above) {
  return path.starts_with(above) && (above == "/" || path.substr(above.size()).starts_with('/'));
}

// `paths` by what they really are; the names are for people.
Result<void> check_paths_apart(const std::vector<std::string>& names,
                               const std::vector<std::string>& paths) {
  for (size_t i = 0; i < paths.size(); ++i) {
    for (size_t k = 0; k < paths.size(); ++k) {
      if (i < k && paths[i] == paths[k]) {
        return refuse(names[i] == names[k]
                          ? fmt::format("the cache directory {} was given twice", names[i])
                          : fmt::format("the cache directories {} and {} are the same: it was "
                                        "given twice",
                                        names[i], names[k]));
      }
      if (i != k && is_inside(paths[i], paths[k])) {
        return refuse(
            fmt::format("the cache directory {} lies inside {}, another one", names[i], names[k]));
      }
    }
  }
  return {};
}

Result<void> check_directories(std::vector<std::string> directories) {
  if (directories.empty()) return refuse("a cache needs at least one directory");
  for (std::string& directory : directories) {
    if (directory.empty()) return refuse("the path of a cache directory is empty");
    directory = normal_directory(directory, false);
  }
  return check_paths_apart(directories, directories);
}

}  // namespace

Result<void> check_apart(io::FileSystem& fs, const std::vector<std::string>& directories) {
  std::vector<std::string> there;
  std::vector<std::string> real;
  for (const std::string& directory : directories) {
    Result<std::string> path = directory.starts_with('/') ? store::real_path(fs, directory)
                                                          : Result<std::string>(directory);
    if (!path.ok()) continue;
    there.push_back(directory);
    real.push_back(std::move(*path));
  }
  return check_paths_apart(there, real);
}

std::string normal_directory(const std::string& path, bool local) {
  if (path.empty()) return path;
  std::error_code failed;
  const std::filesystem::path absolute =
      local ? std::filesystem::absolute(path, failed) : std::filesystem::path(path);
  std::string normal = (failed ? std::filesystem::path(path) : absolute).lexically_normal();
  while (normal.size() > 1 && normal.back() == '/') normal.pop_back();
  return normal;
}

Result<void> check_options(const CacheOptions& options) {
  PENSTOCK_TRY(check_directories(options.directories));
  if (!std::has_single_bit(options.window_bytes) || options.window_bytes < kWindowBytesMin ||
      options.window_bytes > kWindowBytesMax) {
    return refuse(fmt::format("a cache's window must be a power of two from {} to {}, not {}",
                              format_size(kWindowBytesMin), format_size(kWindowBytesMax),
                              format_size(options.window_bytes)));
  }
  const uint64_t memory_min = kWindowsInMemoryMin * options.window_bytes;
  if (options.memory_bytes < memory_min) {
    return refuse(fmt::format("a cache with windows of {} needs at least {} of memory, not {}",
                              format_size(options.window_bytes), format_size(memory_min),
                              format_size(options.memory_bytes)));
  }
  if (!options.quota.is_percent() && options.quota.bytes == 0) {
    return refuse("a cache with a quota of 0 can hold nothing");
  }
  if (options.slow_after <= Nanoseconds(0)) {
    return refuse("slow_after must be above 0: a drive needs some time to answer");
  }
  return {};
}

}  // namespace penstock::cache
