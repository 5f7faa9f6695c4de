// The checks of `penstock doctor`, and what they share. Each looks at one thing and is silent where
// it does not apply.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tune/devices.h"
#include "tune/doctor.h"

namespace penstock::tune::doctor {

// On the paths' mounts.
Findings check_shut_down(const Machine& machine, const DoctorOptions& options);
Findings check_read_only(const Machine& machine, const DoctorOptions& options);
Findings check_atime(const Machine& machine, const DoctorOptions& options);
Findings check_write_barrier(const Machine& machine, const DoctorOptions& options);
Findings check_ext4(const Machine& machine, const DoctorOptions& options);
Findings check_xfs(const Machine& machine, const DoctorOptions& options);
Findings check_zfs(const Machine& machine, const DoctorOptions& options);
Findings check_tmpfs(const Machine& machine, const DoctorOptions& options);
Findings check_fuse(const Machine& machine, const DoctorOptions& options);
Findings check_overlayfs(const Machine& machine, const DoctorOptions& options);
Findings check_nfs(const Machine& machine, const DoctorOptions& options);
Findings check_lustre(const Machine& machine, const DoctorOptions& options);
Findings check_inodes(const Machine& machine, const DoctorOptions& options);
Findings check_free_space(const Machine& machine, const DoctorOptions& options);
Findings check_dataset_space(const Machine& machine, const DoctorOptions& options);

// On paths that name a drive.
Findings check_block_device(const Machine& machine, const DoctorOptions& options);

// On drives: those behind the paths, and every NVMe drive where that is cheap.
Findings check_scheduler(const Machine& machine, const DoctorOptions& options);
Findings check_read_ahead(const Machine& machine, const DoctorOptions& options);
Findings check_cloud_disk(const Machine& machine, const DoctorOptions& options);
Findings check_slow_device(const Machine& machine, const DoctorOptions& options);
Findings check_nvme_link(const Machine& machine, const DoctorOptions& options);
Findings check_raid(const Machine& machine, const DoctorOptions& options);
Findings check_drive_wear(const Machine& machine, const DoctorOptions& options);

// On the machine as a whole.
Findings check_dirty_pages(const Machine& machine, const DoctorOptions& options);
Findings check_writeback(const Machine& machine, const DoctorOptions& options);
Findings check_page_cache(const Machine& machine, const DoctorOptions& options);
Findings check_cgroup(const Machine& machine, const DoctorOptions& options);
Findings check_memlock(const Machine& machine, const DoctorOptions& options);
Findings check_io_uring(const Machine& machine, const DoctorOptions& options);
Findings check_numa(const Machine& machine, const DoctorOptions& options);
Findings check_gds(const Machine& machine, const DoctorOptions& options);

// The mounts of the paths, each once, in the order of the paths. A path that names a drive has
// none: what /dev is mounted on says nothing of it.
std::vector<const Mount*> mounts_of(const Machine& machine, const DoctorOptions& options);
// Those of them that the kernel has not stopped: what the others were mounted with, and the space
// they have, is of no use to anybody.
std::vector<const Mount*> working_mounts_of(const Machine& machine, const DoctorOptions& options);
// By what the kernel was seen to have stopped the file system; empty when it has not.
std::string stopped_by_kernel(const Machine& machine, const Mount& mount);
// The devices, arrays included, that the paths name or their mounts stand on, each once.
std::vector<BlockDevice> devices_of(const Machine& machine, const DoctorOptions& options);
// The drives under those, each once.
std::vector<BlockDevice> disks_of(const Machine& machine, const DoctorOptions& options);

bool is_nfs(const Mount& mount);
// A file system on a block device of this machine, where mount options are the local kernel's.
bool is_local(const Mount& mount);

// The mount's own line in fstab.
std::optional<FstabEntry> fstab_entry(const Machine& machine, const Mount& mount);
// The mount's fstab line with `additions` among its options: what to put there, and what it
// replaces.
ConfigLine fstab_line(const Machine& machine, const Mount& mount,
                      const std::vector<std::string>& additions);
// The options the mount was made with, from fstab or else from the kernel, with `additions`.
std::string mount_options(const Machine& machine, const Mount& mount,
                          const std::vector<std::string>& additions);

}  // namespace penstock::tune::doctor
