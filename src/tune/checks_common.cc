#include <algorithm>
#include <array>

#include "tune/checks.h"

namespace penstock::tune::doctor {

namespace {

// What the kernel adds to a mount's options by itself, and mount(8) need not be told again.
bool is_told_by_kernel(std::string_view option) {
  constexpr std::array<std::string_view, 8> kKeys = {"addr",      "clientaddr", "mountaddr",
                                                     "mountport", "mountvers",  "mountproto",
                                                     "namlen",    "local_lock"};
  return std::find(kKeys.begin(), kKeys.end(), option.substr(0, option.find('='))) != kKeys.end();
}

std::optional<FstabEntry> fstab_entry(const Machine& machine, const Mount& mount) {
  for (FstabEntry& entry : parse_fstab(machine.read_or("/etc/fstab", ""))) {
    if (entry.point == mount.point) return std::move(entry);
  }
  return std::nullopt;
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

}  // namespace

std::vector<const Mount*> mounts_of(const Machine& machine, const DoctorOptions& options) {
  std::vector<const Mount*> mounts;
  for (const std::string& path : options.paths) {
    const Mount* mount = find_mount(machine.mounts(), path);
    if (mount != nullptr && std::find(mounts.begin(), mounts.end(), mount) == mounts.end())
      mounts.push_back(mount);
  }
  return mounts;
}

std::vector<BlockDevice> disks_of(const Machine& machine, const DoctorOptions& options) {
  std::vector<BlockDevice> disks;
  for (const Mount* mount : mounts_of(machine, options)) {
    const auto device = device_of(machine, *mount);
    if (!device) continue;
    for (BlockDevice& disk : disks_under(machine, *device)) {
      const bool known = std::any_of(disks.begin(), disks.end(), [&](const BlockDevice& other) {
        return other.name == disk.name;
      });
      if (!known) disks.push_back(std::move(disk));
    }
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
