// One test per row of the table in knowledge.cc, named after its id: what is good, what is not, and
// the exact fix. EveryRowHasATest keeps it so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <set>
#include <sstream>

#include "tune/checks.h"
#include "tune/knowledge.h"
#include "tune/test_tree.h"

namespace penstock::tune::doctor {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Runs a check over the tree, and picks its finding on a rule.
class Rule : public testing::Test {
 protected:
  using CheckFunction = Findings (*)(const Machine&, const DoctorOptions&);

  Rule() { options.paths = {"/data"}; }

  Finding look(CheckFunction check, std::string_view id) {
    for (Finding& finding : check(tree.machine(), options)) {
      if (finding.id == id) return finding;
    }
    Finding none;
    none.id = "none";
    return none;
  }
  Severity severity(CheckFunction check, std::string_view id) {
    const Finding finding = look(check, id);
    EXPECT_EQ(finding.id, id);
    return finding.severity;
  }
  bool silent(CheckFunction check, std::string_view id) { return look(check, id).id == "none"; }

  // /data on the first drive, with the options given.
  void local(const std::string& type, const std::string& options_text,
             const std::string& super_options = "rw") {
    tree.nvme(0);
    tree.mount("259:0", "/data", options_text, type, "/dev/nvme0n1", super_options);
  }

  TestTree tree;
  DoctorOptions options;
};

// Takes a name as a test's from an id: "nvme-link" is NvmeLink.
std::string test_name(std::string_view id) {
  std::string name;
  bool upper = true;
  for (const char c : id) {
    if (c != '-')
      name += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    upper = c == '-';
  }
  return name;
}

TEST(Knowledge, EveryRowHasATest) {
  std::set<std::string> tests;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; std::string(suite.name()) == "Rule" && j < suite.total_test_count(); ++j)
      tests.insert(suite.GetTestInfo(j)->name());
  }
  for (const tune::Rule& row : rules()) EXPECT_THAT(tests, Contains(test_name(row.id)));
}

TEST(Knowledge, RowsAreComplete) {
  std::set<std::string_view> ids;
  for (const tune::Rule& row : rules()) {
    EXPECT_TRUE(ids.insert(row.id).second) << row.id << " is there twice";
    EXPECT_FALSE(row.title.empty()) << row.id;
    EXPECT_GT(row.why.size(), 40u) << row.id;
  }
}

TEST(Knowledge, EveryIdIsDocumented) {
  std::ifstream file(PENSTOCK_SOURCE_DIR "/docs/DOCTOR.md");
  std::stringstream text;
  text << file.rdbuf();
  for (const tune::Rule& row : rules())
    EXPECT_THAT(text.str(), HasSubstr("`" + std::string(row.id) + "`"));
}

TEST_F(Rule, ShutDown) {
  local("ext4", "rw,noatime", "rw,errors=remount-ro");
  tree.space("/data", kTiB, kTiB);
  options.dataset_bytes = kGiB;
  EXPECT_TRUE(silent(check_shut_down, "shut-down"));
  const auto remount = [&](const std::string& type, const std::string& mount_options,
                           const std::string& super_options) {
    tree.mount("259:0", "/data", mount_options, type, "/dev/nvme0n1", super_options);
  };
  for (const char* state : {"rw,shutdown", "rw,emergency_ro", "ro,errors=remount-ro"}) {
    remount("ext4", "rw,noatime", state);
    const Finding finding = look(check_shut_down, "shut-down");
    EXPECT_EQ(finding.severity, Severity::kError) << state;
    EXPECT_THAT(finding.commands, ElementsAre("umount /data", HasSubstr("e2fsck -f /dev/nvme0n1"),
                                              HasSubstr("mount -t ext4 -o noatime")))
        << state;
    EXPECT_THAT(finding.commands[2], HasSubstr("rw /dev/nvme0n1 /data")) << state;
    EXPECT_THAT(finding.commands[2], Not(HasSubstr("shutdown"))) << state;
    EXPECT_TRUE(silent(check_write_barrier, "write-barrier")) << state;
    EXPECT_TRUE(silent(check_free_space, "free-space")) << state;
    EXPECT_TRUE(silent(check_inodes, "inodes")) << state;
    EXPECT_TRUE(silent(check_dataset_space, "dataset-space")) << state;
    EXPECT_TRUE(silent(check_read_only, "read-only")) << state;
  }
  remount("ext4", "ro,noatime", "ro,errors=remount-ro");
  EXPECT_TRUE(silent(check_shut_down, "shut-down")) << "mounted so";
  tree.file("/sys/fs/ext4/nvme0n1/errors_count", "3\n");
  EXPECT_THAT(look(check_shut_down, "shut-down").observed, HasSubstr("errors: 3"));
  remount("squashfs", "rw", "ro");
  EXPECT_TRUE(silent(check_shut_down, "shut-down")) << "an image is never writable";
}

TEST_F(Rule, ShutDownXfsRefusesEveryCall) {
  tree.file("/etc/fstab", "UUID=ab /data xfs defaults 0 0\n");
  local("xfs", "rw,noatime", "rw");
  tree.facts().space = [](const std::string& path) -> Result<io::SpaceInfo> {
    return errno_error(EIO, "stat " + path);
  };
  const Finding finding = look(check_shut_down, "shut-down");
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding.commands, ElementsAre("umount /data", "mount /data && umount /data",
                                            "xfs_repair /dev/nvme0n1", "mount /data"));
  EXPECT_TRUE(silent(check_free_space, "free-space"));
}

TEST_F(Rule, ShutDownRootIsRepairedFromOutside) {
  tree.nvme(0);
  tree.mount("259:0", "/", "rw", "ext4", "/dev/nvme0n1", "ro,errors=remount-ro");
  const Finding finding = look(check_shut_down, "shut-down");
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding.commands, IsEmpty());
  EXPECT_THAT(finding.advice, HasSubstr("e2fsck -f /dev/nvme0n1"));
}

