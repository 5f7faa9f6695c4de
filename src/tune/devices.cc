#include "tune/devices.h"

#include <algorithm>
#include <set>

#include "tune/text.h"

namespace penstock::tune::doctor {

namespace {

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::string directory_name(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

// A name taken from foreign text may go into a path only when it stays one component.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos && name != "." && name != "..";
}

DeviceKind kind_of(const std::string& name) {
  if (name.starts_with("nvme")) return DeviceKind::kNvme;
  if (name.starts_with("vd")) return DeviceKind::kVirtio;
  if (name.starts_with("sd")) return DeviceKind::kScsi;
  if (name.starts_with("md")) return DeviceKind::kMd;
  if (name.starts_with("dm-")) return DeviceKind::kMapper;
  return DeviceKind::kOther;
}

// "/dev/mapper/vg-data" is some "dm-N", which knows its name.
std::string mapper_device(const Machine& machine, const std::string& mapper_name) {
  for (const std::string& name : machine.list("/sys/block")) {
    if (name.starts_with("dm-") &&
        machine.read_or("/sys/block/" + name + "/dm/name", "") == mapper_name)
      return name;
  }
  return "";
}

void add_disks(const Machine& machine, const BlockDevice& device, std::set<std::string>& seen,
               std::vector<BlockDevice>& disks) {
  if (!seen.insert(device.name).second) return;
  const std::vector<std::string> below = machine.list("/sys/block/" + device.name + "/slaves");
  if (below.empty()) disks.push_back(device);
  for (const std::string& name : below) {
    if (const auto member = find_device(machine, name)) add_disks(machine, *member, seen, disks);
  }
}

NvmeController read_controller(const Machine& machine, const std::string& name) {
  const std::string directory = "/sys/class/nvme/" + name;
  NvmeController controller;
  controller.name = name;
  controller.transport = machine.read_or(directory + "/transport", "pcie");
  controller.model = machine.read_or(directory + "/model", "");
  if (controller.transport == "pcie") {
    controller.link_directory = machine.resolve(directory + "/device");
    controller.pci = base_name(controller.link_directory);
  }
  controller.numa_node = machine.read_signed(directory + "/device/numa_node");
  if (!controller.numa_node) controller.numa_node = machine.read_signed(directory + "/numa_node");
  return controller;
}

// The "Model:" of /proc/driver/nvidia/gpus/PCI/information.
std::string driver_model(const Machine& machine, const std::string& pci) {
  const std::string text = machine.read_or("/proc/driver/nvidia/gpus/" + pci + "/information", "");
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with("Model:")) return std::string(trim(line.substr(6)));
  }
  return "NVIDIA GPU";
}

std::optional<uint64_t> parse_hex(std::string_view text) {
  if (!text.starts_with("0x") || text.size() > 10) return std::nullopt;
  uint64_t value = 0;
  for (const char c : text.substr(2)) {
    const size_t digit = std::string_view("0123456789abcdef").find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    value = value * 16 + digit;
  }
  return value;
}

}  // namespace

std::optional<BlockDevice> find_device(const Machine& machine, const std::string& name) {
  if (!is_plain_name(name)) return std::nullopt;
  std::string directory = machine.resolve("/sys/class/block/" + name);
  if (directory.empty()) directory = machine.resolve("/sys/block/" + name);
  if (directory.empty()) return std::nullopt;
  if (machine.exists(directory + "/partition")) directory = directory_name(directory);
  BlockDevice device;
  device.name = base_name(directory);
  device.kind = kind_of(device.name);
  device.rotational = machine.read_or(directory + "/queue/rotational", "0") == "1";
  device.vendor = machine.read_or(directory + "/device/vendor", "");
  device.model = machine.read_or(directory + "/device/model", "");
  device.serial = machine.read_or(directory + "/device/serial", "");
  device.raid_level = machine.read_or(directory + "/md/level", "");
  return device;
}

std::optional<BlockDevice> device_at(const Machine& machine, const std::string& path) {
  if (path.starts_with("/dev/mapper/"))
    return find_device(machine, mapper_device(machine, path.substr(12)));
  if (!path.starts_with("/dev/")) return std::nullopt;
  // Sysfs writes the slash of "/dev/cciss/c0d0" as an exclamation mark.
  std::string name = path.substr(5);
  std::replace(name.begin(), name.end(), '/', '!');
  return find_device(machine, name);
}

