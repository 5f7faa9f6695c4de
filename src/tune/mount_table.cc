#include "tune/mount_table.h"

#include <algorithm>
#include <array>

#include "tune/text.h"

namespace penstock::tune::doctor {

namespace {

std::string_view option_key(std::string_view option) {
  return option.substr(0, option.find('='));
}

// Options of one group exclude each other.
std::string_view option_group(std::string_view option) {
  struct Member {
    std::string_view key;
    std::string_view group;
  };
  constexpr std::array<Member, 15> kMembers = {{
      {"noatime", "atime"},
      {"relatime", "atime"},
      {"strictatime", "atime"},
      {"atime", "atime"},
      {"soft", "hard"},
      {"softerr", "hard"},
      {"hard", "hard"},
      {"nobarrier", "barrier"},
      {"noac", "actimeo"},
      {"acregmin", "actimeo"},
      {"acdirmin", "actimeo"},
      {"inode32", "inode size"},
      {"inode64", "inode size"},
      {"ro", "access"},
      {"rw", "access"},
  }};
  const std::string_view key = option_key(option);
  for (const Member& member : kMembers) {
    if (member.key == key) return member.group;
  }
  return key;
}

bool parse_device_number(std::string_view text, Mount& mount) {
  const std::vector<std::string_view> parts = split(text, ':');
  if (parts.size() != 2) return false;
  const auto major = parse_u64(parts[0]);
  const auto minor = parse_u64(parts[1]);
  if (!major || !minor || *major > UINT32_MAX || *minor > UINT32_MAX) return false;
  mount.major = static_cast<uint32_t>(*major);
  mount.minor = static_cast<uint32_t>(*minor);
  return true;
}

void add_options(std::string_view list, std::vector<std::string>& options) {
  for (const std::string_view option : split(list, ',')) {
    if (!option.empty()) options.push_back(octal_unescape(option));
  }
}

bool lists(std::string_view list, std::string_view wanted) {
  const std::vector<std::string_view> options = split(list, ',');
  return std::find(options.begin(), options.end(), wanted) != options.end();
}

// "36 35 98:0 /root /point rw,noatime shared:1 - ext4 /dev/sda1 rw,errors=continue"
std::optional<Mount> parse_mountinfo_line(std::string_view line) {
  const std::vector<std::string_view> words = split_words(line);
  const auto dash = std::find(words.begin(), words.end(), "-");
  if (dash - words.begin() < 6 || words.end() - dash < 3) return std::nullopt;
  Mount mount;
  const auto id = parse_u64(words[0]);
  if (!id || !parse_device_number(words[2], mount)) return std::nullopt;
  mount.id = *id;
  mount.point = octal_unescape(words[4]);
  mount.type = octal_unescape(dash[1]);
  mount.source = octal_unescape(dash[2]);
  add_options(words[5], mount.options);
  mount.mounted_read_only = lists(words[5], "ro");
  if (words.end() - dash > 3) {
    add_options(dash[3], mount.options);
    mount.file_system_read_only = lists(dash[3], "ro");
  }
  if (mount.point.empty() || mount.point[0] != '/') return std::nullopt;
  return mount;
}

bool is_above(std::string_view point, std::string_view path) {
  if (point == "/") return !path.empty() && path[0] == '/';
  return path.substr(0, point.size()) == point &&
         (path.size() == point.size() || path[point.size()] == '/');
}

}  // namespace

bool Mount::has_option(std::string_view option) const {
  return std::find(options.begin(), options.end(), option) != options.end();
}

std::optional<std::string_view> Mount::option_value(std::string_view key) const {
  for (const std::string& option : options) {
    if (option.size() > key.size() && option_key(option) == key)
      return std::string_view(option).substr(key.size() + 1);
  }
  return std::nullopt;
}

std::optional<uint64_t> Mount::option_number(std::string_view key) const {
  const auto text = option_value(key);
  return text ? parse_u64(*text) : std::nullopt;
}

std::vector<Mount> parse_mountinfo(std::string_view text) {
  std::vector<Mount> mounts;
  for (const std::string_view line : split(text, '\n')) {
    if (auto mount = parse_mountinfo_line(line)) mounts.push_back(std::move(*mount));
  }
  return mounts;
}

const Mount* find_mount(const std::vector<Mount>& mounts, std::string_view path) {
  const Mount* best = nullptr;
  for (const Mount& mount : mounts) {
    if (is_above(mount.point, path) &&
        (best == nullptr || mount.point.size() >= best->point.size()))
      best = &mount;
  }
  return best;
}

std::vector<FstabEntry> parse_fstab(std::string_view text) {
  std::vector<FstabEntry> entries;
  for (const std::string_view line : split(text, '\n')) {
    const std::vector<std::string_view> words = split_words(line);
    if (words.size() < 4 || words[0][0] == '#') continue;
    FstabEntry entry;
    entry.line = trim(line);
    entry.source = octal_unescape(words[0]);
    entry.point = octal_unescape(words[1]);
    entry.type = words[2];
    entry.options = words[3];
    for (size_t i = 4; i < words.size() && i < 6; ++i) {
      if (!entry.dump_and_pass.empty()) entry.dump_and_pass += ' ';
      entry.dump_and_pass += words[i];
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::string merge_options(std::string_view options, const std::vector<std::string>& additions) {
  std::vector<std::string> merged;
  const auto drop_group = [&](std::string_view option) {
    std::erase_if(merged, [&](const std::string& other) {
      return option_group(other) == option_group(option);
    });
  };
  for (const std::string_view option : split(options, ',')) {
    if (!option.empty() && option != "defaults") merged.emplace_back(option);
  }
  for (const std::string& addition : additions) {
    drop_group(addition);
    merged.push_back(addition);
  }
  if (merged.empty()) return "defaults";
  std::string joined;
  for (const std::string& option : merged) joined += (joined.empty() ? "" : ",") + option;
  return joined;
}

}  // namespace penstock::tune::doctor