TEST_F(Rule, ReadOnly) {
  tree.file("/etc/fstab", "UUID=ab /data ext4 ro,noatime 0 2\n");
  local("ext4", "rw,noatime");
  EXPECT_TRUE(silent(check_read_only, "read-only"));
  tree.mount("259:0", "/data", "ro,noatime", "ext4", "/dev/nvme0n1", "ro");
  EXPECT_EQ(severity(check_read_only, "read-only"), Severity::kInfo);
  options.workload = Workload::kCheckpoints;
  const Finding finding = look(check_read_only, "read-only");
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding.commands, ElementsAre("mount -o remount,rw /data"));
  ASSERT_EQ(finding.config.size(), 1u);
  EXPECT_EQ(finding.config[0].line, "UUID=ab /data ext4 noatime,rw 0 2");
  options.workload = Workload::kAny;
  options.checkpoint_bytes = kGiB;
  tree.mount("259:0", "/data", "ro", "ext4", "/dev/nvme0n1", "rw");
  EXPECT_EQ(severity(check_read_only, "read-only"), Severity::kError) << "a read-only bind mount";
  tree.mount("7:0", "/data", "ro", "squashfs", "/dev/loop0", "ro");
  EXPECT_THAT(look(check_read_only, "read-only").commands, IsEmpty());
}

TEST_F(Rule, BlockDevice) {
  tree.mount("0:5", "/dev", "rw", "devtmpfs", "udev");
  tree.space("/dev", kGiB, 0);
  local("ext4", "rw,noatime");
  EXPECT_TRUE(silent(check_block_device, "block-device"));
  options.paths = {"/dev/nvme0n1"};
  const Finding finding = look(check_block_device, "block-device");
  EXPECT_EQ(finding.severity, Severity::kInfo);
  EXPECT_EQ(finding.observed, "mounted at /data");
  EXPECT_EQ(look(check_read_ahead, "read-ahead").subject, "nvme0n1");
  EXPECT_TRUE(silent(check_free_space, "free-space")) << "devtmpfs is not what was asked about";
  options.paths = {"/dev/nvme0n1p1"};
  EXPECT_EQ(look(check_block_device, "block-device").observed, "not mounted");
  EXPECT_EQ(look(check_read_ahead, "read-ahead").subject, "nvme0n1");
  options.paths = {"/dev/shm"};
  EXPECT_TRUE(silent(check_block_device, "block-device"));
}

TEST_F(Rule, Atime) {
  tree.file("/etc/fstab", "UUID=ab /data ext4 defaults 0 2\n");
  local("ext4", "rw");
  const Finding finding = look(check_atime, "atime");
  EXPECT_EQ(finding.severity, Severity::kWarn);
  EXPECT_EQ(finding.subject, "/data");
  EXPECT_THAT(finding.commands, ElementsAre("mount -o remount,noatime /data"));
  ASSERT_EQ(finding.config.size(), 1u);
  EXPECT_EQ(finding.config[0].line, "UUID=ab /data ext4 noatime 0 2");
  EXPECT_EQ(finding.config[0].replaces, "UUID=ab /data ext4 defaults 0 2");
  tree.mount("259:0", "/data", "rw,relatime", "ext4", "/dev/nvme0n1");
  EXPECT_EQ(severity(check_atime, "atime"), Severity::kOk);
  tree.mount("259:0", "/data", "rw,noatime", "xfs", "/dev/nvme0n1");
  EXPECT_EQ(severity(check_atime, "atime"), Severity::kOk);
  tree.mount("0:5", "/data", "rw", "tmpfs", "tmpfs");
  EXPECT_TRUE(silent(check_atime, "atime"));
}

TEST_F(Rule, WriteBarrier) {
  local("ext4", "rw,relatime", "rw,nobarrier");
  const Finding finding = look(check_write_barrier, "write-barrier");
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding.commands, ElementsAre("mount -o remount,barrier=1 /data"));
  EXPECT_EQ(finding.config[0].line, "/dev/nvme0n1 /data ext4 rw,relatime,barrier=1 0 2");
  tree.mount("259:0", "/data", "rw", "ext4", "/dev/nvme0n1", "rw,barrier=0");
  EXPECT_EQ(severity(check_write_barrier, "write-barrier"), Severity::kError);
  tree.mount("259:0", "/data", "rw", "ext4", "/dev/nvme0n1", "rw");
  EXPECT_EQ(severity(check_write_barrier, "write-barrier"), Severity::kOk);
}

TEST_F(Rule, Ext4DataMode) {
  local("ext4", "rw,noatime", "rw,data=writeback");
  const Finding finding = look(check_ext4, "ext4-data-mode");
  EXPECT_EQ(finding.severity, Severity::kWarn);
  EXPECT_THAT(finding.config[0].line, HasSubstr("data=ordered"));
  EXPECT_THAT(finding.config[0].line, Not(HasSubstr("data=writeback")));
  tree.mount("259:0", "/data", "rw", "ext4", "/dev/nvme0n1", "rw,data=ordered");
  EXPECT_EQ(severity(check_ext4, "ext4-data-mode"), Severity::kOk);
}

TEST_F(Rule, Ext4Commit) {
  local("ext4", "rw", "rw,commit=300");
  const Finding finding = look(check_ext4, "ext4-commit");
  EXPECT_EQ(finding.severity, Severity::kInfo);
  EXPECT_THAT(finding.commands, ElementsAre("mount -o remount,commit=60 /data"));
  tree.mount("259:0", "/data", "rw", "ext4", "/dev/nvme0n1", "rw,commit=60");
  EXPECT_TRUE(silent(check_ext4, "ext4-commit"));
}

