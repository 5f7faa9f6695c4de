// penstock mount and umount: their parts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "penstock/cache.h"
#include "penstock/mount.h"
#include "penstock/volume.h"
#include "tune/mount_table.h"

namespace penstock::cli {

struct MountArguments {
  std::string name;
  std::string directory;
  std::vector<std::string> options;  // -o, as mount(8) and fstab write them.
  // What is shown.
  bool read_only = false;
  std::string at;
  // Speed.
  std::vector<std::string> cache_directories;
  std::string cache_quota;
  std::string memory;
  bool writeback = false;
  std::string writeback_max;
  std::string writeback_max_age;
  std::string io_timeout;
  bool gather_writes = false;
  // Who may do what, and what is recorded.
  bool noatime = false;
  bool relatime = false;
  bool strictatime = false;
  bool noexec = false;
  bool nosuid = false;
  bool nodev = false;
  bool acl = false;
  bool no_allow_other = false;
  bool let_sleep = false;
  std::string uid;
  std::string gid;
  // How it runs.
  bool foreground = false;
  std::string log_file;
  std::string metrics_file;
  std::string slow_request;
  bool json = false;
};

// All that was asked for, checked. A volume is not looked for yet.
struct MountPlan {
  volume::HostOptions host;
  mount::MountOptions mount;
  std::optional<cache::CacheOptions> cache;
  std::string metrics_file;  // Absolute; empty: none.
};

// mount_options.cc: kInvalid says which option is wrong, and how.
Result<void> take_mount_options(MountArguments& arguments);  // From -o.
Result<MountPlan> plan_mount(const MountArguments& arguments);

// mount_table.cc
inline constexpr const char* kMountType = "fuse.penstock";
std::vector<tune::doctor::Mount> penstock_mounts();
// Where the volume in this directory is mounted, by whoever owns it; nothing where that cannot be told.
std::optional<std::string> mount_of_host(const std::string& directory);
// An error of opening the host of a volume, with who has it, where that can be told.
Error explain_busy(const Error& error, const std::string& name, const std::string& host);
// Absolute, without links, even where the file system mounted there does not answer any more.
Result<std::string> mount_point_path(const std::string& directory);
// The last mount at exactly this path.
std::optional<tune::doctor::Mount> mount_at(const std::string& directory);
// "bash (pid 12), python3 (pid 34)": who has something open there, as far as can be seen.
std::string users_of(const std::string& directory);

// The volume is shown elsewhere, and only once.
Error mounted_elsewhere(const std::string& name, const std::string& directory);
Error mounted_already(const tune::doctor::Mount& mount);

// mount_point.cc: whether a volume can be mounted there. What a dead process left is removed first.
Result<void> check_mount_point(const std::string& directory);
// What programs wrote goes from the kernel to the process that serves the mount.
Result<void> send_pages(const std::string& directory);
// With the flags of umount2(); who is not root has fusermount3 do it. kBusy says who uses it.
Result<void> unmount_directory(const std::string& directory, int flags);
Error busy_mount(const std::string& directory);

// mount_helper.cc: the arguments of `penstock` for a call by mount(8): as mount.penstock or
// mount.fuse.penstock, or by mount.fuse3 as `penstock NAME DIR -o ...`. Nothing when it is no such
// call.
std::optional<std::vector<std::string>> mount_call(const std::vector<std::string>& words,
                                                   bool first_is_command);

}  // namespace penstock::cli
