#include "volume/registry.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

namespace penstock::volume {

namespace {

constexpr std::string_view kAliasTitle = "Penstock volume alias\n";
constexpr uint64_t kAliasBytesMax = 16 * 1024;

}  // namespace

Result<void> check_volume_name(std::string_view name) {
  const bool fits = !name.empty() && name.size() <= 200 && name[0] != '.' && name[0] != '-';
  const auto is_odd = [](char c) { return c == '/' || c == '#' || c == ':' || (c >= 0 && c < ' '); };
  if (fits && std::ranges::none_of(name, is_odd)) return {};
  return make_error(ErrorCode::kInvalid,
                    fmt::format("'{}' is no name for a volume: 1 to 200 bytes, without '/', '#', ':' "
                                "and control characters, and not with '.' or '-' in front",
                                name));
}

Result<Registry> Registry::of_user(io::FileSystem& fs) {
  const char* const own = std::getenv("PENSTOCK_HOME");
  if (own != nullptr && *own != '\0') return Registry(fs, own);
  const char* const home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return Registry(fs, std::string(home) + "/.penstock");
  return make_error(ErrorCode::kInvalid,
                    "neither PENSTOCK_HOME nor HOME is set: where are the volumes?");
}

Result<VolumeAddress> Registry::resolve(std::string_view text) const {
  constexpr std::string_view kScheme = "sqlite:";
  const bool is_path = text.starts_with(kScheme) || text.find('/') != std::string_view::npos;
  if (text.starts_with(kScheme)) text.remove_prefix(kScheme.size());
  if (is_path) {
    const size_t mark = text.rfind('#');
    const std::string_view name =
        mark == std::string_view::npos ? std::string_view() : text.substr(mark + 1);
    return VolumeAddress{std::string(text.substr(0, mark)), std::string(name)};
  }
  PENSTOCK_TRY(check_volume_name(text));
  const Result<io::FileInfo> there = fs_.stat(path_of(text));
  if (there.ok() && there->kind == io::FileKind::kDirectory) {
    return VolumeAddress{path_of(text), std::string(text)};
  }
  if (there.ok()) return read_alias(text);
  if (there.error().code != ErrorCode::kNotFound) return there.error();
  const std::vector<std::string> others = PENSTOCK_TRY(names());
  return make_error(
      ErrorCode::kNotFound,
      others.empty()
          ? fmt::format("there is no volume '{}' (none at all in {}); penstock volume create {}",
                        text, folder(), text)
          : fmt::format("there is no volume '{}'; there are: {}", text, fmt::join(others, ", ")));
}

Result<VolumeAddress> Registry::read_alias(std::string_view name) const {
  const std::string text = PENSTOCK_TRY(io::read_file(fs_, path_of(name), kAliasBytesMax));
  const size_t end = text.find('\n', kAliasTitle.size());
  if (!text.starts_with(kAliasTitle) || end == std::string::npos) {
    return make_error(ErrorCode::kCorrupt, fmt::format("{} is no volume", path_of(name)));
  }
  return VolumeAddress{text.substr(kAliasTitle.size(), end - kAliasTitle.size()),
                       std::string(name)};
}

Result<std::string> Registry::new_directory(std::string_view name) const {
  PENSTOCK_TRY(check_volume_name(name));
  const Result<io::FileInfo> there = fs_.stat_link(path_of(name));
  if (there.ok()) {
    return make_error(ErrorCode::kExists, fmt::format("there is a volume '{}' already: {}", name,
                                                      path_of(name)));
  }
  if (there.error().code != ErrorCode::kNotFound) return there.error();
  return path_of(name);
}

Result<void> Registry::add_alias(std::string_view name, const VolumeAddress& address) const {
  const std::string path = PENSTOCK_TRY(new_directory(name));
  PENSTOCK_TRY(io::make_directories(fs_, folder()));
  return io::write_file_durably(fs_, path, fmt::format("{}{}\n", kAliasTitle, address.directory));
}

Result<void> Registry::remove_alias(std::string_view name) const {
  const Result<io::FileInfo> there = fs_.stat_link(path_of(name));
  if (!there.ok() || there->kind != io::FileKind::kFile) return {};
  return fs_.remove(path_of(name));
}

Result<std::vector<std::string>> Registry::names() const {
  std::vector<std::string> names;
  const Result<void> listed = fs_.list(folder(), [&](const io::DirectoryEntry& entry) {
    if (check_volume_name(entry.name).ok()) names.push_back(entry.name);
    return true;
  });
  if (!listed.ok() && listed.error().code != ErrorCode::kNotFound) return listed.error();
  std::ranges::sort(names);
  return names;
}

}  // namespace penstock::volume