TEST_F(Rule, XfsOptions) {
  local("xfs", "rw,noatime", "rw,inode32,logbsize=32k");
  const Finding finding = look(check_xfs, "xfs-options");
  EXPECT_EQ(finding.severity, Severity::kInfo);
  EXPECT_EQ(finding.config[0].line,
            "/dev/nvme0n1 /data xfs rw,noatime,logbsize=256k,largeio,inode64 0 2");
  tree.mount("259:0", "/data", "rw", "xfs", "/dev/nvme0n1", "rw,inode64,largeio,logbsize=256k");
  EXPECT_EQ(severity(check_xfs, "xfs-options"), Severity::kOk);
}

TEST_F(Rule, XfsGeometry) {
  tree.nvme(0);
  tree.nvme(1);
  tree.raid0(2);
  tree.mount("9:0", "/data", "rw", "xfs", "/dev/md0");
  const Finding finding = look(check_xfs, "xfs-geometry");
  EXPECT_EQ(finding.severity, Severity::kWarn);
  EXPECT_THAT(finding.advice, HasSubstr("su=512k,sw=2"));
  EXPECT_THAT(finding.config[0].line, HasSubstr("sunit=1024,swidth=2048"));
  tree.mount("9:0", "/data", "rw", "xfs", "/dev/md0", "rw,sunit=1024,swidth=2048");
  EXPECT_EQ(severity(check_xfs, "xfs-geometry"), Severity::kOk);
  tree.mount("259:0", "/data", "rw", "xfs", "/dev/nvme0n1");
  EXPECT_TRUE(silent(check_xfs, "xfs-geometry"));
}

TEST_F(Rule, XfsPreferred) {
  local("ext4", "rw");
  options.checkpoint_bytes = 11'000'000'000;
  EXPECT_EQ(severity(check_ext4, "xfs-preferred"), Severity::kInfo);
  options.checkpoint_bytes = 10'000'000'000;
  EXPECT_TRUE(silent(check_ext4, "xfs-preferred"));
}

class ZfsFacts {
 public:
  static void put(TestTree& tree, const std::string& compression, const std::string& record_size) {
    tree.facts().zfs_property = [=](const std::string& dataset,
                                    const std::string& property) -> Result<std::string> {
      EXPECT_EQ(dataset, "tank/my data");
      return (property == "compression" ? compression : record_size) + "\n";
    };
    tree.mount("0:40", "/data", "rw,noatime", "zfs", "tank/my\\040data", "rw,xattr");
  }
};

TEST_F(Rule, ZfsCompression) {
  ZfsFacts::put(tree, "off", "1048576");
  const Finding finding = look(check_zfs, "zfs-compression");
  EXPECT_EQ(finding.severity, Severity::kWarn);
  EXPECT_THAT(finding.commands, ElementsAre("zfs set compression=lz4 'tank/my data'"));
  ZfsFacts::put(tree, "lz4", "1048576");
  EXPECT_EQ(severity(check_zfs, "zfs-compression"), Severity::kOk);
  tree.facts().zfs_property = unknown_facts("zfs is not installed").zfs_property;
  EXPECT_EQ(severity(check_zfs, "zfs-compression"), Severity::kUnknown);
  EXPECT_THAT(look(check_zfs, "zfs-compression").observed, HasSubstr("not installed"));
}

TEST_F(Rule, ZfsRecordsize) {
  ZfsFacts::put(tree, "lz4", "131072");
  EXPECT_EQ(severity(check_zfs, "zfs-recordsize"), Severity::kInfo);
  options.workload = Workload::kShards;
  EXPECT_EQ(severity(check_zfs, "zfs-recordsize"), Severity::kWarn);
  EXPECT_THAT(look(check_zfs, "zfs-recordsize").commands,
              ElementsAre("zfs set recordsize=1M 'tank/my data'"));
  options.workload = Workload::kEmbeddings;
  EXPECT_EQ(severity(check_zfs, "zfs-recordsize"), Severity::kOk);
  ZfsFacts::put(tree, "lz4", "1048576");
  options.workload = Workload::kShards;
  EXPECT_EQ(severity(check_zfs, "zfs-recordsize"), Severity::kOk);
  ZfsFacts::put(tree, "lz4", "garbage");
  EXPECT_EQ(severity(check_zfs, "zfs-recordsize"), Severity::kUnknown);
}

TEST_F(Rule, ZfsAtime) {
  ZfsFacts::put(tree, "lz4", "1048576");
  EXPECT_EQ(severity(check_zfs, "zfs-atime"), Severity::kOk);
  tree.mount("0:40", "/data", "rw", "zfs", "tank/my\\040data");
  EXPECT_EQ(severity(check_zfs, "zfs-atime"), Severity::kWarn);
  EXPECT_THAT(look(check_zfs, "zfs-atime").commands,
              ElementsAre("zfs set atime=off 'tank/my data'"));
}

TEST_F(Rule, Tmpfs) {
  tree.mount("0:5", "/data", "rw", "tmpfs", "tmpfs");
  EXPECT_EQ(severity(check_tmpfs, "tmpfs"), Severity::kInfo);
  options.workload = Workload::kCheckpoints;
  EXPECT_EQ(severity(check_tmpfs, "tmpfs"), Severity::kWarn);
  local("ext4", "rw");
  EXPECT_TRUE(silent(check_tmpfs, "tmpfs"));
}

TEST_F(Rule, Fuse) {
  tree.mount("0:5", "/data", "rw", "fuse.s3fs", "bucket");
  EXPECT_EQ(severity(check_fuse, "fuse"), Severity::kInfo);
  tree.mount("0:5", "/data", "rw", "fuse.penstock", "volume");
  EXPECT_TRUE(silent(check_fuse, "fuse"));
}

