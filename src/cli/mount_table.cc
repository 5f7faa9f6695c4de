// What is mounted here, and who uses it.
#include <dirent.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "cli/mount_command.h"
#include "volume/control_call.h"

namespace penstock::cli {

namespace {

constexpr size_t kUsersNamedMax = 5;
constexpr auto kOwnerPatience = std::chrono::seconds(2);

// What could be read of it: a process may end meanwhile, and what /proc tells of it ends too. (By <<,
// which keeps that to itself: iterators throw.)
std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

std::vector<tune::doctor::Mount> all_mounts() {
  return tune::doctor::parse_mountinfo(read_all("/proc/self/mountinfo"));
}

std::string link_of(const std::string& path) {
  std::string target(PATH_MAX, '\0');
  const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  target.resize(size < 0 ? 0 : static_cast<size_t>(size));
  return target;
}

bool is_in(std::string_view path, std::string_view directory) {
  return path.starts_with(directory) &&
         (path.size() == directory.size() || path[directory.size()] == '/');
}

std::vector<std::string> entries_of(const std::string& path) {
  std::vector<std::string> names;
  DIR* const directory = ::opendir(path.c_str());
  if (directory == nullptr) return names;
  while (const dirent* const entry = ::readdir(directory)) names.emplace_back(entry->d_name);
  ::closedir(directory);
  return names;
}

bool uses(const std::string& process, std::string_view directory) {
  for (const char* const link : {"/cwd", "/root", "/exe"}) {
    if (is_in(link_of(process + link), directory)) return true;
  }
  for (const std::string& fd : entries_of(process + "/fd")) {
    if (is_in(link_of(process + "/fd/" + fd), directory)) return true;
  }
  const std::string maps = read_all(process + "/maps");
  for (size_t at = maps.find(directory); at != std::string::npos;
       at = maps.find(directory, at + 1)) {
    const size_t end = maps.find('\n', at);
    if (at > 0 && maps[at - 1] == ' ' &&
        is_in(std::string_view(maps).substr(at, end - at), directory)) {
      return true;
    }
  }
  return false;
}

// Of all volumes in the directory: as long as one is mounted they have an owner.
std::optional<std::string> told_by_owner(const std::string& directory) {
  using namespace volume::control;
  Result<Channel> channel = connect_to_owner(directory);
  if (!channel.ok()) return std::nullopt;
  Link link;
  link.channel = std::move(*channel);
  const Patience patience{.deadline = deadline_in(kOwnerPatience)};
  const Result<Answer> names = call(link, Kind::kVolumes, {}, patience);
  if (!names.ok()) return std::nullopt;
  const auto volumes = decode<std::vector<std::string>>(names->body);
  if (!volumes.ok()) return std::nullopt;
  for (const std::string& volume : *volumes) {
    const Result<Answer> answer =
        call(link, Kind::kStatus, encode(VolumeRequest{volume}), patience);
    if (!answer.ok()) return std::nullopt;
    const auto status = decode<volume::VolumeStatus>(answer->body);
    if (status.ok() && !status->mounted_at.empty()) return status->mounted_at;
  }
  return std::nullopt;
}

}  // namespace

std::vector<tune::doctor::Mount> penstock_mounts() {
  std::vector<tune::doctor::Mount> mounts = all_mounts();
  std::erase_if(mounts, [](const tune::doctor::Mount& mount) { return mount.type != kMountType; });
  return mounts;
}

std::optional<tune::doctor::Mount> mount_at(const std::string& directory) {
  std::optional<tune::doctor::Mount> last;
  for (tune::doctor::Mount& mount : all_mounts()) {
    if (mount.point == directory) last = std::move(mount);
  }
  return last;
}

std::optional<std::string> mount_of_host(const std::string& directory) {
  if (std::optional<std::string> told = told_by_owner(directory)) return told;
  char real[PATH_MAX];
  if (::realpath(directory.c_str(), real) == nullptr) return std::nullopt;
  const std::string lock = std::string(real) + "/owner.lock";
  for (const std::string& name : entries_of("/proc")) {
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string process = "/proc/" + name;
    const auto is_lock = [&](const std::string& fd) {
      return link_of(process + "/fd/" + fd) == lock;
    };
    if (std::ranges::none_of(entries_of(process + "/fd"), is_lock)) continue;
    // Where it said that it would mount it.
    const std::string command = read_all(process + "/cmdline");
    for (const tune::doctor::Mount& mount : penstock_mounts()) {
      if (command.find(std::string(1, '\0') + mount.point + '\0') != std::string::npos) {
        return mount.point;
      }
    }
  }
  return std::nullopt;
}

Error explain_busy(const Error& error, const std::string& name, const std::string& host) {
  if (error.code != ErrorCode::kBusy) return error;
  const std::optional<std::string> point = mount_of_host(host);
  return point ? mounted_elsewhere(name, *point) : error;
}

Error mounted_elsewhere(const std::string& name, const std::string& directory) {
  return make_error(ErrorCode::kBusy,
                    fmt::format("{0} is mounted at {1}, and a volume has one owner at a time; to "
                                "end that: penstock umount {1}",
                                name, directory));
}

Error mounted_already(const tune::doctor::Mount& mount) {
  return make_error(
      ErrorCode::kExists,
      fmt::format("{0} is mounted already (volume {1}); to end that: penstock umount {0}",
                  mount.point, mount.source));
}

Result<std::string> mount_point_path(const std::string& directory) {
  std::string trimmed = directory;
  while (trimmed.size() > 1 && trimmed.back() == '/') trimmed.pop_back();
  const size_t slash = trimmed.rfind('/');
  std::string above = slash == std::string::npos ? "." : trimmed.substr(0, slash + 1);
  std::string last = slash == std::string::npos ? trimmed : trimmed.substr(slash + 1);
  // A link to the directory, or "..": then all of it is asked for. A dead mount is neither.
  const bool plain = last != "." && last != ".." && !last.empty() && link_of(trimmed).empty();
  char real[PATH_MAX];
  if (::realpath(plain ? above.c_str() : trimmed.c_str(), real) == nullptr) {
    return errno_error(errno, directory);
  }
  std::string path = real;
  if (!plain) return path;
  return path == "/" ? path + last : path + "/" + last;
}

std::string users_of(const std::string& directory) {
  std::vector<std::string> users;
  size_t more = 0;
  for (const std::string& name : entries_of("/proc")) {
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string process = "/proc/" + name;
    if (!uses(process, directory)) continue;
    std::string command = read_all(process + "/comm");
    while (!command.empty() && command.back() == '\n') command.pop_back();
    if (users.size() < kUsersNamedMax) {
      users.push_back(fmt::format("{} (pid {})", command, name));
    } else {
      ++more;
    }
  }
  std::string text = fmt::format("{}", fmt::join(users, ", "));
  if (more > 0) text += fmt::format(" and {} more", more);
  return text;
}

}  // namespace penstock::cli
