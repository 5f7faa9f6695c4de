#include "tune/doctor.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>

#include "tune/checks.h"

namespace penstock::tune::doctor {

namespace {

constexpr std::array<Check, 31> kChecks = {{
    {"shut-down", check_shut_down},
    {"read-only", check_read_only},
    {"block-device", check_block_device},
    {"atime", check_atime},
    {"write-barrier", check_write_barrier},
    {"ext4", check_ext4},
    {"xfs", check_xfs},
    {"zfs", check_zfs},
    {"tmpfs", check_tmpfs},
    {"fuse", check_fuse},
    {"overlayfs", check_overlayfs},
    {"nfs", check_nfs},
    {"lustre", check_lustre},
    {"inodes", check_inodes},
    {"free-space", check_free_space},
    {"dataset-space", check_dataset_space},
    {"scheduler", check_scheduler},
    {"read-ahead", check_read_ahead},
    {"cloud-disk", check_cloud_disk},
    {"slow-device", check_slow_device},
    {"nvme-link", check_nvme_link},
    {"raid", check_raid},
    {"drive-wear", check_drive_wear},
    {"dirty-pages", check_dirty_pages},
    {"writeback", check_writeback},
    {"page-cache", check_page_cache},
    {"cgroup", check_cgroup},
    {"memlock", check_memlock},
    {"io-uring", check_io_uring},
    {"numa", check_numa},
    {"gds", check_gds},
}};

uint64_t count_cores(const Machine& machine) {
  uint64_t cores = 0;
  const std::string text = machine.read_or("/proc/cpuinfo", "");
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with("processor")) ++cores;
  }
  return cores;
}

MachineSummary summarise(const Machine& machine) {
  const MemoryView memory = memory_of(machine);
  MachineSummary summary;
  summary.kernel = machine.read_or("/proc/sys/kernel/osrelease", "");
  summary.cores = count_cores(machine);
  summary.memory_bytes = memory.total_bytes;
  summary.memory_limit_bytes = memory.limit_bytes;
  for (const Gpu& gpu : nvidia_gpus(machine)) summary.gpus.push_back(gpu.model);
  return summary;
}

void add_device(const Machine& machine, const BlockDevice& device, PathSummary& summary) {
  summary.device = device.name;
  summary.raid_level = device.raid_level;
  for (const BlockDevice& disk : disks_under(machine, device)) {
    summary.disks.push_back(disk.name);
    summary.models.push_back(disk.model);
  }
}

Result<PathSummary> summarise_path(const Machine& machine, const std::string& path) {
  PathSummary summary;
  summary.path = path;
  if (const auto device = device_at(machine, path)) {
    summary.type = kBlockDeviceType;
    summary.source = path;
    add_device(machine, *device, summary);
    return summary;
  }
  const Mount* mount = find_mount(machine.mounts(), path);
  if (mount == nullptr && machine.mounts().empty())
    return make_error(
        ErrorCode::kNotFound,
        fmt::format("'{}' lies on no mount of /proc/self/mountinfo", printable(path)));
  if (mount == nullptr) {  // In a chroot the file system of its root is not in the table.
    summary.type = kUnseenType;
    return summary;
  }
  summary.mount_point = mount->point;
  summary.type = mount->type;
  summary.source = mount->source;
  summary.options = mount->options;
  if (const auto device = device_of(machine, *mount)) add_device(machine, *device, summary);
  const Result<io::SpaceInfo> space = machine.facts().space(mount->point);
  if (space && stopped_by_kernel(machine, *mount).empty()) summary.space = *space;
  return summary;
}

// A mount has one line in fstab: findings about the same mount all propose the line that settles
// all of them, or following one would undo another. Those that matter more come last and so win.
void unite_fstab_lines(const Machine& machine, Findings& findings) {
  std::map<std::string, std::vector<std::string>> wanted;
  for (auto finding = findings.rbegin(); finding != findings.rend(); ++finding) {
    for (const ConfigLine& line : finding->config)
      wanted[line.mount_point].insert(wanted[line.mount_point].end(), line.mount_options.begin(),
                                      line.mount_options.end());
  }
  for (Finding& finding : findings) {
    for (ConfigLine& line : finding.config) {
      const Mount* mount = find_mount(machine.mounts(), line.mount_point);
      if (mount != nullptr) line = fstab_line(machine, *mount, wanted[line.mount_point]);
    }
  }
}

}  // namespace

std::span<const Check> all_checks() {
  return kChecks;
}

Severity Report::worst() const {
  Severity worst = Severity::kOk;
  for (const Finding& finding : findings) {
    if (finding.severity != Severity::kUnknown) worst = std::max(worst, finding.severity);
  }
  return worst;
}

size_t Report::count(Severity severity) const {
  return static_cast<size_t>(
      std::count_if(findings.begin(), findings.end(),
                    [&](const Finding& finding) { return finding.severity == severity; }));
}

Result<Report> examine(const Machine& machine, const DoctorOptions& options) {
  Report report;
  report.machine = summarise(machine);
  for (const std::string& path : options.paths)
    report.paths.push_back(PENSTOCK_TRY(summarise_path(machine, path)));
  for (const Check& check : kChecks) {
    Findings found = check.run(machine, options);
    std::move(found.begin(), found.end(), std::back_inserter(report.findings));
  }
  std::stable_sort(report.findings.begin(), report.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  unite_fstab_lines(machine, report.findings);
  return report;
}

}  // namespace penstock::tune::doctor