TEST_F(Rule, Overlayfs) {
  tree.mount("0:5", "/", "rw", "overlay", "overlay");
  EXPECT_EQ(severity(check_overlayfs, "overlayfs"), Severity::kInfo);
  options.dataset_bytes = kGiB;
  const Finding finding = look(check_overlayfs, "overlayfs");
  EXPECT_EQ(finding.severity, Severity::kWarn);
  EXPECT_THAT(finding.advice, HasSubstr("-v /host/dir:/data"));
}

TEST_F(Rule, NfsOptions) {
  tree.mount(
      "0:53", "/data", "rw,relatime", "nfs4", "server:/ex",
      "rw,vers=4.2,rsize=65536,wsize=1048576,soft,proto=tcp,clientaddr=10.0.0.2,addr=10.0.0.1");
  const Finding finding = look(check_nfs, "nfs-options");
  EXPECT_EQ(finding.severity, Severity::kWarn);
  EXPECT_THAT(finding.observed, HasSubstr("rsize=65536, soft, one connection"));
  EXPECT_THAT(finding.commands,
              ElementsAre("umount /data && mount -t nfs4 -o "
                          "rw,vers=4.2,wsize=1048576,proto=tcp,rsize=1048576,hard,nconnect=8,"
                          "actimeo=60,lookupcache=pos,noatime server:/ex /data"));
  tree.mount("0:53", "/data", "rw", "nfs4", "server:/ex",
             "rw,rsize=1048576,wsize=1048576,hard,proto=tcp,nconnect=8");
  EXPECT_EQ(severity(check_nfs, "nfs-options"), Severity::kInfo) << "attributes cached briefly";
  tree.mount("0:53", "/data", "rw", "nfs4", "server:/ex",
             "rw,rsize=1048576,wsize=1048576,hard,proto=tcp,nconnect=8,acregmin=60,acdirmin=60,"
             "lookupcache=pos");
  EXPECT_EQ(severity(check_nfs, "nfs-options"), Severity::kOk);
  tree.mount("0:53", "/data", "rw", "nfs", "server:/ex",
             "rw,rsize=1048576,wsize=1048576,nconnect=8,noac,proto=udp,lookupcache=none");
  EXPECT_THAT(
      look(check_nfs, "nfs-options").observed,
      testing::AllOf(HasSubstr("proto=udp"), HasSubstr("noac"), HasSubstr("lookupcache=none")));
}

TEST_F(Rule, NfsCheckpoints) {
  tree.mount("0:53", "/data", "rw", "nfs4", "server:/ex");
  EXPECT_EQ(severity(check_nfs, "nfs-checkpoints"), Severity::kInfo);
  options.checkpoint_bytes = kGiB;
  EXPECT_EQ(severity(check_nfs, "nfs-checkpoints"), Severity::kWarn);
}

TEST_F(Rule, NfsScale) {
  tree.mount("0:53", "/data", "rw", "nfs4", "server:/ex");
  options.dataset_bytes = 100'000'000'000;
  EXPECT_TRUE(silent(check_nfs, "nfs-scale"));
  options.dataset_bytes = 101'000'000'000;
  EXPECT_EQ(severity(check_nfs, "nfs-scale"), Severity::kWarn);
}

TEST_F(Rule, LustreStripes) {
  tree.mount("0:60", "/lustre", "rw", "lustre", "10.0.0.1@tcp:/fs");
  options.paths = {"/lustre/my set"};
  const auto answer = [&](const std::string& text) {
    tree.facts().lustre_striping = [=](const std::string& path) -> Result<std::string> {
      EXPECT_EQ(path, "/lustre/my set");
      return text;
    };
  };
  answer("stripe_count: 1 stripe_size: 1048576 pattern: raid0 stripe_offset: -1");
  EXPECT_EQ(severity(check_lustre, "lustre-stripes"), Severity::kWarn);
  EXPECT_THAT(look(check_lustre, "lustre-stripes").commands,
              ElementsAre("lfs setstripe -c -1 -S 4M '/lustre/my set'"));
  options.checkpoint_bytes = kGiB;
  EXPECT_THAT(look(check_lustre, "lustre-stripes").commands,
              ElementsAre("lfs setstripe -c 4 -S 1M '/lustre/my set'"));
  answer("stripe_count: 2 stripe_size: 1048576");
  EXPECT_EQ(severity(check_lustre, "lustre-stripes"), Severity::kWarn) << "few for checkpoints";
  answer("stripe_count: 4 stripe_size: 1048576");
  EXPECT_EQ(severity(check_lustre, "lustre-stripes"), Severity::kOk);
  answer("stripe_count: -1 stripe_size: 65536");
  EXPECT_EQ(severity(check_lustre, "lustre-stripes"), Severity::kInfo) << "stripes too small";
  tree.facts().lustre_striping = unknown_facts("lfs is not installed").lustre_striping;
  EXPECT_EQ(severity(check_lustre, "lustre-stripes"), Severity::kUnknown);
}

TEST_F(Rule, LustreSmallFiles) {
  tree.mount("0:60", "/data", "rw", "lustre", "10.0.0.1@tcp:/fs");
  EXPECT_TRUE(silent(check_lustre, "lustre-small-files"));
  options.workload = Workload::kImages;
  EXPECT_EQ(severity(check_lustre, "lustre-small-files"), Severity::kWarn);
}

