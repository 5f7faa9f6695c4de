#include "tune/bench_facts.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <vector>

#include "base/thread_pool.h"

namespace penstock::tune {

namespace {

// Files of /proc and /sys; empty when not there.
std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string trimmed(std::string text) {
  const size_t end = text.find_last_not_of(" \n\t");
  text.resize(end == std::string::npos ? 0 : end + 1);
  return text;
}

// The value after "NAME :" in /proc/cpuinfo or /proc/meminfo.
std::string field_of(const std::string& text, std::string_view name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name)) continue;
    const size_t colon = line.find(':');
    const size_t begin = line.find_first_not_of(" \t", colon == std::string::npos ? 0 : colon + 1);
    if (begin != std::string::npos) return line.substr(begin);
  }
  return {};
}

uint64_t memory_field_bytes(std::string_view name) {
  return std::strtoull(field_of(read_text("/proc/meminfo"), name).c_str(), nullptr, 10) * kKiB;
}

std::string real_path_of(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), &std::free);
  return real ? real.get() : path;
}

// mountinfo writes space, tab, newline and backslash as \ooo.
std::string unescape_octal(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      const std::string digits(text.substr(i + 1, 3));
      out += static_cast<char>(std::strtol(digits.c_str(), nullptr, 8));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool is_below(std::string_view path, std::string_view directory) {
  if (directory == "/") return true;
  if (!path.starts_with(directory)) return false;
  return path.size() == directory.size() || path[directory.size()] == '/';
}

void read_device(dev_t device, BenchFacts& facts) {
  std::string folder =
      real_path_of(fmt::format("/sys/dev/block/{}:{}", ::major(device), ::minor(device)));
  if (!read_text(folder + "/partition").empty()) folder = io::parent_path(folder);
  facts.rotational = trimmed(read_text(folder + "/queue/rotational")) == "1";
  facts.device_model = trimmed(read_text(folder + "/device/model"));
  const std::string schedulers = read_text(folder + "/queue/scheduler");
  const size_t open = schedulers.find('[');
  const size_t close = schedulers.find(']');
  if (open != std::string::npos && close > open) {
    facts.scheduler = schedulers.substr(open + 1, close - open - 1);
  } else {
    facts.scheduler = trimmed(schedulers);
  }
}

Result<uint64_t> block_device_bytes(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno_error(errno, "open " + path);
  const off_t size = ::lseek(fd, 0, SEEK_END);
  const int seek_errno = errno;
  ::close(fd);
  if (size < 0) return errno_error(seek_errno, "find the size of " + path);
  return static_cast<uint64_t>(size);
}

Result<void> read_limits(io::FileSystem& fs, const std::string& path, BenchLimits& limits) {
  const io::SpaceInfo space = PENSTOCK_TRY(fs.space(path));
  limits.total_bytes = space.total_bytes;
  limits.available_bytes = space.available_bytes;
  limits.total_inodes = space.total_inodes;
  limits.free_inodes = space.free_inodes;
  return {};
}

}  // namespace

BenchFacts collect_machine_facts() {
  BenchFacts facts;
  utsname names{};
  if (::uname(&names) == 0) facts.kernel = names.release;
  facts.date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  facts.cpu = field_of(read_text("/proc/cpuinfo"), "model name");
  facts.cores = static_cast<uint32_t>(available_cores());
  facts.memory_bytes = memory_field_bytes("MemTotal");
  return facts;
}

// Fields: id parent major:minor root mount-point options [optional...] - type source super-options.
MountEntry find_mount(std::string_view mountinfo, std::string_view path) {
  MountEntry found;
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::vector<std::string> words;
    for (std::string word; fields >> word;) words.push_back(word);
    size_t dash = 6;
    while (dash < words.size() && words[dash] != "-") ++dash;
    if (dash + 2 >= words.size()) continue;
    const std::string mount_point = unescape_octal(words[4]);
    // Of two on the same point the later one hides the earlier.
    if (!is_below(path, mount_point) || mount_point.size() < found.mount_point.size()) continue;
    found = {mount_point, words[5], words[dash + 1], unescape_octal(words[dash + 2])};
  }
  return found;
}

Result<BenchPath> inspect_bench_path(io::FileSystem& fs, const std::string& path,
                                     BenchFacts& facts) {
  const io::FileInfo info = PENSTOCK_TRY(fs.stat(path));
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return errno_error(errno, "stat " + path);
  BenchPath found;
  found.real_path = real_path_of(path);
  found.limits.memory_bytes = memory_field_bytes("MemAvailable");
  if (info.kind == io::FileKind::kDirectory) {
    found.limits.target = BenchTarget::kDirectory;
  } else if (info.kind == io::FileKind::kFile) {
    found.limits.target = BenchTarget::kFile;
    found.limits.existing_bytes = info.size;
  } else if (S_ISBLK(status.st_mode)) {
    found.limits.target = BenchTarget::kBlockDevice;
    found.limits.existing_bytes = PENSTOCK_TRY(block_device_bytes(path));
  } else {
    return make_error(ErrorCode::kInvalid,
                      path + " is neither a directory, a file nor a block device");
  }
  facts.target = path;
  facts.kind = found.limits.target;
  if (facts.kind == BenchTarget::kBlockDevice) {
    facts.device = found.real_path;
    facts.total_bytes = facts.available_bytes = found.limits.existing_bytes;
    read_device(status.st_rdev, facts);
    return found;
  }
  PENSTOCK_TRY(read_limits(fs, path, found.limits));
  const MountEntry mount = find_mount(read_text("/proc/self/mountinfo"), found.real_path);
  facts.file_system = mount.type;
  facts.mount_point = mount.mount_point;
  facts.mount_options = mount.options;
  facts.device = mount.source;
  facts.total_bytes = found.limits.total_bytes;
  facts.available_bytes = found.limits.available_bytes;
  read_device(status.st_dev, facts);
  return found;
}

}  // namespace penstock::tune
