#include "tune/machine.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>

#include "penstock/units.h"
#include "tune/text.h"

namespace penstock::tune::doctor {

namespace {

constexpr size_t kLargestFile = 4 * kMiB;

// Files of /proc have no size: they are read until they end.
Result<std::string> read_to_end(int fd, const std::string& path) {
  std::string text;
  std::array<char, 16 * kKiB> block;
  while (text.size() < kLargestFile) {
    const ssize_t n = ::read(fd, block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error(errno, "read " + path);
    if (n == 0) break;
    text.append(block.data(), static_cast<size_t>(n));
  }
  return std::string(trim(text));
}

std::string real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  return real ? std::string(real.get()) : std::string();
}

std::string without_trailing_slashes(std::string path) {
  while (!path.empty() && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

Facts unknown_facts(const std::string& reason) {
  const Error error = make_error(ErrorCode::kUnsupported, reason);
  Facts facts;
  facts.space = [error](const std::string&) -> Result<io::SpaceInfo> { return error; };
  facts.lustre_striping = [error](const std::string&) -> Result<std::string> { return error; };
  facts.zfs_property = [error](const std::string&, const std::string&) -> Result<std::string> {
    return error;
  };
  facts.nvme_health = [error](const std::string&) -> Result<NvmeHealth> { return error; };
  facts.sleep = [](uint64_t) {};
  return facts;
}

Machine::Machine(std::string root, Facts facts)
    : root_(without_trailing_slashes(std::move(root))), facts_(std::move(facts)) {
  mounts_ = parse_mountinfo(read_or("/proc/self/mountinfo", ""));
}

Result<std::string> Machine::read(const std::string& path) const {
  // Not blocking: a saved tree may hold anything, a pipe included.
  const int fd = ::open((root_ + path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return errno_error(errno, "open " + path);
  Result<std::string> text = read_to_end(fd, path);
  ::close(fd);
  return text;
}

std::string Machine::read_or(const std::string& path, std::string_view otherwise) const {
  Result<std::string> text = read(path);
  return text ? std::move(*text) : std::string(otherwise);
}

std::optional<uint64_t> Machine::read_number(const std::string& path) const {
  return parse_u64(read_or(path, ""));
}

std::optional<int64_t> Machine::read_signed(const std::string& path) const {
  return parse_i64(read_or(path, ""));
}

bool Machine::exists(const std::string& path) const {
  return ::access((root_ + path).c_str(), F_OK) == 0;
}

std::vector<std::string> Machine::list(const std::string& path) const {
  std::vector<std::string> names;
  DIR* directory = ::opendir((root_ + path).c_str());
  if (directory == nullptr) return names;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  ::closedir(directory);
  std::sort(names.begin(), names.end());
  return names;
}

std::string Machine::resolve(const std::string& path) const {
  const std::string real = real_path(root_ + path);
  const std::string real_root = root_.empty() ? "" : real_path(root_);
  if (real.empty() || real.compare(0, real_root.size() + 1, real_root + "/") != 0) return "";
  return real.substr(real_root.size());
}

}  // namespace penstock::tune::doctor