TEST_F(Rule, Scheduler) {
  tree.nvme(0, {.scheduler = "none mq-deadline kyber [bfq]"});
  tree.nvme(1, {.scheduler = "none [kyber]"});
  tree.nvme(2, {.scheduler = "[mq-deadline] none"});
  tree.nvme(3, {.scheduler = "broken"});
  tree.mount("259:1", "/data", "rw", "ext4", "/dev/nvme0n1p1");
  const Findings findings = check_scheduler(tree.machine(), options);
  ASSERT_EQ(findings.size(), 4u);
  EXPECT_EQ(findings[0].subject, "nvme0n1");
  EXPECT_EQ(findings[0].severity, Severity::kWarn);
  EXPECT_THAT(findings[0].commands, ElementsAre("echo none > /sys/block/nvme0n1/queue/scheduler"));
  EXPECT_EQ(findings[0].config[0].line,
            "ACTION==\"add|change\", KERNEL==\"nvme0n1\", ATTR{queue/scheduler}=\"none\"");
  EXPECT_EQ(findings[1].severity, Severity::kInfo);
  EXPECT_EQ(findings[2].severity, Severity::kOk);
  EXPECT_EQ(findings[3].severity, Severity::kUnknown);
}

TEST_F(Rule, ReadAhead) {
  tree.nvme(0, {.read_ahead_kib = 128});
  tree.mount("259:1", "/data", "rw", "ext4", "/dev/nvme0n1p1");
  EXPECT_EQ(severity(check_read_ahead, "read-ahead"), Severity::kInfo);
  options.workload = Workload::kShards;
  const Finding finding = look(check_read_ahead, "read-ahead");
  EXPECT_EQ(finding.severity, Severity::kWarn);
  EXPECT_THAT(finding.commands, ElementsAre("blockdev --setra 8192 /dev/nvme0n1"));
  EXPECT_THAT(finding.config[0].line, HasSubstr("ATTR{queue/read_ahead_kb}=\"4096\""));
  options.workload = Workload::kEmbeddings;
  EXPECT_EQ(severity(check_read_ahead, "read-ahead"), Severity::kOk);
  tree.nvme(1, {.read_ahead_kib = 2048});
  tree.mount("259:10", "/data", "rw", "ext4", "/dev/nvme1n1");
  EXPECT_EQ(severity(check_read_ahead, "read-ahead"), Severity::kWarn);
  EXPECT_THAT(look(check_read_ahead, "read-ahead").commands,
              ElementsAre("blockdev --setra 256 /dev/nvme1n1"));
  options.workload = Workload::kAny;
  EXPECT_EQ(severity(check_read_ahead, "read-ahead"), Severity::kOk);
}

TEST_F(Rule, NfsReadAhead) {
  tree.mount("0:53", "/data", "rw", "nfs4", "server:/ex");
  EXPECT_EQ(severity(check_read_ahead, "nfs-read-ahead"), Severity::kUnknown);
  tree.file("/sys/class/bdi/0:53/read_ahead_kb", "128\n");
  options.workload = Workload::kShards;
  EXPECT_EQ(severity(check_read_ahead, "nfs-read-ahead"), Severity::kWarn);
  EXPECT_THAT(look(check_read_ahead, "nfs-read-ahead").commands,
              ElementsAre("echo 4096 > /sys/class/bdi/0:53/read_ahead_kb"));
}

TEST_F(Rule, CloudDisk) {
  tree.nvme(0, {.model = "Amazon Elastic Block Store"});
  tree.file("/sys/class/nvme/nvme0/serial", "vol0123456789abcdef0\n");
  tree.mount("259:1", "/data", "rw", "ext4", "/dev/nvme0n1p1");
  const Finding finding = look(check_cloud_disk, "cloud-disk");
  EXPECT_EQ(finding.severity, Severity::kInfo);
  EXPECT_EQ(finding.observed, "Amazon EBS");
  EXPECT_THAT(finding.look,
              Contains("aws ec2 describe-volumes --volume-ids vol-0123456789abcdef0"));
  tree.disk("sdb", 8, "Google", "PersistentDisk", false);
  tree.mount("8:0", "/data", "rw", "ext4", "/dev/sdb");
  EXPECT_EQ(look(check_cloud_disk, "cloud-disk").observed, "Google Persistent Disk");
  tree.disk("sdc", 65, "Msft", "Virtual Disk", false);
  tree.mount("65:0", "/data", "rw", "ext4", "/dev/sdc");
  EXPECT_EQ(look(check_cloud_disk, "cloud-disk").observed, "Azure managed disk");
  tree.disk("vda", 254, "0x1af4", "", true);
  tree.mount("254:0", "/data", "rw", "ext4", "/dev/vda");
  EXPECT_EQ(severity(check_cloud_disk, "cloud-disk"), Severity::kUnknown);
  tree.nvme(1);
  tree.mount("259:10", "/data", "rw", "ext4", "/dev/nvme1n1");
  EXPECT_TRUE(silent(check_cloud_disk, "cloud-disk"));
}

TEST_F(Rule, SlowDevice) {
  tree.disk("sda", 8, "ATA", "Spinning 18TB", true);
  tree.mount("8:0", "/data", "rw", "ext4", "/dev/sda");
  EXPECT_EQ(severity(check_slow_device, "slow-device"), Severity::kWarn);
  tree.disk("sdb", 65, "ATA", "SATA SSD", false);
  tree.mount("65:0", "/data", "rw", "ext4", "/dev/sdb");
  EXPECT_EQ(severity(check_slow_device, "slow-device"), Severity::kInfo);
  local("ext4", "rw");
  EXPECT_TRUE(silent(check_slow_device, "slow-device"));
}

