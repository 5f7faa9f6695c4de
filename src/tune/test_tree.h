// Small machines made by hand, for the tests of the checks: a directory with the few files of /proc
// and /sys that matter, laid out and linked as the kernel does.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "penstock/units.h"
#include "tune/doctor.h"

namespace penstock::tune::doctor {

struct NvmeSpec {
  std::string model = "Fast NVMe 4TB";
  int numa_node = 0;
  std::string speed = "16.0 GT/s PCIe";
  std::string width = "4";
  std::string slot_width = "4";  // Of the port above.
  std::string scheduler = "[none] mq-deadline kyber bfq";
  int read_ahead_kib = 4096;
};

class TestTree {
 public:
  TestTree() {
    std::string pattern = (std::filesystem::temp_directory_path() / "doctor-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
    facts_ = unknown_facts("not told");
    facts_.space = [this](const std::string& point) -> Result<io::SpaceInfo> {
      const auto space = spaces_.find(point);
      if (space == spaces_.end()) return make_error(ErrorCode::kNotFound, "not told");
      return space->second;
    };
    facts_.memlock_bytes = UINT64_MAX;
    facts_.io_uring_errno = 0;
    file("/proc/sys/kernel/osrelease", "6.8.0-45-generic\n");
    file("/proc/cpuinfo", "processor\t: 0\n\nprocessor\t: 1\n");
    file("/proc/self/cgroup", "0::/\n");
    sysctl("vm/dirty_ratio", 5);
    sysctl("vm/dirty_background_ratio", 2);
    sysctl("vm/dirty_bytes", 0);
    sysctl("kernel/io_uring_disabled", 0);
    memory(64, 0);
  }
  ~TestTree() { std::filesystem::remove_all(root_); }
  TestTree(const TestTree&) = delete;
  TestTree& operator=(const TestTree&) = delete;

  const std::string& root() const { return root_; }
  Facts& facts() { return facts_; }
  Machine machine() const { return Machine(root_, facts_); }

  void file(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path, std::ios::binary) << text;
  }
  // A link inside the tree, relative as sysfs has them.
  void link(const std::string& path, const std::string& target) {
    const std::filesystem::path from(root_ + path);
    std::filesystem::create_directories(from.parent_path());
    std::filesystem::create_symlink(std::filesystem::relative(root_ + target, from.parent_path()),
                                    from);
  }

  void sysctl(const std::string& name, uint64_t value) {
    file("/proc/sys/" + name, std::to_string(value) + "\n");
  }
  void memory(uint64_t total_gib, uint64_t writeback_kib) {
    const std::string kib = std::to_string(total_gib * kMiB);
    file("/proc/meminfo", "MemTotal: " + kib + " kB\nMemAvailable: " + kib + " kB\nWriteback: " +
                              std::to_string(writeback_kib) + " kB\nHugePages_Total: 0\n");
  }
  // Fields as in mountinfo, already escaped.
  void mount(const std::string& number, const std::string& point, const std::string& options,
             const std::string& type, const std::string& source,
             const std::string& super_options = "rw") {
    mountinfo_ += std::to_string(++mounts_) + " 1 " + number + " / " + point + " " + options +
                  " shared:1 - " + type + " " + source + " " + super_options + "\n";
    file("/proc/self/mountinfo", mountinfo_);
  }
  void space(const std::string& point, uint64_t total_bytes, uint64_t available_bytes,
             uint64_t total_inodes = 1'000'000, uint64_t free_inodes = 900'000) {
    io::SpaceInfo info;
    info.total_bytes = total_bytes;
    info.available_bytes = info.free_bytes = available_bytes;
    info.total_inodes = total_inodes;
    info.free_inodes = free_inodes;
    spaces_[point] = info;
  }

