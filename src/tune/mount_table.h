// The kernel's mount table (/proc/self/mountinfo) and the administrator's (/etc/fstab).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::tune::doctor {

struct Mount {
  uint64_t id = 0;
  uint32_t major = 0;  // 0 where no block device stands behind: NFS, tmpfs, overlay, btrfs.
  uint32_t minor = 0;
  std::string point;
  std::string type;    // "ext4", "nfs4", "fuse.sshfs"
  std::string source;  // "/dev/nvme0n1p2", "server:/export", "tank/data"
  // Of the mount and of its file system, as the kernel prints them ("noatime", "rsize=1048576").
  std::vector<std::string> options;
  bool mounted_read_only = false;      // Asked for when it was mounted.
  bool file_system_read_only = false;  // The file system's own state: the kernel may have set it.

  bool read_only() const { return mounted_read_only || file_system_read_only; }
  bool has_option(std::string_view option) const;
  // What stands after "KEY="; nothing when there is no such option.
  std::optional<std::string_view> option_value(std::string_view key) const;
  std::optional<uint64_t> option_number(std::string_view key) const;
};

// Lines that are not mounts are left out.
std::vector<Mount> parse_mountinfo(std::string_view text);

// The mount that holds the absolute path: the longest mount point above it, of equal ones the last,
// which covers the others. Null when there is none.
const Mount* find_mount(const std::vector<Mount>& mounts, std::string_view path);

struct FstabEntry {
  std::string line;  // As it stands there.
  std::string source;
  std::string point;
  std::string type;
  std::string options;
  std::string dump_and_pass;  // "0 2", as it stands there; may be empty.
};
std::vector<FstabEntry> parse_fstab(std::string_view text);

// The comma-separated list `options` with `additions` set: an addition replaces what has the same
// key or contradicts it (noatime and relatime, hard and soft, barrier=1 and nobarrier), in
// `options` and among the additions before it. "defaults" goes when anything else is there.
std::string merge_options(std::string_view options, const std::vector<std::string>& additions);

}  // namespace penstock::tune::doctor