TEST_F(Rule, NvmeLink) {
  tree.nvme(0);
  tree.nvme(1, {.width = "2"});
  tree.nvme(2, {.speed = "8.0 GT/s PCIe"});
  tree.nvme(3, {.width = "1", .slot_width = "1"});
  tree.nvme(4, {.speed = "Unknown"});
  const Findings findings = check_nvme_link(tree.machine(), options);
  ASSERT_EQ(findings.size(), 5u);
  EXPECT_EQ(findings[0].severity, Severity::kOk);
  EXPECT_EQ(findings[1].severity, Severity::kWarn);
  EXPECT_THAT(findings[1].observed, HasSubstr("x2 at 16 GT/s (3.94 GB/s); the drive can do x4"));
  EXPECT_THAT(findings[1].observed, Not(HasSubstr("slot")));
  EXPECT_THAT(findings[1].look, ElementsAre(HasSubstr("lspci -vv -s 0000:02:00.0 ")));
  EXPECT_EQ(findings[2].severity, Severity::kWarn);
  EXPECT_THAT(findings[3].observed, HasSubstr("its slot only x1"));
  EXPECT_EQ(findings[4].severity, Severity::kUnknown);
}

TEST_F(Rule, Raid0) {
  tree.nvme(0);
  tree.nvme(1);
  tree.raid0(2);
  tree.mount("9:0", "/data", "rw", "xfs", "/dev/md0");
  EXPECT_EQ(severity(check_raid, "raid0"), Severity::kInfo);
  EXPECT_EQ(look(check_raid, "raid0").observed, "md0 stripes over 2 drives");
  options.checkpoint_bytes = kGiB;
  EXPECT_EQ(severity(check_raid, "raid0"), Severity::kWarn);
}

TEST_F(Rule, RaidDegraded) {
  tree.file("/proc/mdstat", "md1 : active raid1 sdb1[1](F) sda1[0]\n  9 blocks [2/1] [U_]\n");
  const Finding finding = look(check_raid, "raid-degraded");
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_EQ(finding.observed, "raid1, 1 of 2 drives");
  tree.file("/proc/mdstat", "md1 : active raid1 sdb1[1] sda1[0]\n  9 blocks [2/2] [UU]\n");
  EXPECT_TRUE(silent(check_raid, "raid-degraded"));
}

TEST_F(Rule, DriveWear) {
  tree.nvme(0);
  NvmeHealth health;
  tree.facts().nvme_health = [&](const std::string&) -> Result<NvmeHealth> { return health; };
  for (const auto& [used, expected] :
       {std::pair{79, Severity::kOk}, {80, Severity::kWarn}, {100, Severity::kError}}) {
    health.percentage_used = static_cast<uint64_t>(used);
    EXPECT_EQ(severity(check_drive_wear, "drive-wear"), expected) << used;
  }
  health.percentage_used = 1;
  health.critical_warning = 1;
  EXPECT_EQ(severity(check_drive_wear, "drive-wear"), Severity::kError);
  health.critical_warning = 0;
  health.spare_percent = 5;
  health.spare_threshold_percent = 10;
  EXPECT_EQ(severity(check_drive_wear, "drive-wear"), Severity::kError);
  tree.facts().nvme_health = [](const std::string&) -> Result<NvmeHealth> {
    return errno_error(EACCES, "open /dev/nvme0");
  };
  EXPECT_EQ(look(check_drive_wear, "drive-wear").observed, "needs root");
}

TEST_F(Rule, Inodes) {
  local("ext4", "rw");
  for (const auto& [free_inodes, expected] : {std::pair{200, Severity::kOk},
                                              {199, Severity::kWarn},
                                              {50, Severity::kWarn},
                                              {49, Severity::kError}}) {
    tree.space("/data", kTiB, kTiB, 1000, static_cast<uint64_t>(free_inodes));
    EXPECT_EQ(severity(check_inodes, "inodes"), expected) << free_inodes;
  }
  tree.space("/data", kTiB, kTiB, 0, 0);
  EXPECT_TRUE(silent(check_inodes, "inodes")) << "made as it goes";
  options.paths = {"/data"};
  tree.facts().space = unknown_facts("no permission").space;
  EXPECT_EQ(severity(check_inodes, "inodes"), Severity::kUnknown);
}

TEST_F(Rule, FreeSpace) {
  local("ext4", "rw");
  tree.space("/data", 1000 * kGiB, 99 * kGiB);
  EXPECT_EQ(severity(check_free_space, "free-space"), Severity::kWarn);
  tree.space("/data", 1000 * kGiB, 100 * kGiB);
  EXPECT_EQ(severity(check_free_space, "free-space"), Severity::kOk);
  for (const auto& [checkpoint_gib, expected] :
       {std::pair{50, Severity::kOk}, {51, Severity::kWarn}, {101, Severity::kError}}) {
    options.checkpoint_bytes = static_cast<uint64_t>(checkpoint_gib) * kGiB;
    EXPECT_EQ(severity(check_free_space, "free-space"), expected) << checkpoint_gib;
  }
  tree.mount("7:0", "/data", "ro", "squashfs", "/dev/loop0", "ro");
  EXPECT_TRUE(silent(check_free_space, "free-space")) << "an image is always full";
}

TEST_F(Rule, DatasetSpace) {
  local("ext4", "rw");
  tree.space("/data", kTiB, kTiB);
  EXPECT_TRUE(silent(check_dataset_space, "dataset-space"));
  options.dataset_bytes = kTiB;
  EXPECT_EQ(severity(check_dataset_space, "dataset-space"), Severity::kOk);
  options.dataset_bytes = kTiB + 1;
  EXPECT_EQ(severity(check_dataset_space, "dataset-space"), Severity::kWarn);
}

