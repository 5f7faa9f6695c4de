#include "tune/bench_facts.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <sstream>

#include "base/thread_pool.h"
#include "tune/devices.h"
#include "tune/machine.h"
#include "tune/text.h"

namespace penstock::tune {

namespace {

doctor::Machine this_machine() {
  return doctor::Machine("", doctor::unknown_facts("only files are read here"));
}

std::string cpu_model(const doctor::Machine& machine) {
  std::istringstream lines(machine.read_or("/proc/cpuinfo", ""));
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
}

// What can be used without swapping, within the limit of the control group.
uint64_t available_memory_bytes(const doctor::Machine& machine) {
  const doctor::MemoryView memory = doctor::memory_of(machine);
  return std::min(memory.available_bytes, memory.usable_bytes());
}

std::string real_path_of(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), &std::free);
  return real ? real.get() : path;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
  return text;
}

// The one in brackets: "mq-deadline kyber [none]".
std::string scheduler_of(const doctor::Machine& machine, const std::string& device) {
  std::string text = machine.read_or("/sys/block/" + device + "/queue/scheduler", "");
  const size_t open = text.find('[');
  const size_t close = text.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return text;
  return text.substr(open + 1, close - open - 1);
}

void note_device(const doctor::Machine& machine, const std::optional<doctor::BlockDevice>& device,
                 BenchFacts& facts) {
  if (!device) return;
  facts.rotational = device->rotational;
  facts.device_model = device->model;
  facts.scheduler = scheduler_of(machine, device->name);
}

void note_mount(const doctor::Machine& machine, const std::string& real_path, BenchFacts& facts) {
  const doctor::Mount* mount = doctor::find_mount(machine.mounts(), real_path);
  if (mount == nullptr) return;
  facts.file_system = mount->type;
  facts.mount_point = mount->point;
  facts.mount_options = joined(mount->options);
  facts.device = mount->source;
  note_device(machine, doctor::device_of(machine, *mount), facts);
}

Result<uint64_t> block_device_bytes(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno_error(errno, "open " + doctor::printable(path));
  const off_t size = ::lseek(fd, 0, SEEK_END);
  const int seek_errno = errno;
  ::close(fd);
  if (size < 0) return errno_error(seek_errno, "find the size of " + doctor::printable(path));
  return static_cast<uint64_t>(size);
}

bool is_block_device(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISBLK(status.st_mode);
}

// Also blocks that were reserved and never written: those are not read from the device either. Few
// blocks on the device alone may mean compression.
Result<bool> has_holes(io::FileSystem& fs, const std::string& path) {
  const io::FileInfo info = PENSTOCK_TRY(fs.stat(path));
  if (info.kind != io::FileKind::kFile) return false;
  const bool sparse = info.allocated_bytes < info.size;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return sparse;
  const off_t hole = ::lseek(fd, 0, SEEK_HOLE);
  ::close(fd);
  return hole < 0 ? sparse : static_cast<uint64_t>(hole) < info.size;
}

Result<BenchLimits> limits_of(io::FileSystem& fs, const std::string& path) {
  const io::FileInfo info = PENSTOCK_TRY(fs.stat(path));
  BenchLimits limits;
  if (info.kind == io::FileKind::kDirectory) {
    limits.target = BenchTarget::kDirectory;
  } else if (info.kind == io::FileKind::kFile) {
    limits.target = BenchTarget::kFile;
    limits.existing_bytes = info.size;
  } else if (is_block_device(path)) {
    limits.target = BenchTarget::kBlockDevice;
    limits.existing_bytes = PENSTOCK_TRY(block_device_bytes(path));
    limits.total_bytes = limits.available_bytes = limits.existing_bytes;
    return limits;
  } else {
    return make_error(
        ErrorCode::kInvalid,
        doctor::printable(path) + " is neither a directory, a file nor a block device");
  }
  const io::SpaceInfo space = PENSTOCK_TRY(fs.space(path));
  limits.total_bytes = space.total_bytes;
  limits.available_bytes = space.available_bytes;
  limits.total_inodes = space.total_inodes;
  limits.free_inodes = space.free_inodes;
  return limits;
}

}  // namespace

BenchFacts collect_machine_facts() {
  const doctor::Machine machine = this_machine();
  BenchFacts facts;
  utsname names{};
  if (::uname(&names) == 0) facts.kernel = names.release;
  facts.date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  facts.cpu = cpu_model(machine);
  facts.cores = static_cast<uint32_t>(available_cores());
  facts.memory_bytes = doctor::memory_of(machine).usable_bytes();
  facts.load_average = std::strtod(machine.read_or("/proc/loadavg", "0").c_str(), nullptr);
  return facts;
}

Result<BenchPath> inspect_bench_path(io::FileSystem& fs, const std::string& path,
                                     BenchFacts& facts) {
  const doctor::Machine machine = this_machine();
  BenchPath found;
  found.limits = PENSTOCK_TRY(limits_of(fs, path));
  found.limits.memory_bytes = available_memory_bytes(machine);
  found.real_path = real_path_of(path);
  facts.target = path;
  facts.kind = found.limits.target;
  facts.total_bytes = found.limits.total_bytes;
  facts.available_bytes = found.limits.available_bytes;
  facts.has_holes = PENSTOCK_TRY(has_holes(fs, path));
  if (facts.kind == BenchTarget::kBlockDevice) {
    facts.device = found.real_path;
    const std::string name = found.real_path.substr(found.real_path.rfind('/') + 1);
    note_device(machine, doctor::find_device(machine, name), facts);
  } else {
    note_mount(machine, found.real_path, facts);
  }
  return found;
}

}  // namespace penstock::tune
