// Drives, arrays and their links.
#include <fmt/core.h>

#include <algorithm>

#include "penstock/units.h"
#include "tune/checks.h"
#include "tune/knowledge.h"

namespace penstock::tune::doctor {

namespace {

// The paths' drives and every NVMe drive of the machine, each once.
std::vector<BlockDevice> disks_to_check(const Machine& machine, const DoctorOptions& options) {
  std::vector<BlockDevice> disks = disks_of(machine, options);
  for (const std::string& name : machine.list("/sys/block")) {
    const bool known = std::any_of(disks.begin(), disks.end(),
                                   [&](const BlockDevice& disk) { return disk.name == name; });
    if (known || !name.starts_with("nvme")) continue;
    if (auto device = find_device(machine, name)) disks.push_back(std::move(*device));
  }
  return disks;
}

bool schedules_itself(const BlockDevice& disk) {
  return disk.kind == DeviceKind::kNvme || disk.kind == DeviceKind::kVirtio ||
         (disk.kind == DeviceKind::kScsi && !disk.rotational);
}

struct ReadAheadVerdict {
  Severity severity = Severity::kOk;
  uint64_t wanted_kib = 0;
  std::string_view note;
};

ReadAheadVerdict judge_read_ahead(uint64_t kib, Workload workload) {
  const auto low = static_cast<uint64_t>(threshold("read-ahead", "sequential_min"));
  const auto high = static_cast<uint64_t>(threshold("read-ahead", "sequential_max"));
  const auto random = static_cast<uint64_t>(threshold("read-ahead", "random_max"));
  if (workload == Workload::kImages || workload == Workload::kEmbeddings) {
    return {kib > random ? Severity::kWarn : Severity::kOk, random, "too much for random reads"};
  }
  if (workload == Workload::kAny) {
    if (kib <= random)
      return {Severity::kInfo, high, "right for random reads, too little for sequential shards"};
    if (kib < low) return {Severity::kInfo, high, "too little for sequential shards"};
    return {kib > high ? Severity::kInfo : Severity::kOk, high,
            "more than sequential shards need, and random reads pay for it"};
  }
  return {kib < low ? Severity::kWarn : Severity::kOk, high, "too little for sequential reads"};
}

std::string observed_read_ahead(uint64_t kib, const ReadAheadVerdict& verdict) {
  std::string observed = format_size(std::min(kib, UINT64_MAX / kKiB) * kKiB);
  if (verdict.severity != Severity::kOk) observed += fmt::format(": {}", verdict.note);
  return observed;
}

void check_nfs_read_ahead(const Machine& machine, const Mount& mount, const DoctorOptions& options,
                          Findings& findings) {
  const std::string bdi = fmt::format("{}:{}", mount.major, mount.minor);
  const auto kib = machine.read_number("/sys/class/bdi/" + bdi + "/read_ahead_kb");
  const ReadAheadVerdict verdict = judge_read_ahead(kib.value_or(0), options.workload);
  if (!kib) {
    findings.push_back(make_unknown("nfs-read-ahead", mount.point, "no /sys/class/bdi/" + bdi));
    return;
  }
  Finding finding = make_finding("nfs-read-ahead", verdict.severity, mount.point,
                                 observed_read_ahead(*kib, verdict),
                                 {{"bdi", bdi}, {"kib", std::to_string(verdict.wanted_kib)}});
  if (verdict.severity != Severity::kOk)
    finding.config.push_back(
        {"/etc/nfs.conf",
         fmt::format("in the section [nfsrahead]: {}={}", mount.type, verdict.wanted_kib), "",
         true});
  findings.push_back(std::move(finding));
}

const CloudDisk* find_cloud_disk(const BlockDevice& disk) {
  for (const CloudDisk& known : cloud_disks()) {
    if (disk.vendor.starts_with(known.vendor) && disk.model.starts_with(known.model)) return &known;
  }
  return nullptr;
}

// EBS volumes carry their id as the serial number, without its dash.
void add_ebs_commands(const BlockDevice& disk, Finding& finding) {
  if (!disk.serial.starts_with("vol") || disk.serial.size() < 4) return;
  const size_t id = disk.serial[3] == '-' ? 4 : 3;
  const std::string volume = shell_quote("vol-" + disk.serial.substr(id));
  finding.look.push_back("aws ec2 describe-volumes --volume-ids " + volume);
  finding.commands.push_back("aws ec2 modify-volume --volume-id " + volume +
                             " --volume-type gp3 --iops 16000 --throughput 1000");
}

struct Link {
  double speed_gt = 0;
  uint64_t lanes = 0;
  double rate() const { return link_bytes_per_second(speed_gt, lanes); }
  std::string text() const {
    return fmt::format("x{} at {} GT/s ({})", lanes, speed_gt, format_rate(rate()));
  }
};

std::optional<Link> read_link(const Machine& machine, const std::string& directory,
                              const std::string& which) {
  const auto speed =
      parse_link_speed_gt(machine.read_or(directory + "/" + which + "_link_speed", ""));
  const auto lanes = machine.read_number(directory + "/" + which + "_link_width");
  if (!speed || !lanes || *lanes == 0 || *lanes > 64) return std::nullopt;
  return Link{*speed, *lanes};
}

Finding judge_link(const Machine& machine, const NvmeController& controller) {
  const auto now = read_link(machine, controller.link_directory, "current");
  const auto best = read_link(machine, controller.link_directory, "max");
  if (!now || !best)
    return make_unknown("nvme-link", controller.name, "its PCI device does not tell its link");
  const bool slow = now->rate() < 0.99 * best->rate();
  std::string observed = slow ? now->text() + "; the drive can do " + best->text() : now->text();
  // The port above shows whether the slot is what limits it.
  const std::string port =
      controller.link_directory.substr(0, controller.link_directory.rfind('/'));
  const auto slot = read_link(machine, port, "max");
  if (slow && slot && slot->rate() < 0.99 * best->rate())
    observed += ", its slot only " + slot->text();
  return make_finding("nvme-link", slow ? Severity::kWarn : Severity::kOk, controller.name,
                      observed, {{"pci", controller.pci}});
}

Finding judge_wear(const std::string& controller, const NvmeHealth& health) {
  const auto used = static_cast<double>(health.percentage_used);
  Severity severity = Severity::kOk;
  std::string observed = fmt::format("{} % of its rated endurance used, {} written",
                                     health.percentage_used, format_size(health.written_bytes));
  if (used >= threshold("drive-wear", "warn")) severity = Severity::kWarn;
  if (health.spare_percent < health.spare_threshold_percent) {
    severity = Severity::kError;
    observed += fmt::format(", {} % spare left", health.spare_percent);
  }
  if (used >= threshold("drive-wear", "error")) severity = Severity::kError;
  if (health.critical_warning != 0) {
    severity = Severity::kError;
    observed += fmt::format(", the drive warns (0x{:02x})", health.critical_warning);
  }
  return make_finding("drive-wear", severity, controller, observed, {{"controller", controller}});
}

void add_raid0(const Machine& machine, const DoctorOptions& options, const std::string& subject,
               const std::optional<BlockDevice>& device, Findings& findings) {
  if (!device || device->raid_level != "raid0") return;
  findings.push_back(make_finding(
      "raid0", options.writes_checkpoints() ? Severity::kWarn : Severity::kInfo, subject,
      fmt::format("{} stripes over {} drives", device->name,
                  disks_under(machine, *device).size())));
}

// Where the device, or the partition, that a path names is mounted; empty when nowhere.
std::string mount_point_of(const Machine& machine, const std::string& path) {
  const std::string number = machine.read_or("/sys/class/block/" + path.substr(5) + "/dev", "");
  for (const Mount& mount : machine.mounts()) {
    if (mount.source == path || fmt::format("{}:{}", mount.major, mount.minor) == number)
      return mount.point;
  }
  return "";
}

}  // namespace

Findings check_block_device(const Machine& machine, const DoctorOptions& options) {
  Findings findings;
  for (const std::string& path : options.paths) {
    if (!device_at(machine, path)) continue;
    const std::string point = mount_point_of(machine, path);
    findings.push_back(make_finding("block-device", Severity::kInfo, path,
                                    point.empty() ? "not mounted" : "mounted at " + point));
  }
  return findings;
}

Findings check_scheduler(const Machine& machine, const DoctorOptions& options) {
  Findings findings;
  for (const BlockDevice& disk : disks_to_check(machine, options)) {
    if (!schedules_itself(disk)) continue;
    const Result<std::string> text = machine.read("/sys/block/" + disk.name + "/queue/scheduler");
    const std::string active = text ? parse_scheduler(*text) : "";
    if (active.empty()) {
      findings.push_back(make_unknown("scheduler", disk.name,
                                      text ? "no scheduler is marked" : text.error().detail));
      continue;
    }
    const bool good = active == "none" || active == "mq-deadline";
    const bool bad = active == "bfq" || active == "cfq";
    findings.push_back(make_finding(
        "scheduler", good ? Severity::kOk : (bad ? Severity::kWarn : Severity::kInfo), disk.name,
        good ? active : active + "; none or mq-deadline is right here", {{"device", disk.name}}));
  }
  return findings;
}

Findings check_read_ahead(const Machine& machine, const DoctorOptions& options) {
  Findings findings;
  for (const Mount* mount : mounts_of(machine, options)) {
    if (is_nfs(*mount)) check_nfs_read_ahead(machine, *mount, options, findings);
  }
  // Of an array, its own setting counts, not its members'.
  for (const BlockDevice& device : devices_of(machine, options)) {
    const auto kib = machine.read_number("/sys/block/" + device.name + "/queue/read_ahead_kb");
    if (!kib) {
      findings.push_back(make_unknown("read-ahead", device.name, "no queue/read_ahead_kb"));
      continue;
    }
    const ReadAheadVerdict verdict = judge_read_ahead(*kib, options.workload);
    findings.push_back(make_finding("read-ahead", verdict.severity, device.name,
                                    observed_read_ahead(*kib, verdict),
                                    {{"device", device.name},
                                     {"kib", std::to_string(verdict.wanted_kib)},
                                     {"sectors", std::to_string(verdict.wanted_kib * 2)}}));
  }
  return findings;
}

Findings check_cloud_disk(const Machine& machine, const DoctorOptions& options) {
  Findings findings;
  for (const BlockDevice& disk : disks_of(machine, options)) {
    if (const CloudDisk* cloud = find_cloud_disk(disk)) {
      Finding finding =
          make_finding("cloud-disk", Severity::kInfo, disk.name, std::string(cloud->name));
      add_ebs_commands(disk, finding);
      findings.push_back(std::move(finding));
    } else if (disk.kind == DeviceKind::kVirtio) {
      findings.push_back(make_unknown("cloud-disk", disk.name,
                                      "a virtual disk does not tell what the host has behind it; "
                                      "measure it with penstock bench"));
    }
  }
  return findings;
}

Findings check_slow_device(const Machine& machine, const DoctorOptions& options) {
  Findings findings;
  for (const BlockDevice& disk : disks_of(machine, options)) {
    if (disk.kind != DeviceKind::kScsi || find_cloud_disk(disk) != nullptr) continue;
    if (disk.rotational) {
      findings.push_back(
          make_finding("slow-device", Severity::kWarn, disk.name, "a hard disk " + disk.model));
    } else if (disk.vendor == "ATA") {
      findings.push_back(
          make_finding("slow-device", Severity::kInfo, disk.name, "a SATA SSD " + disk.model));
    }
  }
  return findings;
}

Findings check_nvme_link(const Machine& machine, const DoctorOptions&) {
  Findings findings;
  for (const NvmeController& controller : nvme_controllers(machine)) {
    if (!controller.link_directory.empty()) findings.push_back(judge_link(machine, controller));
  }
  return findings;
}

Findings check_raid(const Machine& machine, const DoctorOptions& options) {
  Findings findings;
  for (const MdArray& array : parse_mdstat(machine.read_or("/proc/mdstat", ""))) {
    if (array.drives_present < array.drives_wanted)
      findings.push_back(make_finding("raid-degraded", Severity::kError, array.name,
                                      fmt::format("{}, {} of {} drives", array.level,
                                                  array.drives_present, array.drives_wanted),
                                      {{"array", array.name}}));
  }
  for (const Mount* mount : mounts_of(machine, options))
    add_raid0(machine, options, mount->point, device_of(machine, *mount), findings);
  for (const std::string& path : options.paths)
    add_raid0(machine, options, path, device_at(machine, path), findings);
  return findings;
}

Findings check_drive_wear(const Machine& machine, const DoctorOptions&) {
  Findings findings;
  for (const NvmeController& controller : nvme_controllers(machine)) {
    const Result<NvmeHealth> health = machine.facts().nvme_health(controller.name);
    if (health) {
      findings.push_back(judge_wear(controller.name, *health));
    } else {
      findings.push_back(make_unknown(
          "drive-wear", controller.name,
          health.error().code == ErrorCode::kPermission ? "needs root" : health.error().detail));
    }
  }
  return findings;
}

}  // namespace penstock::tune::doctor