TEST_F(Rule, DirtyPages) {
  EXPECT_EQ(severity(check_dirty_pages, "dirty-pages"), Severity::kOk);
  tree.sysctl("vm/dirty_ratio", 20);
  tree.sysctl("vm/dirty_background_ratio", 10);
  const Finding finding = look(check_dirty_pages, "dirty-pages");
  EXPECT_EQ(finding.severity, Severity::kWarn) << "12.8 GiB of 64";
  EXPECT_THAT(finding.observed, HasSubstr("up to 12.8 GiB"));
  EXPECT_THAT(finding.commands,
              ElementsAre("sysctl -w vm.dirty_ratio=5 vm.dirty_background_ratio=2"));
  EXPECT_EQ(finding.config[0].line, "vm.dirty_ratio = 5");
  tree.memory(16, 0);
  EXPECT_EQ(severity(check_dirty_pages, "dirty-pages"), Severity::kInfo) << "little memory";
  options.checkpoint_bytes = 64 * kGiB;
  EXPECT_EQ(severity(check_dirty_pages, "dirty-pages"), Severity::kWarn);
  EXPECT_THAT(look(check_dirty_pages, "dirty-pages").observed, HasSubstr("5 % of a checkpoint"));
  tree.sysctl("vm/dirty_bytes", 512 * kMiB);
  EXPECT_EQ(severity(check_dirty_pages, "dirty-pages"), Severity::kOk) << "bytes take precedence";
}