std::optional<BlockDevice> device_of(const Machine& machine, const Mount& mount) {
  if (mount.major != 0) {
    const std::string number = std::to_string(mount.major) + ":" + std::to_string(mount.minor);
    const std::string directory = machine.resolve("/sys/dev/block/" + number);
    if (!directory.empty()) return find_device(machine, base_name(directory));
  }
  return device_at(machine, mount.source);
}

std::vector<BlockDevice> disks_under(const Machine& machine, const BlockDevice& device) {
  std::set<std::string> seen;
  std::vector<BlockDevice> disks;
  add_disks(machine, device, seen, disks);
  return disks;
}

std::vector<NvmeController> nvme_controllers(const Machine& machine) {
  std::vector<NvmeController> controllers;
  for (const std::string& name : machine.list("/sys/class/nvme"))
    controllers.push_back(read_controller(machine, name));
  return controllers;
}

std::optional<NvmeController> controller_of(const Machine& machine, const BlockDevice& device) {
  if (device.kind != DeviceKind::kNvme) return std::nullopt;
  const std::string above = machine.resolve("/sys/block/" + device.name + "/device");
  std::string name = base_name(above);
  if (name.starts_with("nvme-subsys")) {
    // With multipath the drive belongs to a subsystem, which lists its controllers.
    name.clear();
    for (const std::string& entry : machine.list(above)) {
      if (name.empty() && machine.exists("/sys/class/nvme/" + entry)) name = entry;
    }
  }
  if (!is_plain_name(name) || !machine.exists("/sys/class/nvme/" + name)) return std::nullopt;
  return read_controller(machine, name);
}

std::vector<Gpu> nvidia_gpus(const Machine& machine) {
  std::vector<Gpu> gpus;
  for (const std::string& pci : machine.list("/sys/bus/pci/devices")) {
    const std::string directory = "/sys/bus/pci/devices/" + pci;
    if (machine.read_or(directory + "/vendor", "") != "0x10de") continue;
    // Class 03: display controllers, which data centre GPUs count among.
    if (!machine.read_or(directory + "/class", "").starts_with("0x03")) continue;
    Gpu gpu;
    gpu.pci = pci;
    gpu.model = driver_model(machine, pci);
    gpu.device_id = parse_hex(machine.read_or(directory + "/device", "")).value_or(0);
    gpu.numa_node = machine.read_signed(directory + "/numa_node");
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

uint64_t MemoryView::usable_bytes() const {
  return limit_bytes ? std::min(*limit_bytes, total_bytes) : total_bytes;
}

MemoryView memory_of(const Machine& machine) {
  const Meminfo meminfo = parse_meminfo(machine.read_or("/proc/meminfo", ""));
  const auto value = [&](std::string_view name) {
    const auto entry = meminfo.find(name);
    return entry == meminfo.end() ? 0 : entry->second;
  };
  MemoryView memory;
  memory.total_bytes = value("MemTotal");
  memory.available_bytes = value("MemAvailable");
  const auto limit = cgroup_limit(machine, "memory", "memory.limit_in_bytes", "memory.max");
  if (limit && *limit < memory.total_bytes) memory.limit_bytes = limit;
  return memory;
}

std::optional<uint64_t> cgroup_limit(const Machine& machine, const std::string& controller,
                                     const std::string& file_v1, const std::string& file_v2) {
  const auto group = parse_cgroup(machine.read_or("/proc/self/cgroup", ""), controller);
  if (!group) return std::nullopt;
  const std::string mount = "/sys/fs/cgroup" + (group->unified ? "" : "/" + controller);
  std::optional<uint64_t> lowest;
  // A container often sees its own group as the root: a path that is not there is skipped.
  for (std::string path = group->path;; path = directory_name(path)) {
    if (path == "/") path.clear();
    const auto limit =
        machine.read_number(mount + path + "/" + (group->unified ? file_v2 : file_v1));
    if (limit && (!lowest || *limit < *lowest)) lowest = limit;
    if (path.empty()) return lowest;
  }
}

}  // namespace penstock::tune::doctor
