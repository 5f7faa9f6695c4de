// What sysfs says of block devices, NVMe controllers and GPUs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tune/machine.h"

namespace penstock::tune::doctor {

enum class DeviceKind : uint8_t { kNvme, kVirtio, kScsi, kMd, kMapper, kOther };

// A whole block device, never a partition.
struct BlockDevice {
  std::string name;  // As in /sys/block: "nvme0n1", "md0".
  DeviceKind kind = DeviceKind::kOther;
  bool rotational = false;  // As reported: virtual disks often say true and are not.
  std::string vendor;
  std::string model;
  std::string serial;
  std::string raid_level;  // "raid0" for an md array.
};

// By a name that may be a partition's ("nvme0n1p2", "dm-0"); nothing when sysfs has no such device.
std::optional<BlockDevice> find_device(const Machine& machine, const std::string& name);
// What a mount stands on; nothing for network and memory file systems.
std::optional<BlockDevice> device_of(const Machine& machine, const Mount& mount);
// What a path names that is itself a device ("/dev/nvme0n1"); nothing for any other path.
std::optional<BlockDevice> device_at(const Machine& machine, const std::string& path);
// The drives at the bottom of arrays and volumes; the device itself when nothing is under it.
std::vector<BlockDevice> disks_under(const Machine& machine, const BlockDevice& device);

struct NvmeController {
  std::string name;       // "nvme0"
  std::string transport;  // "pcie", "tcp", "rdma"
  std::string model;
  std::string pci;  // "0000:01:00.0"; empty when it is not on PCIe.
  std::optional<int64_t> numa_node;
  std::string link_directory;  // Of its PCI device, in /sys/devices.
};
std::vector<NvmeController> nvme_controllers(const Machine& machine);
// Of the drive "nvme0n1"; nothing when it is not NVMe.
std::optional<NvmeController> controller_of(const Machine& machine, const BlockDevice& device);

struct Gpu {
  std::string pci;
  std::string model;  // As the driver names it; "NVIDIA GPU" when it is not loaded.
  uint64_t device_id = 0;
  std::optional<int64_t> numa_node;
};
std::vector<Gpu> nvidia_gpus(const Machine& machine);

struct MemoryView {
  uint64_t total_bytes = 0;
  uint64_t available_bytes = 0;
  std::optional<uint64_t> limit_bytes;  // Of the control group, where it is below the total.
  uint64_t usable_bytes() const;        // The smaller of total and limit.
};
MemoryView memory_of(const Machine& machine);

// The lowest limit on the way from the process's control group to the root; nothing when there is
// none. `file_v1` and `file_v2` are the file's names in both kinds of hierarchy.
std::optional<uint64_t> cgroup_limit(const Machine& machine, const std::string& controller,
                                     const std::string& file_v1, const std::string& file_v2);

}  // namespace penstock::tune::doctor