TEST_F(Rule, Writeback) {
  tree.memory(64, 100'000);
  int sleeps = 0;
  tree.facts().sleep = [&](uint64_t) { ++sleeps; };
  EXPECT_EQ(severity(check_writeback, "writeback"), Severity::kWarn);
  EXPECT_EQ(sleeps, 4);
  tree.memory(64, 100);
  EXPECT_EQ(severity(check_writeback, "writeback"), Severity::kInfo);
  tree.facts().sleep = [&](uint64_t) { tree.memory(64, 0); };
  tree.memory(64, 100'000);
  EXPECT_EQ(severity(check_writeback, "writeback"), Severity::kOk) << "it came down";
  tree.file("/proc/meminfo", "MemTotal: 1 kB\n");
  EXPECT_EQ(severity(check_writeback, "writeback"), Severity::kUnknown);
}

TEST_F(Rule, PageCache) {
  EXPECT_TRUE(silent(check_page_cache, "page-cache"));
  options.dataset_bytes = 50 * kGiB;
  EXPECT_EQ(severity(check_page_cache, "page-cache"), Severity::kOk);
  options.dataset_bytes = 60 * kGiB;
  EXPECT_EQ(severity(check_page_cache, "page-cache"), Severity::kInfo);
  options.dataset_bytes = 50 * kGiB;
  tree.file("/sys/fs/cgroup/memory.max", std::to_string(8 * kGiB));
  EXPECT_EQ(severity(check_page_cache, "page-cache"), Severity::kInfo) << "the limit counts";
}

TEST_F(Rule, CgroupMemory) {
  tree.file("/sys/fs/cgroup/memory.max", "max\n");
  EXPECT_TRUE(silent(check_cgroup, "cgroup-memory"));
  tree.file("/proc/self/cgroup", "0::/a/b\n");
  tree.file("/sys/fs/cgroup/a/memory.max", std::to_string(8 * kGiB));
  tree.file("/sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(severity(check_cgroup, "cgroup-memory"), Severity::kInfo) << "a parent's limit";
  options.dataset_bytes = 9 * kGiB;
  EXPECT_EQ(severity(check_cgroup, "cgroup-memory"), Severity::kWarn);
  tree.file("/proc/self/cgroup", "4:memory:/docker/not-visible-here\n");
  tree.file("/sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(2 * kGiB));
  EXPECT_THAT(look(check_cgroup, "cgroup-memory").observed, HasSubstr("2 GiB of"));
}

TEST_F(Rule, CgroupPids) {
  EXPECT_TRUE(silent(check_cgroup, "cgroup-pids"));
  tree.file("/sys/fs/cgroup/pids.max", "1024\n");
  EXPECT_EQ(severity(check_cgroup, "cgroup-pids"), Severity::kOk);
  tree.file("/sys/fs/cgroup/pids.max", "1023\n");
  EXPECT_EQ(severity(check_cgroup, "cgroup-pids"), Severity::kWarn);
}

TEST_F(Rule, Memlock) {
  tree.facts().memlock_bytes = 8 * kMiB;
  const Finding finding = look(check_memlock, "memlock");
  EXPECT_EQ(finding.severity, Severity::kWarn);
  EXPECT_THAT(finding.observed, HasSubstr("8 MiB"));
  EXPECT_EQ(finding.config[0].line, "* - memlock unlimited");
  tree.facts().memlock_bytes = kGiB;
  EXPECT_EQ(severity(check_memlock, "memlock"), Severity::kOk);
  tree.facts().memlock_bytes = std::nullopt;
  EXPECT_EQ(severity(check_memlock, "memlock"), Severity::kUnknown);
  tree.facts().memlock_bytes = 8 * kMiB;
  tree.file("/proc/self/status", "Name: x\nCapEff:\t0000000000004000\n");
  EXPECT_EQ(severity(check_memlock, "memlock"), Severity::kOk) << "CAP_IPC_LOCK";
  tree.file("/proc/self/uid_map", "         0          0 4294967295\n");
  EXPECT_EQ(severity(check_memlock, "memlock"), Severity::kOk) << "in the first namespace";
  tree.file("/proc/self/uid_map", "         0       1000          1\n");
  EXPECT_EQ(severity(check_memlock, "memlock"), Severity::kWarn) << "root of another namespace";
  tree.file("/proc/self/uid_map", "0 0 4294967295\n");
  tree.file("/proc/self/status", "CapEff:\t000001ffffffbfff\n");
  EXPECT_EQ(severity(check_memlock, "memlock"), Severity::kWarn) << "all but CAP_IPC_LOCK";
}

TEST_F(Rule, IoUring) {
  EXPECT_EQ(severity(check_io_uring, "io-uring"), Severity::kOk);
  tree.facts().io_uring_errno = EPERM;
  EXPECT_THAT(look(check_io_uring, "io-uring").observed, HasSubstr("seccomp"));
  EXPECT_THAT(look(check_io_uring, "io-uring").advice, HasSubstr("io_uring_setup"));
  EXPECT_THAT(look(check_io_uring, "io-uring").commands, IsEmpty());
  tree.sysctl("kernel/io_uring_disabled", 2);
  const Finding finding = look(check_io_uring, "io-uring");
  EXPECT_EQ(finding.severity, Severity::kWarn);
  EXPECT_THAT(finding.commands, ElementsAre("sysctl -w kernel.io_uring_disabled=0"));
  tree.facts().io_uring_errno = 0;
  tree.sysctl("kernel/io_uring_disabled", 1);
  EXPECT_EQ(severity(check_io_uring, "io-uring"), Severity::kWarn) << "works for root only";
  tree.sysctl("kernel/io_uring_disabled", 0);
  tree.facts().io_uring_errno = std::nullopt;
  EXPECT_EQ(severity(check_io_uring, "io-uring"), Severity::kUnknown);
  tree.facts().io_uring_errno = ENOSYS;
  tree.file("/proc/sys/kernel/osrelease", "4.18.0-el8\n");
  EXPECT_THAT(look(check_io_uring, "io-uring").advice, HasSubstr("this is 4.18"));
}

TEST_F(Rule, IoUringSaysWhatTheErrorMeans) {
  tree.facts().io_uring_errno = EACCES;
  EXPECT_THAT(look(check_io_uring, "io-uring").observed, HasSubstr("seccomp"));
  tree.facts().io_uring_errno = ENOSYS;
  EXPECT_THAT(look(check_io_uring, "io-uring").advice, HasSubstr("CONFIG_IO_URING"));
  tree.facts().io_uring_errno = EMFILE;
  const Finding other = look(check_io_uring, "io-uring");
  EXPECT_EQ(other.severity, Severity::kUnknown);
  EXPECT_THAT(other.observed, HasSubstr("Too many open files"));
  tree.facts().io_uring_errno = ENOMEM;
  tree.facts().memlock_bytes = 64 * kKiB;
  const Finding locked = look(check_io_uring, "io-uring");
  EXPECT_EQ(locked.severity, Severity::kWarn);
  EXPECT_THAT(locked.observed, HasSubstr("locked memory (ulimit -l is 64 KiB)"));
  EXPECT_THAT(locked.advice, HasSubstr("LimitMEMLOCK=infinity"));
  ASSERT_EQ(locked.config.size(), 1u);
  EXPECT_EQ(locked.config[0].line, "* - memlock unlimited");
  tree.facts().memlock_bytes = UINT64_MAX;
  EXPECT_EQ(look(check_io_uring, "io-uring").observed, "no memory for a ring");
  EXPECT_THAT(look(check_io_uring, "io-uring").config, IsEmpty());
}

TEST_F(Rule, Numa) {
  local("ext4", "rw");
  tree.gpu(0, 0);
  tree.numa_nodes(1);
  EXPECT_TRUE(silent(check_numa, "numa")) << "one node";
  tree.numa_nodes(2);
  EXPECT_EQ(severity(check_numa, "numa"), Severity::kInfo);
  EXPECT_THAT(look(check_numa, "numa").advice,
              HasSubstr("numactl --cpunodebind=0 --membind=0 COMMAND"));
  tree.nvme(1, {.numa_node = 1});
  tree.mount("259:10", "/data", "rw", "ext4", "/dev/nvme1n1");
  EXPECT_EQ(severity(check_numa, "numa"), Severity::kWarn) << "drive on the other node";
  EXPECT_THAT(look(check_numa, "numa").observed, HasSubstr("nvme1n1 on node 1"));
}

TEST_F(Rule, Gds) {
  local("ext4", "rw");
  EXPECT_TRUE(silent(check_gds, "gds")) << "no GPU";
  tree.gpu(0, 0);
  EXPECT_EQ(severity(check_gds, "gds"), Severity::kWarn) << "nothing loaded";
  EXPECT_THAT(look(check_gds, "gds").commands, ElementsAre("modprobe nvidia-fs"));
  tree.file("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module 570\n");
  EXPECT_EQ(severity(check_gds, "gds"), Severity::kOk) << "P2PDMA";
  tree.file("/proc/sys/kernel/osrelease", "5.15.0\n");
  EXPECT_EQ(severity(check_gds, "gds"), Severity::kWarn);
  tree.file("/proc/driver/nvidia-fs/version", "2.19\n");
  EXPECT_EQ(severity(check_gds, "gds"), Severity::kOk);
  tree.mount("0:53", "/data", "rw", "nfs4", "server:/ex", "rw,proto=tcp");
  EXPECT_EQ(severity(check_gds, "gds"), Severity::kInfo);
  tree.mount("0:53", "/data", "rw", "nfs4", "server:/ex", "rw,proto=rdma");
  EXPECT_EQ(severity(check_gds, "gds"), Severity::kOk);
  tree.disk("sda", 8, "ATA", "SATA SSD", false);
  tree.mount("8:0", "/data", "rw", "ext4", "/dev/sda");
  EXPECT_THAT(look(check_gds, "gds").observed, HasSubstr("sda is not an NVMe drive"));
  tree.gpu(1, 0, "0x1b38");
  tree.mount("259:0", "/data", "rw", "ext4", "/dev/nvme0n1");
  EXPECT_THAT(look(check_gds, "gds").observed, HasSubstr("older than Volta"));
}

}  // namespace
}  // namespace penstock::tune::doctor
