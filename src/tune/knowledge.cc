#include "tune/knowledge.h"

#include <fmt/core.h>

#include <array>
#include <cstdio>
#include <cstdlib>

namespace penstock::tune {

namespace {

constexpr std::string_view kUdevRules = "/etc/udev/rules.d/60-penstock.rules";
constexpr std::string_view kSysctl = "/etc/sysctl.d/60-penstock.conf";
constexpr std::string_view kLimits = "/etc/security/limits.d/60-penstock.conf";

std::vector<Rule> mount_rules() {
  return {
      {.id = "shut-down",
       .title = "File system stopped by the kernel",
       .why = "After an error the kernel stopped this file system to save what is on the drive: "
              "writes fail, and what was not on the drive yet is lost.",
       .advice = "Stop what uses it and look why in the kernel's log: a drive that fails does it "
                 "again. Then unmount, repair and mount again.",
       .look = {"dmesg | grep -iE 'ext4|xfs|btrfs|f2fs|I/O error'", "fuser -vm {mount}"}},
      {.id = "read-only",
       .title = "Read-only mount",
       .why = "Nothing can be written here: reading data is fine, saving a checkpoint fails.",
       .advice = "Write elsewhere, or mount it writable. In a container: a volume without :ro "
                 "(readOnly of the pod). If nobody asked for it, look in the kernel's log first.",
       .commands = {"mount -o remount,rw {mount}"},
       .look = {"dmesg | grep -i 'read-only'"}},
      {.id = "block-device",
       .title = "A device, not a file system",
       .why = "The path names a drive itself: the drive was looked at, and nothing that depends "
              "on a file system, such as mount options and free space.",
       .advice = "Give the directory where it is mounted to have its file system looked at too."},
      {.id = "atime",
       .title = "Access times",
       .why = "Without noatime or relatime every read also writes the time of the read, so a data "
              "set that is only read keeps its drive busy with writes.",
       .commands = {"mount -o remount,noatime {mount}"}},
      {.id = "write-barrier",
       .title = "Write barriers",
       .why = "With barriers off the drive may reorder writes across fsync: after a power cut a "
              "checkpoint that was reported durable, or the whole file system, can be gone.",
       .commands = {"mount -o remount,{barrier_on} {mount}"}},
      {.id = "ext4-data-mode",
       .title = "ext4 journal mode",
       .why = "data=writeback lets a file's new length reach the disk before its bytes: after a "
              "crash files can hold what other, deleted files held.",
       .advice = "The mode cannot be changed by a remount: edit /etc/fstab, then unmount and mount "
                 "(or reboot)."},
      {.id = "ext4-commit",
       .title = "ext4 commit interval",
       .thresholds = {{"max", 60, "s"}},
       .why =
           "commit= is how many seconds of writes that nobody fsynced a crash may take; up to 60 "
           "is fine for data, more buys nothing.",
       .commands = {"mount -o remount,commit=60 {mount}"}},
      {.id = "xfs-options",
       .title = "XFS mount options",
       .thresholds = {{"logbsize", 262144, "bytes"}},
       .why =
           "A 256 KiB log buffer lets parallel writers and file creation batch their journal "
           "writes; largeio makes programs ask for whole stripes; inode64 spreads inodes over the "
           "whole device.",
       .advice = "These are taken at mount time only: edit /etc/fstab, then unmount and mount (or "
                 "reboot)."},
      {.id = "xfs-geometry",
       .title = "XFS on RAID",
       .thresholds = {{"stripe_unit", 262144, "bytes"}},
       .why =
           "XFS does not know the array's stripe, so large writes are not aligned to it and split "
           "over the drives unevenly.",
       .advice = "Best given when the file system is made: mkfs.xfs -d su={su},sw={drives}. An "
                 "existing one takes it as mount options, from the next mount on."},
      {.id = "xfs-preferred",
       .title = "File system for large checkpoints",
       .thresholds = {{"checkpoint", 10e9, "bytes"}},
       .why = "For checkpoints above 10 GB, parallel writers and huge directories XFS allocates in "
              "larger extents and locks less than ext4.",
       .advice = "When this drive is next set up, make it XFS: mkfs.xfs, then mount with "
                 "noatime,logbsize=256k,largeio,inode64."},
      {.id = "zfs-compression",
       .title = "ZFS compression",
       .why = "lz4 shrinks weights and tokens 1.3 to 2 times at more than drive speed: with it off "
              "the same drives deliver less.",
       .commands = {"zfs set compression=lz4 {dataset}"}},
      {.id = "zfs-recordsize",
       .title = "ZFS record size",
       .thresholds = {{"shards", 1048576, "bytes"}},
       .why = "Shards and checkpoints are read and written in megabytes; small records cost a "
              "checksum, a lookup and an I/O each. Applies to files written from now on.",
       .commands = {"zfs set recordsize=1M {dataset}"}},
      {.id = "zfs-atime",
       .title = "ZFS access times",
       .why = "With atime on and relatime off every read also writes the time of the read.",
       .commands = {"zfs set atime=off {dataset}"}},
      {.id = "tmpfs",
       .title = "Memory file system",
       .why = "tmpfs is RAM: gone at reboot, and what lies there is taken from the page cache and "
              "from training. Good for scratch, never for the only copy of anything."},
      {.id = "fuse",
       .title = "FUSE file system",
       .why = "Every open, stat and read passes through a user-space program: small files cost a "
              "round trip each, and GPUDirect Storage falls back to a bounce buffer.",
       .advice = "Read large shards rather than small files from it, or copy the data to a local "
                 "drive first."},
      {.id = "overlayfs",
       .title = "Container layer",
       .why =
           "The path lies in the container's own writable layer: the first write to a file copies "
           "it whole, everything is gone with the container, and it fills the host's system disk.",
       .advice =
           "Give the container a real directory: docker run -v /host/dir:{path} …, or a volume "
           "of the pod."},
  };
}

std::vector<Rule> network_rules() {
  return {
      {.id = "nfs-options",
       .title = "NFS mount options",
       .thresholds = {{"transfer", 1048576, "bytes"},
                      {"attribute_cache", 60, "s"},
                      {"connections", 8, ""}},
       .why = "Each open or stat is a round trip of 0.5 to 2 ms and each read at most rsize: large "
              "transfers, cached attributes and several connections are worth a factor. A soft "
              "mount turns a slow server into failed reads and torn writes.",
       .commands = {"umount {mount} && mount -t {type} -o {options} {source} {mount}"}},
      {.id = "nfs-checkpoints",
       .title = "Checkpoints over NFS",
       .why =
           "For other clients a rename is not always atomic and attributes are cached; with async "
           "in the server's exports an fsync that returned is not on disk yet.",
       .advice = "Readers must verify a checkpoint, not trust its name. On the server: sync in "
                 "/etc/exports, and keep a second copy elsewhere.",
       .look = {"grep -n async /etc/exports   # on the server"}},
      {.id = "nfs-scale",
       .title = "NFS and data size",
       .thresholds = {{"dataset", 100e9, "bytes"}},
       .why =
           "One NFS server is fine up to about 100 GB and 8 nodes: a client gets 200 to 500 MB/s, "
           "and all of them share the server.",
       .advice = "Copy the data to local NVMe before training, or use a parallel file system or "
                 "object storage with a cache."},
      {.id = "lustre-stripes",
       .title = "Lustre striping",
       .thresholds = {{"checkpoint_count", 4, ""},
                      {"checkpoint_size", 1048576, "bytes"},
                      {"min_size", 1048576, "bytes"},
                      {"max_size", 4194304, "bytes"}},
       .why =
           "One stripe puts a whole file on one storage target: every reader of it gets that one "
           "target's speed. Striping is fixed when a file is made, so set it on the directory "
           "first; files that exist keep theirs until they are copied.",
       .commands = {"lfs setstripe -c {count} -S {size} {path}"},
       .look = {"lfs getstripe -d {path}", "lfs df -h {path}"}},
      {.id = "lustre-small-files",
       .title = "Small files on Lustre",
       .why =
           "Every open and stat goes to the metadata server: millions of small files make it, and "
           "every other job on it, slow.",
       .advice = "Pack them into shards of 100 MiB to 1 GiB."},
  };
}

std::vector<Rule> device_rules() {
  return {
      {.id = "scheduler",
       .title = "I/O scheduler",
       .why = "The drive schedules by itself, over many queues; bfq spends CPU and a lock on every "
              "request and caps the rate.",
       .commands = {"echo none > /sys/block/{device}/queue/scheduler"},
       .config =
           {{kUdevRules,
             "ACTION==\"add|change\", KERNEL==\"{device}\", ATTR{queue/scheduler}=\"none\""}}},
      {.id = "read-ahead",
       .title = "Read-ahead",
       .thresholds = {{"sequential_min", 2048, "KiB"},
                      {"sequential_max", 4096, "KiB"},
                      {"random_max", 128, "KiB"}},
       .why = "Too little starves the sequential reading of shards (the default, 128 KiB, leaves a "
              "fast drive idle between requests); too much makes random reads fetch what nobody "
              "asked for. Direct reads do not depend on it.",
       .commands = {"blockdev --setra {sectors} /dev/{device}"},
       .config = {{kUdevRules,
                   "ACTION==\"add|change\", KERNEL==\"{device}\", "
                   "ATTR{queue/read_ahead_kb}=\"{kib}\""}}},
      {.id = "nfs-read-ahead",
       .title = "Read-ahead of an NFS mount",
       .thresholds = {{"sequential_min", 2048, "KiB"}, {"sequential_max", 4096, "KiB"}},
       .why = "New kernels give an NFS mount 128 KiB of read-ahead whatever rsize is: a sequential "
              "reader then waits for the server at every request.",
       .commands = {"echo {kib} > /sys/class/bdi/{bdi}/read_ahead_kb"}},
      {.id = "cloud-disk",
       .title = "Network disk of a cloud",
       .why =
           "Disks that burst run on credit, which sustained training uses up in minutes to hours; "
           "then they fall to their baseline. What holds is provisioned throughput, or local NVMe.",
       .advice = "Look up what is provisioned, and measure for longer than the burst lasts."},
      {.id = "slow-device",
       .title = "Kind of drive",
       .why = "A hard disk seeks for 5 to 15 ms: 200 random reads/s, 1 to 5 MB/s of small files. "
              "SATA ends at 0.55 GB/s; an NVMe drive reads 7 GB/s and more.",
       .advice = "Keep the data in large shards read in order, or put it on NVMe."},
      {.id = "nvme-link",
       .title = "PCIe link of an NVMe drive",
       .why =
           "The drive and its slot agreed on less than the drive can do: every transfer is capped "
           "by it. x4 Gen4 carries 8 GB/s, Gen5 16; an x16 slot may be wired x8.",
       .advice =
           "Reseat the drive or its cable, try another slot, and look at bifurcation and link "
           "speed in the firmware settings.",
       .look = {"lspci -vv -s {pci} | grep -E 'LnkCap:|LnkSta:'"}},
      {.id = "raid0",
       .title = "RAID-0",
       .why =
           "Bandwidth adds up and so does the risk: one drive lost loses everything on the array.",
       .advice = "Good for caches and copies of data; never for the only copy of a checkpoint."},
      {.id = "raid-degraded",
       .title = "Degraded RAID",
       .why = "A drive is missing: reads are slower and the next failure loses the array.",
       .advice = "Replace the drive and add it: mdadm --add /dev/{array} /dev/NEW.",
       .look = {"mdadm --detail /dev/{array}"}},
      {.id = "drive-wear",
       .title = "Drive wear",
       .thresholds = {{"warn", 80, "%"}, {"error", 100, "%"}},
       .why = "Checkpoints wear flash out: the drive counts what was written against the endurance "
              "its maker rates (TBW). Past it writes slow down and then fail.",
       .advice = "Plan its replacement, and keep checkpoints in a second place.",
       .look = {"nvme smart-log /dev/{controller}"}},
      {.id = "inodes",
       .title = "Inodes",
       .thresholds = {{"warn", 80, "%"}, {"error", 95, "%"}},
       .why =
           "Millions of small files use up the inodes of a file system that still has space: then "
           "no file can be made any more.",
       .advice = "Pack small files into shards; the number of inodes is fixed when an ext4 file "
                 "system is made.",
       .look = {"du --inodes -x -d 2 {mount} | sort -n | tail"}},
      {.id = "free-space",
       .title = "Free space",
       .thresholds = {{"free", 10, "%"}, {"checkpoints", 2, ""}},
       .why = "A new checkpoint must be whole before the old one may go: without room for two the "
              "next "
              "save fails. Nearly full file systems and drives also write slower.",
       .advice = "Remove old checkpoints or caches, or use a larger drive.",
       .look = {"du -x -d 1 -h {mount} | sort -h | tail"}},
      {.id = "dataset-space",
       .title = "Room for the data set",
       .why = "A copy on a local drive is the simplest cache there is, if it fits.",
       .advice = "Keep the data elsewhere and cache here what fits."},
  };
}

std::vector<Rule> system_rules() {
  return {
      {.id = "dirty-pages",
       .title = "Unwritten pages in memory",
       .thresholds = {{"ratio", 5, "%"}, {"background_ratio", 2, "%"}, {"large", 10e9, "bytes"}},
       .why =
           "The defaults (20 and 10 % of memory) let many GB sit unwritten, then write them in a "
           "burst that stalls everybody; a crash loses them. Raising the limit so that a "
           "checkpoint fits only hides that. Penstock's direct writes do not depend on it.",
       .commands = {"sysctl -w vm.dirty_ratio=5 vm.dirty_background_ratio=2"},
       .config = {{kSysctl, "vm.dirty_ratio = 5"}, {kSysctl, "vm.dirty_background_ratio = 2"}}},
      {.id = "writeback",
       .title = "Write-back",
       .thresholds = {{"samples", 5, ""}, {"interval", 100, "ms"}, {"large", 64e6, "bytes"}},
       .why =
           "Writeback in /proc/meminfo never came down to 0 while we looked: programs write faster "
           "than the storage takes it, and will soon be made to wait.",
       .advice = "Look again while training runs; find the device with iostat -x 1."},
      {.id = "page-cache",
       .title = "Data set and page cache",
       .thresholds = {{"usable", 80, "%"}},
       .why =
           "What fits in free memory is read from the drive in the first epoch only. What does not "
           "fit is read again every epoch, and reading it buffered evicts everybody else's pages.",
       .advice =
           "Keep the data on a drive that alone delivers the rate, or cache it there, and read "
           "it direct or uncached."},
      {.id = "cgroup-memory",
       .title = "Memory limit of the container",
       .why =
           "The page cache of this process counts against the limit, so less of the data stays in "
           "memory than the machine's RAM suggests, and pinned buffers can hit it.",
       .advice = "Raise it with docker run --memory …, or resources.limits.memory of the pod."},
      {.id = "cgroup-pids",
       .title = "Limit of threads",
       .thresholds = {{"min", 1024, ""}},
       .why = "Loader workers, their threads and those of the math libraries count; past the limit "
              "fork and thread creation fail in the middle of training.",
       .advice = "Raise it with docker run --pids-limit …, or TasksMax= of the service."},
      {.id = "memlock",
       .title = "Locked memory",
       .thresholds = {{"min", 1073741824, "bytes"}},
       .why = "Buffers registered with io_uring and memory pinned for GPUs and RDMA count against "
              "this limit; when it is low they are refused and every transfer costs a copy or a "
              "mapping more.",
       .advice = "Takes effect at the next login. Services: LimitMEMLOCK=infinity; containers: "
                 "docker run --ulimit memlock=-1.",
       .config = {{kLimits, "* - memlock unlimited"}}},
      {.id = "io-uring",
       .title = "io_uring",
       .why =
           "io_uring keeps a fast drive's queues full from one thread; without it Penstock falls "
           "back to a pool of threads, which costs CPU and part of the IOPS.",
       .advice = "In a container: a seccomp profile that allows io_uring_setup, io_uring_enter and "
                 "io_uring_register."},
      {.id = "numa",
       .title = "NUMA placement",
       .why = "Loader threads and pinned memory on another node than the GPU send every batch over "
              "the link between the sockets.",
       .advice = "Start the process that feeds the GPU on its node: numactl --cpunodebind={node} "
                 "--membind={node} COMMAND",
       .look = {"nvidia-smi topo -m"}},
      {.id = "gds",
       .title = "GPUDirect Storage",
       // The lowest PCI device id of the Volta generation; older ones are below.
       .thresholds = {{"volta_device_id", 0x1d81, ""}, {"p2pdma_kernel", 6.2, ""}},
       .why = "With GPUDirect Storage a drive writes into GPU memory itself; otherwise every byte "
              "takes a detour through a buffer in host memory, which still works.",
       .advice =
           "It takes a Volta or newer GPU, nvidia-fs (or kernel 6.2 with the open driver), and "
           "O_DIRECT on ext4 or XFS over NVMe, or the client of a supported remote file system.",
       .look = {"/usr/local/cuda/gds/tools/gdscheck -p"}},
  };
}

std::vector<Rule> make_rules() {
  std::vector<Rule> all = mount_rules();
  for (const std::vector<Rule>& part : {network_rules(), device_rules(), system_rules()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace

std::span<const Rule> rules() {
  static const std::vector<Rule> table = make_rules();
  return table;
}

const Rule& rule(std::string_view id) {
  for (const Rule& candidate : rules()) {
    if (candidate.id == id) return candidate;
  }
  fmt::print(stderr, "penstock: there is no rule '{}'\n", id);
  std::abort();
}

double threshold(std::string_view rule_id, std::string_view name) {
  for (const Threshold& candidate : rule(rule_id).thresholds) {
    if (candidate.name == name) return candidate.value;
  }
  fmt::print(stderr, "penstock: rule '{}' has no threshold '{}'\n", rule_id, name);
  std::abort();
}

std::span<const CloudDisk> cloud_disks() {
  static constexpr std::array<CloudDisk, 6> kDisks = {{
      {"", "Amazon Elastic Block Store", "Amazon EBS"},
      {"Google", "PersistentDisk", "Google Persistent Disk"},
      {"", "nvme_card-pd", "Google Persistent Disk"},
      {"Msft", "Virtual Disk", "Azure managed disk"},
      {"", "MSFT NVMe Accelerator", "Azure managed disk"},
      {"ORACLE", "BlockVolume", "Oracle block volume"},
  }};
  return kDisks;
}

std::span<const std::string_view> gds_block_file_systems() {
  static constexpr std::array<std::string_view, 2> kTypes = {"ext4", "xfs"};
  return kTypes;
}

std::span<const std::string_view> gds_remote_file_systems() {
  static constexpr std::array<std::string_view, 4> kTypes = {"beegfs", "wekafs", "gpfs", "lustre"};
  return kTypes;
}

}  // namespace penstock::tune
