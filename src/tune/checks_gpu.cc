// GPUs: where they sit, and whether drives can reach their memory.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tune/checks.h"
#include "tune/knowledge.h"

namespace penstock::tune::doctor {

namespace {

uint64_t count_nodes(const Machine& machine) {
  uint64_t nodes = 0;
  for (const std::string& name : machine.list("/sys/devices/system/node")) {
    if (name.starts_with("node") && parse_u64(name.substr(4))) ++nodes;
  }
  return nodes;
}

std::set<int64_t> gpu_nodes(const Machine& machine) {
  std::set<int64_t> nodes;
  for (const Gpu& gpu : nvidia_gpus(machine)) {
    if (gpu.numa_node.value_or(-1) >= 0) nodes.insert(*gpu.numa_node);
  }
  return nodes;
}

// Drives behind the paths that sit on a node without a GPU.
std::vector<std::string> far_drives(const Machine& machine, const DoctorOptions& options,
                                    const std::set<int64_t>& near) {
  std::vector<std::string> far;
  for (const BlockDevice& disk : disks_of(machine, options)) {
    const auto controller = controller_of(machine, disk);
    const int64_t node = controller ? controller->numa_node.value_or(-1) : -1;
    if (node >= 0 && !near.contains(node))
      far.push_back(fmt::format("{} on node {}", disk.name, node));
  }
  return far;
}

bool has(std::span<const std::string_view> list, std::string_view value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// Why a GPU cannot read this mount without a detour; empty when it can.
std::string gds_obstacle(const Machine& machine, const Mount& mount) {
  if (has(gds_remote_file_systems(), mount.type)) return "";
  if (is_nfs(mount))
    return mount.option_value("proto") == "rdma" ? "" : "NFS without RDMA goes through host memory";
  if (!has(gds_block_file_systems(), mount.type)) return mount.type + " is not supported";
  const auto device = device_of(machine, mount);
  if (!device) return "no drive is seen behind " + mount.source;
  for (const BlockDevice& disk : disks_under(machine, *device)) {
    if (disk.kind != DeviceKind::kNvme) return disk.name + " is not an NVMe drive";
  }
  return "";
}

bool p2pdma_possible(const Machine& machine) {
  const auto kernel = parse_kernel_version(machine.read_or("/proc/sys/kernel/osrelease", ""));
  const bool open_driver =
      machine.read_or("/proc/driver/nvidia/version", "").find("Open Kernel Module") !=
      std::string::npos;
  const double wanted = threshold("gds", "p2pdma_kernel");
  const auto major = static_cast<uint64_t>(wanted);
  const auto minor = static_cast<uint64_t>((wanted - static_cast<double>(major)) * 10 + 0.5);
  return open_driver && kernel && kernel->at_least(major, minor);
}

// What the machine lacks; empty when nothing.
std::string gds_missing(const Machine& machine, const std::vector<Gpu>& gpus) {
  if (!machine.exists("/proc/driver/nvidia/version")) return "the NVIDIA driver is not loaded";
  const auto volta = static_cast<uint64_t>(threshold("gds", "volta_device_id"));
  for (const Gpu& gpu : gpus) {
    if (gpu.device_id != 0 && gpu.device_id < volta) return gpu.model + " is older than Volta";
  }
  if (machine.exists("/proc/driver/nvidia-fs") || machine.exists("/sys/module/nvidia_fs"))
    return "";
  if (p2pdma_possible(machine)) return "";
  return "nvidia-fs is not loaded, and P2PDMA needs kernel 6.2 with the open driver";
}

}  // namespace

Findings check_numa(const Machine& machine, const DoctorOptions& options) {
  const uint64_t nodes = count_nodes(machine);
  const std::set<int64_t> near = gpu_nodes(machine);
  if (nodes < 2 || near.empty()) return {};
  std::vector<std::string> places;
  for (const Gpu& gpu : nvidia_gpus(machine)) {
    if (gpu.numa_node.value_or(-1) >= 0)
      places.push_back(fmt::format("GPU {} on node {}", gpu.pci, *gpu.numa_node));
  }
  const std::vector<std::string> far = far_drives(machine, options, near);
  std::string observed = fmt::format("{} nodes; {}", nodes, fmt::join(places, ", "));
  if (!far.empty()) observed += fmt::format("; {}", fmt::join(far, ", "));
  return {make_finding("numa", far.empty() ? Severity::kInfo : Severity::kWarn, "", observed,
                       {{"node", std::to_string(*near.begin())}})};
}

Findings check_gds(const Machine& machine, const DoctorOptions& options) {
  const std::vector<Gpu> gpus = nvidia_gpus(machine);
  if (gpus.empty()) return {};
  Findings findings;
  const std::string missing = gds_missing(machine, gpus);
  for (const Mount* mount : working_mounts_of(machine, options)) {
    const std::string obstacle = gds_obstacle(machine, *mount);
    if (!obstacle.empty()) {
      findings.push_back(make_finding("gds", Severity::kInfo, mount->point, obstacle));
    } else if (!missing.empty()) {
      Finding finding = make_finding("gds", Severity::kWarn, mount->point, missing);
      if (missing.starts_with("nvidia-fs")) finding.commands.push_back("modprobe nvidia-fs");
      findings.push_back(std::move(finding));
    } else {
      findings.push_back(make_finding("gds", Severity::kOk, mount->point, "possible"));
    }
  }
  return findings;
}

}  // namespace penstock::tune::doctor
