// What the paths' file systems are, and how they were mounted.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "penstock/units.h"
#include "tune/checks.h"
#include "tune/knowledge.h"

namespace penstock::tune::doctor {

namespace {

void add_zfs_property(const Machine& machine, const Mount& mount, std::string_view rule_id,
                      const std::string& property, Findings& findings,
                      Severity (*judge)(std::string_view value, const DoctorOptions& options),
                      const DoctorOptions& options) {
  const Result<std::string> answer = machine.facts().zfs_property(mount.source, property);
  if (!answer) {
    findings.push_back(make_unknown(rule_id, mount.source, answer.error().detail));
    return;
  }
  const std::string value(trim(*answer));
  findings.push_back(make_finding(rule_id, judge(value, options), mount.source,
                                  property + "=" + value, {{"dataset", mount.source}}));
}

Severity judge_compression(std::string_view value, const DoctorOptions&) {
  return value == "off" ? Severity::kWarn : Severity::kOk;
}

Severity judge_record_size(std::string_view value, const DoctorOptions& options) {
  if (options.workload == Workload::kImages || options.workload == Workload::kEmbeddings)
    return Severity::kOk;
  const auto bytes = parse_u64(value);
  if (!bytes) return Severity::kUnknown;
  if (static_cast<double>(*bytes) >= threshold("zfs-recordsize", "shards")) return Severity::kOk;
  return options.workload == Workload::kAny ? Severity::kInfo : Severity::kWarn;
}

// "256k" or a number of bytes, as XFS prints it.
uint64_t parse_log_buffer(std::string_view text) {
  const bool kib = text.ends_with("k");
  return parse_u64(kib ? text.substr(0, text.size() - 1) : text).value_or(0) * (kib ? kKiB : 1);
}

void check_xfs_options(const Machine& machine, const Mount& mount, Findings& findings) {
  std::vector<std::string> missing;
  const double wanted = threshold("xfs-options", "logbsize");
  const uint64_t log_buffer = parse_log_buffer(mount.option_value("logbsize").value_or("32k"));
  if (static_cast<double>(log_buffer) < wanted) missing.push_back("logbsize=256k");
  if (!mount.has_option("largeio")) missing.push_back("largeio");
  if (mount.has_option("inode32")) missing.push_back("inode64");
  if (missing.empty()) {
    findings.push_back(make_finding("xfs-options", Severity::kOk, mount.point,
                                    "logbsize, largeio and inode64 are set"));
    return;
  }
  Finding finding = make_finding("xfs-options", Severity::kInfo, mount.point,
                                 "mounted without " + merge_options("", missing));
  finding.config.push_back(fstab_line(machine, mount, missing));
  findings.push_back(std::move(finding));
}

void check_xfs_geometry(const Machine& machine, const Mount& mount, Findings& findings) {
  const auto device = device_of(machine, mount);
  if (!device || device->raid_level != "raid0") return;
  const uint64_t drives = disks_under(machine, *device).size();
  if (mount.option_number("sunit").value_or(0) > 0) {
    findings.push_back(make_finding("xfs-geometry", Severity::kOk, mount.point,
                                    "knows the stripe of " + device->name));
    return;
  }
  const auto default_unit = static_cast<uint64_t>(threshold("xfs-geometry", "stripe_unit"));
  uint64_t unit =
      machine.read_number("/sys/block/" + device->name + "/md/chunk_size").value_or(default_unit);
  if (unit < 512 || unit > kGiB) unit = default_unit;
  Finding finding =
      make_finding("xfs-geometry", Severity::kWarn, mount.point,
                   fmt::format("made without the stripe of {} ({} drives, {} each)", device->name,
                               drives, format_size(unit)),
                   {{"su", fmt::format("{}k", unit / kKiB)}, {"drives", std::to_string(drives)}});
  // As mount options the geometry counts in sectors of 512 bytes.
  finding.config.push_back(fstab_line(
      machine, mount,
      {fmt::format("sunit={}", unit / 512), fmt::format("swidth={}", unit / 512 * drives)}));
  findings.push_back(std::move(finding));
}

// What checks and repairs the file system, once nobody uses it.
std::string repair_command(const Mount& mount) {
  const std::string device = shell_quote(mount.source);
  // 1 means that all errors were put right.
  if (mount.type.starts_with("ext")) return "e2fsck -f " + device + " || [ $? -eq 1 ]";
  if (mount.type == "xfs") return "xfs_repair " + device;
  // What repairs btrfs can also harm it: this one only looks.
  if (mount.type == "btrfs") return "btrfs check " + device;
  return "fsck -t " + shell_quote(mount.type) + " " + device;
}

std::string mount_command(const Machine& machine, const Mount& mount) {
  const std::string point = shell_quote(mount.point);
  if (fstab_entry(machine, mount)) return "mount " + point;
  return fmt::format("mount -t {} -o {} {} {}", shell_quote(mount.type),
                     shell_quote(mount_options(machine, mount, {"rw"})), shell_quote(mount.source),
                     point);
}

std::vector<std::string> revival_commands(const Machine& machine, const Mount& mount) {
  const std::string unmount = "umount " + shell_quote(mount.point);
  const std::string mount_again = mount_command(machine, mount);
  std::vector<std::string> commands = {unmount};
  // xfs_repair wants the log written back first, which mounting does.
  if (mount.type == "xfs") commands.push_back(mount_again + " && " + unmount);
  commands.push_back(repair_command(mount));
  commands.push_back(mount_again);
  return commands;
}

// Images that are made once and never written.
bool is_image(const Mount& mount) {
  constexpr std::array<std::string_view, 5> kTypes = {"squashfs", "erofs", "iso9660", "cramfs",
                                                      "romfs"};
  return std::find(kTypes.begin(), kTypes.end(), mount.type) != kTypes.end();
}

bool fstab_says_read_only(const Machine& machine, const Mount& mount) {
  const auto entry = fstab_entry(machine, mount);
  if (!entry) return false;
  const std::vector<std::string_view> options = split(entry->options, ',');
  return std::find(options.begin(), options.end(), "ro") != options.end();
}

}  // namespace

Findings check_shut_down(const Machine& machine, const DoctorOptions& options) {
  Findings findings;
  for (const Mount* mount : mounts_of(machine, options)) {
    const std::string sign = stopped_by_kernel(machine, *mount);
    if (sign.empty()) continue;
    Finding finding =
        make_finding("shut-down", Severity::kError, mount->point, sign, {{"mount", mount->point}});
    if (mount->point == "/") {
      finding.advice =
          "The system runs from it: look why in the kernel's log, then reboot into a rescue "
          "system and repair it there: " +
          repair_command(*mount);
    } else {
      finding.commands = revival_commands(machine, *mount);
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

Findings check_read_only(const Machine& machine, const DoctorOptions& options) {
  Findings findings;
  const Severity severity = options.writes_checkpoints() ? Severity::kError : Severity::kInfo;
  for (const Mount* mount : working_mounts_of(machine, options)) {
    if (!mount->read_only()) continue;
    Finding finding = make_finding("read-only", severity, mount->point,
                                   options.writes_checkpoints()
                                       ? "checkpoints are to be written here, and cannot be"
                                       : "mounted read-only",
                                   {{"mount", mount->point}});
    if (is_image(*mount)) {
      finding.advice = mount->type + " is an image that is never written: write elsewhere.";
      finding.commands.clear();
    }
    if (fstab_says_read_only(machine, *mount))
      finding.config.push_back(fstab_line(machine, *mount, {"rw"}));
    findings.push_back(std::move(finding));
  }
  return findings;
}

Findings check_atime(const Machine& machine, const DoctorOptions& options) {
  Findings findings;
  for (const Mount* mount : working_mounts_of(machine, options)) {
    if (!is_local(*mount)) continue;
    const bool fine =
        mount->has_option("noatime") || mount->has_option("relatime") || mount->has_option("ro");
    const std::string observed = mount->has_option("noatime")    ? "noatime"
                                 : mount->has_option("relatime") ? "relatime"
                                 : fine                          ? "read-only"
                                        : "strictatime: every read is also a write";
    Finding finding = make_finding("atime", fine ? Severity::kOk : Severity::kWarn, mount->point,
                                   observed, {{"mount", mount->point}});
    if (!fine) finding.config.push_back(fstab_line(machine, *mount, {"noatime"}));
    findings.push_back(std::move(finding));
  }
  return findings;
}

Findings check_write_barrier(const Machine& machine, const DoctorOptions& options) {
  Findings findings;
  for (const Mount* mount : working_mounts_of(machine, options)) {
    if (!is_local(*mount)) continue;
    const bool off = mount->has_option("nobarrier") || mount->has_option("barrier=0");
    if (!off) {
      findings.push_back(make_finding("write-barrier", Severity::kOk, mount->point, "on"));
      continue;
    }
    const std::string on = mount->type.starts_with("ext") ? "barrier=1" : "barrier";
    Finding finding =
        make_finding("write-barrier", Severity::kError, mount->point, "mounted with barriers off",
                     {{"mount", mount->point}, {"barrier_on", on}});
    finding.config.push_back(fstab_line(machine, *mount, {on}));
    findings.push_back(std::move(finding));
  }
  return findings;
}

Findings check_ext4(const Machine& machine, const DoctorOptions& options) {
  Findings findings;
  for (const Mount* mount : working_mounts_of(machine, options)) {
    if (mount->type != "ext4" && mount->type != "ext3") continue;
    const bool unsafe = mount->option_value("data") == "writeback";
    Finding mode = make_finding("ext4-data-mode", unsafe ? Severity::kWarn : Severity::kOk,
                                mount->point, unsafe ? "data=writeback" : "data=ordered");
    if (unsafe) mode.config.push_back(fstab_line(machine, *mount, {"data=ordered"}));
    findings.push_back(std::move(mode));
    const auto commit = mount->option_number("commit");
    if (commit && static_cast<double>(*commit) > threshold("ext4-commit", "max")) {
      Finding interval = make_finding("ext4-commit", Severity::kInfo, mount->point,
                                      fmt::format("commit={}", *commit), {{"mount", mount->point}});
      interval.config.push_back(fstab_line(machine, *mount, {"commit=60"}));
      findings.push_back(std::move(interval));
    }
    if (static_cast<double>(options.checkpoint_bytes) > threshold("xfs-preferred", "checkpoint")) {
      findings.push_back(make_finding("xfs-preferred", Severity::kInfo, mount->point,
                                      fmt::format("{}, for checkpoints of {}", mount->type,
                                                  format_size(options.checkpoint_bytes))));
    }
  }
  return findings;
}

Findings check_xfs(const Machine& machine, const DoctorOptions& options) {
  Findings findings;
  for (const Mount* mount : working_mounts_of(machine, options)) {
    if (mount->type != "xfs") continue;
    check_xfs_options(machine, *mount, findings);
    check_xfs_geometry(machine, *mount, findings);
  }
  return findings;
}

Findings check_zfs(const Machine& machine, const DoctorOptions& options) {
  Findings findings;
  for (const Mount* mount : mounts_of(machine, options)) {
    if (mount->type != "zfs") continue;
    add_zfs_property(machine, *mount, "zfs-compression", "compression", findings, judge_compression,
                     options);
    add_zfs_property(machine, *mount, "zfs-recordsize", "recordsize", findings, judge_record_size,
                     options);
    const bool fine = mount->has_option("noatime") || mount->has_option("relatime");
    findings.push_back(make_finding("zfs-atime", fine ? Severity::kOk : Severity::kWarn,
                                    mount->source, fine ? "off or relative" : "atime=on",
                                    {{"dataset", mount->source}}));
  }
  return findings;
}

Findings check_tmpfs(const Machine& machine, const DoctorOptions& options) {
  Findings findings;
  for (const Mount* mount : mounts_of(machine, options)) {
    if (mount->type != "tmpfs" && mount->type != "ramfs") continue;
    findings.push_back(make_finding(
        "tmpfs", options.writes_checkpoints() ? Severity::kWarn : Severity::kInfo, mount->point,
        options.writes_checkpoints() ? "checkpoints here are lost at reboot"
                                     : mount->type + ": what is here is lost at reboot"));
  }
  return findings;
}

Findings check_fuse(const Machine& machine, const DoctorOptions& options) {
  Findings findings;
  for (const Mount* mount : mounts_of(machine, options)) {
    const bool fuse = mount->type == "fuse" || mount->type.starts_with("fuse.");
    if (!fuse || mount->type == "fuse.penstock") continue;
    findings.push_back(make_finding("fuse", Severity::kInfo, mount->point,
                                    mount->type + " (" + mount->source + ")"));
  }
  return findings;
}

Findings check_overlayfs(const Machine& machine, const DoctorOptions& options) {
  Findings findings;
  const bool serious = options.writes_checkpoints() || options.dataset_bytes != 0;
  for (const std::string& path : options.paths) {
    const Mount* mount = find_mount(machine.mounts(), path);
    if (mount == nullptr || mount->type != "overlay" || device_at(machine, path)) continue;
    findings.push_back(make_finding("overlayfs", serious ? Severity::kWarn : Severity::kInfo, path,
                                    "on overlayfs, mounted at " + mount->point, {{"path", path}}));
  }
  return findings;
}

}  // namespace penstock::tune::doctor
