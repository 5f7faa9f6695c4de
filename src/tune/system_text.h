// The other texts of the kernel and its tools that the checks read. Any bytes are allowed; what is
// not understood is left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::tune::doctor {

// /proc/meminfo: name to bytes ("MemTotal" -> ...). Counts without a unit are left out.
using Meminfo = std::map<std::string, uint64_t, std::less<>>;
Meminfo parse_meminfo(std::string_view text);

struct MdArray {
  std::string name;   // "md0"
  std::string level;  // "raid0"
  std::vector<std::string> members;
  uint64_t drives_wanted = 0;  // 0 for levels without redundancy, which do not say.
  uint64_t drives_present = 0;
};
std::vector<MdArray> parse_mdstat(std::string_view text);

// "none [mq-deadline] kyber": the one in brackets; empty when there is none.
std::string parse_scheduler(std::string_view text);

// "16.0 GT/s PCIe": 16.
std::optional<double> parse_link_speed_gt(std::string_view text);
// What `lanes` lanes of that speed carry, after encoding.
double link_bytes_per_second(double speed_gt, uint64_t lanes);

// What `lfs getstripe` says new files get (a directory) or have (a file); of a progressive layout,
// its last and largest component.
struct Striping {
  int64_t count = 0;  // -1: all targets.
  uint64_t size_bytes = 0;
};
std::optional<Striping> parse_striping(std::string_view text);

// From the SMART / health log page that every NVMe drive keeps.
struct NvmeHealth {
  uint64_t percentage_used = 0;  // Of the endurance its maker rates it for; may exceed 100.
  uint64_t written_bytes = 0;
  uint64_t spare_percent = 100;
  uint64_t spare_threshold_percent = 0;
  uint64_t critical_warning = 0;  // Bits; any of them is bad news.
};
std::optional<NvmeHealth> parse_nvme_health(std::span<const std::byte> log_page);

// /proc/self/cgroup: the process's group for `controller`, and whether it is of the unified (v2)
// hierarchy.
struct CgroupPath {
  std::string path;
  bool unified = false;
};
std::optional<CgroupPath> parse_cgroup(std::string_view text, std::string_view controller);

// "6.12.3-amd64": 6 and 12.
struct KernelVersion {
  uint64_t major = 0;
  uint64_t minor = 0;
  bool at_least(uint64_t wanted_major, uint64_t wanted_minor) const {
    return major != wanted_major ? major > wanted_major : minor >= wanted_minor;
  }
};
std::optional<KernelVersion> parse_kernel_version(std::string_view text);

}  // namespace penstock::tune::doctor