  // nvmeINDEX with one drive, its whole device numbered 259:INDEX*10 and partition 1 after it.
  void nvme(int index, const NvmeSpec& spec = {}) {
    const std::string controller = "nvme" + std::to_string(index);
    const std::string disk = controller + "n1";
    const std::string port = "/sys/devices/pci0000:00/0000:00:0" + std::to_string(index) + ".0";
    const std::string pci = port + "/0000:0" + std::to_string(index + 1) + ":00.0";
    const std::string node = pci + "/nvme/" + controller;
    file(port + "/max_link_speed", "32.0 GT/s PCIe\n");
    file(port + "/max_link_width", spec.slot_width + "\n");
    file(pci + "/current_link_speed", spec.speed + "\n");
    file(pci + "/current_link_width", spec.width + "\n");
    file(pci + "/max_link_speed", "16.0 GT/s PCIe\n");
    file(pci + "/max_link_width", "4\n");
    file(pci + "/numa_node", std::to_string(spec.numa_node) + "\n");
    file(node + "/transport", "pcie\n");
    file(node + "/model", spec.model + "\n");
    link(node + "/device", pci);
    link("/sys/class/nvme/" + controller, node);
    block(node + "/" + disk, 259, index * 10, spec.scheduler, spec.read_ahead_kib);
    link(node + "/" + disk + "/device", node);
    file(node + "/" + disk + "/" + disk + "p1/partition", "1\n");
    link("/sys/class/block/" + disk + "p1", node + "/" + disk + "/" + disk + "p1");
    link("/sys/dev/block/259:" + std::to_string(index * 10 + 1),
         node + "/" + disk + "/" + disk + "p1");
  }

  // A disk of another kind: "vda", "sda".
  void disk(const std::string& name, int major, const std::string& vendor, const std::string& model,
            bool rotational, const std::string& serial = "") {
    const std::string directory = "/sys/devices/other/" + name;
    block(directory, major, 0, "[none] mq-deadline", 4096);
    file(directory + "/device/vendor", vendor + "\n");
    file(directory + "/device/model", model + "\n");
    file(directory + "/device/serial", serial + "\n");
    file(directory + "/queue/rotational", rotational ? "1\n" : "0\n");
  }

  // md0 (9:0) over the first `drives` NVMe drives.
  void raid0(int drives) {
    block("/sys/devices/virtual/block/md0", 9, 0, "none", 4096);
    file("/sys/devices/virtual/block/md0/md/level", "raid0\n");
    file("/sys/devices/virtual/block/md0/md/chunk_size", "524288\n");
    std::string members;
    for (int i = 0; i < drives; ++i) {
      const std::string name = "nvme" + std::to_string(i) + "n1";
      link("/sys/devices/virtual/block/md0/slaves/" + name, "/sys/block/" + name);
      members += " " + name + "[" + std::to_string(i) + "]";
    }
    file("/proc/mdstat", "Personalities : [raid0]\nmd0 : active raid0" + members +
                             "\n      15002423296 blocks super 1.2 512k chunks\n\n"
                             "unused devices: <none>\n");
  }

  void gpu(int index, int numa_node, const std::string& device_id = "0x2335") {
    const std::string pci = "0000:8" + std::to_string(index) + ":00.0";
    const std::string directory = "/sys/devices/pci0000:80/" + pci;
    file(directory + "/vendor", "0x10de\n");
    file(directory + "/device", device_id + "\n");
    file(directory + "/class", "0x030200\n");
    file(directory + "/numa_node", std::to_string(numa_node) + "\n");
    link("/sys/bus/pci/devices/" + pci, directory);
    file("/proc/driver/nvidia/gpus/" + pci + "/information", "Model: \t\t NVIDIA H200\n");
    file("/proc/driver/nvidia/version",
         "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15\n");
  }
  void numa_nodes(int count) {
    for (int i = 0; i < count; ++i)
      file("/sys/devices/system/node/node" + std::to_string(i) + "/cpulist", "0\n");
  }

 private:
  void block(const std::string& directory, int major, int minor, const std::string& scheduler,
             int read_ahead_kib) {
    const std::string name = directory.substr(directory.rfind('/') + 1);
    file(directory + "/queue/scheduler", scheduler + "\n");
    file(directory + "/queue/read_ahead_kb", std::to_string(read_ahead_kib) + "\n");
    file(directory + "/queue/rotational", "0\n");
    link("/sys/block/" + name, directory);
    link("/sys/class/block/" + name, directory);
    link("/sys/dev/block/" + std::to_string(major) + ":" + std::to_string(minor), directory);
  }

  std::string root_;
  Facts facts_;
  std::map<std::string, io::SpaceInfo> spaces_;
  std::string mountinfo_;
  int mounts_ = 20;
};

}  // namespace penstock::tune::doctor
