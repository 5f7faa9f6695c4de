#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "tune/checks.h"

namespace penstock::tune::doctor {

namespace {

// What the kernel adds to a mount's options by itself, and mount(8) need not be told again.
bool is_told_by_kernel(std::string_view option) {
  constexpr std::array<std::string_view, 10> kKeys = {
      "addr",       "clientaddr", "mountaddr",  "mountport", "mountvers",
      "mountproto", "namlen",     "local_lock", "shutdown",  "emergency_ro"};
  return std::find(kKeys.begin(), kKeys.end(), option.substr(0, option.find('='))) != kKeys.end();
}

std::string kernel_options(const Mount& mount) {
  std::string list;
  for (size_t i = 0; i < mount.options.size(); ++i) {
    const std::string& option = mount.options[i];
    // The mount and its file system both say rw or ro.
    const bool repeated = std::find(mount.options.begin(), mount.options.begin() + i, option) !=
                          mount.options.begin() + i;
    if (!repeated && !is_told_by_kernel(option)) list += (list.empty() ? "" : ",") + option;
  }
  return list;
}

// The errors ext4 has counted since the file system was last checked.
uint64_t counted_errors(const Machine& machine, const Mount& mount) {
  const std::string directory =
      machine.resolve(fmt::format("/sys/dev/block/{}:{}", mount.major, mount.minor));
  if (mount.type != "ext4" || directory.empty()) return 0;
  const std::string name = directory.substr(directory.rfind('/') + 1);
  return machine.read_number("/sys/fs/ext4/" + name + "/errors_count").value_or(0);
}

void add_once(BlockDevice device, std::vector<BlockDevice>& devices) {
  const bool known = std::any_of(devices.begin(), devices.end(), [&](const BlockDevice& other) {
    return other.name == device.name;
  });
  if (!known) devices.push_back(std::move(device));
}

}  // namespace

std::vector<const Mount*> mounts_of(const Machine& machine, const DoctorOptions& options) {
  std::vector<const Mount*> mounts;
  for (const std::string& path : options.paths) {
    if (device_at(machine, path)) continue;
    const Mount* mount = find_mount(machine.mounts(), path);
    if (mount != nullptr && std::find(mounts.begin(), mounts.end(), mount) == mounts.end())
      mounts.push_back(mount);
  }
  return mounts;
}

std::vector<const Mount*> working_mounts_of(const Machine& machine, const DoctorOptions& options) {
  std::vector<const Mount*> mounts = mounts_of(machine, options);
  std::erase_if(mounts,
                [&](const Mount* mount) { return !stopped_by_kernel(machine, *mount).empty(); });
  return mounts;
}

std::string stopped_by_kernel(const Machine& machine, const Mount& mount) {
  if (mount.has_option("shutdown")) return "shut down (shutdown in its mount options)";
  if (mount.has_option("emergency_ro"))
    return "made read-only after an error (emergency_ro in its mount options)";
  if (!is_local(mount)) return "";
  // XFS does not tell it in its options; it refuses every call.
  const Result<io::SpaceInfo> space = machine.facts().space(mount.point);
  if (!space && space.error().os_errno == EIO)
    return "answers every call with an input/output error";
  // Whoever mounts or remounts it read-only sets both; the kernel, after an error, only the latter.
  if (!mount.mounted_read_only && mount.file_system_read_only)
    return "mounted writable, and read-only since, as the kernel makes it after an error";
  const uint64_t errors = mount.read_only() ? counted_errors(machine, mount) : 0;
  return errors == 0 ? "" : fmt::format("read-only, and ext4 has counted errors: {}", errors);
}

std::vector<BlockDevice> devices_of(const Machine& machine, const DoctorOptions& options) {
  std::vector<BlockDevice> devices;
  for (const std::string& path : options.paths) {
    auto device = device_at(machine, path);
    const Mount* mount = device ? nullptr : find_mount(machine.mounts(), path);
    if (mount != nullptr) device = device_of(machine, *mount);
    if (device) add_once(std::move(*device), devices);
  }
  return devices;
}

std::vector<BlockDevice> disks_of(const Machine& machine, const DoctorOptions& options) {
  std::vector<BlockDevice> disks;
  for (const BlockDevice& device : devices_of(machine, options)) {
    for (BlockDevice& disk : disks_under(machine, device)) add_once(std::move(disk), disks);
  }
  return disks;
}

bool is_nfs(const Mount& mount) {
  return mount.type == "nfs" || mount.type == "nfs4";
}

bool is_local(const Mount& mount) {
  constexpr std::array<std::string_view, 7> kTypes = {"ext2",  "ext3", "ext4",    "xfs",
                                                      "btrfs", "f2fs", "bcachefs"};
  return std::find(kTypes.begin(), kTypes.end(), mount.type) != kTypes.end();
}

std::optional<FstabEntry> fstab_entry(const Machine& machine, const Mount& mount) {
  for (FstabEntry& entry : parse_fstab(machine.read_or("/etc/fstab", ""))) {
    if (entry.point == mount.point) return std::move(entry);
  }
  return std::nullopt;
}

ConfigLine fstab_line(const Machine& machine, const Mount& mount,
                      const std::vector<std::string>& additions) {
  ConfigLine config{"/etc/fstab", "", "", true, mount.point, additions};
  const auto entry = fstab_entry(machine, mount);
  const std::string source = octal_escape(entry ? entry->source : mount.source);
  const std::string type = entry ? entry->type : octal_escape(mount.type);
  std::string rest = entry ? entry->dump_and_pass : is_local(mount) ? "0 2" : "0 0";
  if (!rest.empty()) rest.insert(0, " ");
  if (entry) config.replaces = entry->line;
  config.line = source + " " + octal_escape(mount.point) + " " + type + " " +
                mount_options(machine, mount, additions) + rest;
  return config;
}

std::string mount_options(const Machine& machine, const Mount& mount,
                          const std::vector<std::string>& additions) {
  const auto entry = fstab_entry(machine, mount);
  return merge_options(entry ? entry->options : octal_escape(kernel_options(mount)), additions);
}

}  // namespace penstock::tune::doctor
