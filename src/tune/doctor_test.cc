// Whole machines: what the report says of each, and that its forms are sound.
#include "tune/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "tune/test_tree.h"

namespace penstock::tune::doctor {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// "id subject" of every finding of the severity.
std::vector<std::string> of(const Report& report, Severity severity) {
  std::vector<std::string> ids;
  for (const Finding& finding : report.findings) {
    if (finding.severity == severity)
      ids.push_back(finding.subject.empty() ? finding.id : finding.id + " " + finding.subject);
  }
  return ids;
}

Report examined(const TestTree& tree, const DoctorOptions& options) {
  Result<Report> report = examine(tree.machine(), options);
  EXPECT_TRUE(report.ok()) << (report ? "" : report.error().detail);
  return report ? std::move(*report) : Report{};
}

void healthy_drives(TestTree& tree) {
  tree.facts().nvme_health = [](const std::string&) -> Result<NvmeHealth> { return NvmeHealth{}; };
}

TEST(Doctor, LaptopWithBfqOnItsNvme) {
  TestTree tree;
  healthy_drives(tree);
  tree.memory(16, 0);
  tree.nvme(0, {.scheduler = "none mq-deadline [bfq]", .read_ahead_kib = 128});
  tree.mount("259:1", "/", "rw,relatime", "ext4", "/dev/nvme0n1p1", "rw,errors=remount-ro");
  tree.space("/", 500 * kGiB, 200 * kGiB);
  const Report report = examined(tree, {.paths = {"/home/me/data"}});
  EXPECT_THAT(of(report, Severity::kError), IsEmpty());
  EXPECT_THAT(of(report, Severity::kWarn), ElementsAre("scheduler nvme0n1"));
  EXPECT_THAT(of(report, Severity::kInfo), ElementsAre("read-ahead nvme0n1"));
  EXPECT_THAT(of(report, Severity::kUnknown), IsEmpty());
  EXPECT_EQ(report.worst(), Severity::kWarn);
  EXPECT_EQ(report.paths[0].device, "nvme0n1");
  EXPECT_EQ(report.machine.cores, 2u);
}

TEST(Doctor, Raid0GpuBoxWithOneLinkTrainedNarrow) {
  TestTree tree;
  healthy_drives(tree);
  tree.numa_nodes(2);
  tree.memory(1024, 0);
  for (int i = 0; i < 4; ++i) tree.nvme(i, {.numa_node = i / 2, .width = i == 2 ? "2" : "4"});
  tree.raid0(4);
  for (int i = 0; i < 8; ++i) tree.gpu(i, 0);
  tree.file("/proc/driver/nvidia-fs/version", "2.19\n");
  tree.mount("9:0", "/scratch", "rw,noatime", "xfs", "/dev/md0",
             "rw,inode64,largeio,logbsize=256k,sunit=1024,swidth=4096");
  tree.space("/scratch", 14 * kTiB, 10 * kTiB);
  const Report report = examined(tree, {.paths = {"/scratch/run"}, .checkpoint_bytes = 140 * kGiB});
  EXPECT_THAT(of(report, Severity::kError), IsEmpty());
  EXPECT_THAT(of(report, Severity::kWarn),
              ElementsAre("nvme-link nvme2", "raid0 /scratch", "numa"));
  EXPECT_EQ(report.paths[0].raid_level, "raid0");
  EXPECT_THAT(report.paths[0].disks, ElementsAre("nvme0n1", "nvme1n1", "nvme2n1", "nvme3n1"));
  EXPECT_EQ(report.machine.gpus.size(), 8u);
  EXPECT_THAT(render_text(report, {}), HasSubstr("8 × NVIDIA H200"));
}

TEST(Doctor, NfsClientWithPoorOptions) {
  TestTree tree;
  tree.mount("0:53", "/mnt/nfs", "rw,relatime", "nfs4", "filer:/vol",
             "rw,vers=4.1,rsize=32768,wsize=32768,hard,proto=tcp,noac");
  tree.file("/sys/class/bdi/0:53/read_ahead_kb", "128\n");
  tree.space("/mnt/nfs", 100 * kTiB, 50 * kTiB);
  const Report report = examined(
      tree, {.paths = {"/mnt/nfs/sets"}, .dataset_bytes = kTiB, .workload = Workload::kShards});
  EXPECT_THAT(of(report, Severity::kWarn),
              ElementsAre("nfs-options /mnt/nfs", "nfs-scale /mnt/nfs", "nfs-read-ahead /mnt/nfs"));
  EXPECT_THAT(of(report, Severity::kInfo), ElementsAre("nfs-checkpoints /mnt/nfs", "page-cache"));
}

TEST(Doctor, LustreClientWithOneStripe) {
  TestTree tree;
  tree.mount("0:60", "/lustre", "rw,noatime", "lustre", "10.0.0.1@o2ib:/fs");
  tree.space("/lustre", 1000 * kTiB, 500 * kTiB);
  tree.facts().lustre_striping = [](const std::string&) -> Result<std::string> {
    return std::string("stripe_count:  1 stripe_size:   1048576 pattern: raid0\n");
  };
  const Report report = examined(tree, {.paths = {"/lustre/a", "/lustre/b"}});
  EXPECT_THAT(of(report, Severity::kWarn),
              ElementsAre("lustre-stripes /lustre/a", "lustre-stripes /lustre/b"));
  EXPECT_THAT(render_script(report), HasSubstr("\nlfs setstripe -c -1 -S 4M /lustre/a\n"));
}

TEST(Doctor, ContainerWithoutIoUring) {
  TestTree tree;
  tree.memory(256, 0);
  tree.mount("0:45", "/", "rw,relatime", "overlay", "overlay", "rw,lowerdir=/l,upperdir=/u");
  tree.space("/", 100 * kGiB, 5 * kGiB, 1000, 30);
  tree.facts().io_uring_errno = EPERM;
  tree.facts().memlock_bytes = 64 * kKiB;
  tree.file("/sys/fs/cgroup/memory.max", std::to_string(32 * kGiB));
  tree.file("/sys/fs/cgroup/pids.max", "512\n");
  const Report report = examined(tree, {.paths = {"/workspace"}});
  EXPECT_THAT(of(report, Severity::kError), ElementsAre("inodes /"));
  EXPECT_THAT(of(report, Severity::kWarn),
              ElementsAre("free-space /", "cgroup-pids", "memlock", "io-uring"));
  EXPECT_THAT(of(report, Severity::kInfo), ElementsAre("overlayfs /workspace", "cgroup-memory"));
  EXPECT_EQ(report.worst(), Severity::kError);
}

TEST(Doctor, VolumesOnBtrfsAndMapperAreFollowedToTheirDrives) {
  TestTree tree;
  tree.nvme(0);
  tree.nvme(1);
  tree.file("/sys/devices/virtual/block/dm-0/dm/name", "vg-data\n");
  tree.link("/sys/devices/virtual/block/dm-0/slaves/nvme1n1p1", "/sys/class/block/nvme1n1p1");
  tree.link("/sys/block/dm-0", "/sys/devices/virtual/block/dm-0");
  tree.link("/sys/class/block/dm-0", "/sys/devices/virtual/block/dm-0");
  tree.mount("0:30", "/b", "rw,noatime", "btrfs", "/dev/nvme0n1p1");
  tree.mount("0:31", "/m", "rw,noatime", "btrfs", "/dev/mapper/vg-data");
  const Report report = examined(tree, {.paths = {"/b", "/m"}});
  EXPECT_THAT(report.paths[0].disks, ElementsAre("nvme0n1"));
  EXPECT_THAT(report.paths[1].disks, ElementsAre("nvme1n1"));
}

TEST(Doctor, LoopsAndDeadLinksInSysfsEndTheSearch) {
  TestTree tree;
  tree.file("/sys/devices/virtual/block/md0/md/level", "raid0\n");
  tree.link("/sys/block/md0", "/sys/devices/virtual/block/md0");
  tree.link("/sys/dev/block/9:0", "/sys/devices/virtual/block/md0");
  tree.link("/sys/devices/virtual/block/md0/slaves/md0", "/sys/devices/virtual/block/md0");
  tree.link("/sys/devices/virtual/block/md0/slaves/gone", "/sys/devices/gone");
  tree.mount("9:0", "/data", "rw", "xfs", "/dev/md0");
  tree.mount("8:1", "/etc", "rw", "ext4", "/dev/../../etc/passwd");
  const Report report = examined(tree, {.paths = {"/data", "/etc"}});
  EXPECT_THAT(report.paths[0].disks, IsEmpty());
  EXPECT_EQ(report.paths[1].device, "");
}

TEST(Doctor, AnEmptyTreeIsFullOfUnknownsAndNothingElse) {
  TestTree tree;
  std::filesystem::remove_all(tree.root() + "/proc");
  tree.mount("8:1", "/", "rw,noatime", "ext4", "/dev/sda1");
  tree.facts() = unknown_facts("not told");
  const Report report = examined(tree, {.paths = {"/"}, .dataset_bytes = kTiB});
  EXPECT_THAT(of(report, Severity::kUnknown),
              ElementsAre("inodes /", "free-space /", "dirty-pages", "writeback", "page-cache",
                          "memlock", "io-uring"));
  EXPECT_EQ(report.worst(), Severity::kOk);
}

TEST(Doctor, FindingsAboutOneMountProposeOneFstabLine) {
  TestTree tree;
  tree.nvme(0);
  tree.mount("259:0", "/data", "rw", "ext4", "/dev/nvme0n1", "rw,nobarrier,commit=300");
  const Report report = examined(tree, {.paths = {"/data"}});
  size_t lines = 0;
  for (const Finding& finding : report.findings) {
    for (const ConfigLine& line : finding.config) {
      if (line.file != "/etc/fstab") continue;
      EXPECT_EQ(line.line, "/dev/nvme0n1 /data ext4 rw,commit=60,noatime,barrier=1 0 2");
      ++lines;
    }
  }
  EXPECT_EQ(lines, 3u);
}

TEST(Doctor, ADeviceIsExaminedItself) {
  TestTree tree;
  healthy_drives(tree);
  tree.nvme(0, {.scheduler = "none [bfq]"});
  tree.mount("0:5", "/dev", "rw", "devtmpfs", "udev");
  const Report report = examined(tree, {.paths = {"/dev/nvme0n1"}});
  EXPECT_EQ(report.paths[0].type, "block device");
  EXPECT_EQ(report.paths[0].mount_point, "");
  EXPECT_THAT(report.paths[0].disks, ElementsAre("nvme0n1"));
  EXPECT_THAT(of(report, Severity::kWarn), ElementsAre("scheduler nvme0n1"));
  EXPECT_THAT(of(report, Severity::kInfo), ElementsAre("block-device /dev/nvme0n1"));
  EXPECT_THAT(of(report, Severity::kUnknown), IsEmpty());
  const std::string text = render_text(report, {});
  EXPECT_THAT(text, HasSubstr("a block device, not a file system · nvme0n1 Fast NVMe 4TB"));
  EXPECT_THAT(text, Not(HasSubstr("devtmpfs")));
}

TEST(Doctor, AStoppedFileSystemIsNotCalledFine) {
  TestTree tree;
  healthy_drives(tree);
  tree.nvme(0);
  tree.mount("259:0", "/data", "rw,noatime", "ext4", "/dev/nvme0n1", "rw,shutdown");
  tree.space("/data", kTiB, kTiB);
  const Report report = examined(tree, {.paths = {"/data"}});
  EXPECT_THAT(of(report, Severity::kError), ElementsAre("shut-down /data"));
  EXPECT_THAT(of(report, Severity::kOk), Not(testing::Contains(HasSubstr("/data"))));
  EXPECT_FALSE(report.paths[0].space.has_value());
  EXPECT_THAT(render_script(report), HasSubstr("\numount /data\ne2fsck -f /dev/nvme0n1"));
}

TEST(Doctor, APathOnNoMountIsRefused) {
  TestTree tree;
  const Result<Report> report = examine(tree.machine(), {.paths = {"/data"}});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, ErrorCode::kNotFound);
}

class Forms : public testing::Test {
 protected:
  Forms() {
    // A name that tries to leave a comment, a quoted word and a terminal's line.
    tree.nvme(0, {.scheduler = "[bfq]"});
    tree.mount("259:0", "/it's\\012touch\\040pwned\\033[2J", "rw", "ext4", "/dev/nvme0n1");
    tree.sysctl("vm/dirty_ratio", 40);
    report = examined(tree, {.paths = {"/it's\ntouch pwned\033[2J"}});
  }
  TestTree tree;
  Report report;
};

TEST_F(Forms, TextHasNoControlCharactersAndNoColourUnlessAsked) {
  const std::string text = render_text(report, {});
  EXPECT_EQ(text.find('\033'), std::string::npos);
  EXPECT_THAT(text, HasSubstr("WARN   Access times  /it's\\x0atouch pwned\\x1b[2J  [atime]"));
  EXPECT_THAT(text, HasSubstr("3 warnings"));
  EXPECT_THAT(render_text(report, {.colour = true}), HasSubstr("\033[1;33mWARN"));
}

TEST_F(Forms, TextKeepsToTheWidthSaveForCommands) {
  const std::string text = render_text(report, {.columns = 60});
  for (const std::string_view line : split(text, '\n')) {
    const bool prose = line.starts_with("       why");
    EXPECT_TRUE(!prose || line.size() <= 60) << line;
  }
}

// Names and commands stay whole, to be copied; everything else keeps to the width.
TEST_F(Forms, TextFitsANarrowTerminal) {
  for (const bool colour : {false, true}) {
    Report prose = report;
    prose.paths.clear();
    for (Finding& finding : prose.findings) {
      finding.commands.clear();
      finding.config.clear();
      finding.look.clear();
      if (finding.subject.size() > 20) finding.subject = "/data/of/the/group";
    }
    std::string text = render_text(prose, {.colour = colour, .columns = 40});
    for (size_t at = text.find('\033'); at != std::string::npos; at = text.find('\033'))
      text.erase(at, text.find('m', at) + 1 - at);
    // The dots and crosses of the report take two bytes and one column.
    std::erase(text, '\xc2');
    std::erase(text, '\xc3');
    for (const std::string_view line : split(text, '\n')) EXPECT_LE(line.size(), 40u) << line;
  }
}

TEST_F(Forms, TheEnvironmentNarrowsTheText) {
  const char* before = ::getenv("COLUMNS");
  const std::string saved = before == nullptr ? "" : before;
  for (const auto& [value, columns] : {std::pair<const char*, size_t>{"60", 60},
                                       {"10", 40},
                                       {"500", 90},
                                       {"0", 90},
                                       {"x", 90},
                                       {"", 90}}) {
    ::setenv("COLUMNS", value, 1);
    EXPECT_EQ(TextStyle{}.columns, columns) << value;
  }
  before == nullptr ? ::unsetenv("COLUMNS") : ::setenv("COLUMNS", saved.c_str(), 1);
}

TEST_F(Forms, ScriptKeepsForeignNamesInTheirPlace) {
  const std::string script = render_script(report);
  EXPECT_THAT(script, HasSubstr("\nmount -o remount,noatime $'/it\\'s\\x0atouch pwned\\x1b[2J'\n"));
  EXPECT_THAT(script, HasSubstr("\necho none > /sys/block/nvme0n1/queue/scheduler\n"));
  EXPECT_THAT(script, HasSubstr("READ BEFORE YOU RUN"));
  for (const std::string_view line : split(script, '\n'))
    EXPECT_FALSE(line.starts_with("touch")) << line;
}

TEST_F(Forms, NotesAreCommentedOutInTheScript) {
  Report notes;
  Finding note =
      make_finding("ext4-commit", Severity::kInfo, "/d", "commit=300", {{"mount", "/d"}});
  note.config.push_back({"/etc/x.conf", "a = 1", "", false});
  notes.findings = {note};
  const std::string script = render_script(notes);
  EXPECT_THAT(script, HasSubstr("\n# mount -o remount,commit=60 /d\n"));
  EXPECT_THAT(script, HasSubstr("\n# keep /etc/x.conf 'a = 1'\n"));
  EXPECT_THAT(render_script({}), HasSubstr("There is nothing to change."));
}

TEST_F(Forms, JsonHoldsWhatIsDocumented) {
  report.paths[0].path += "\xff";  // Not UTF-8.
  const auto json = nlohmann::json::parse(render_json(report, 10));
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["severity"], "warn");
  EXPECT_EQ(json["exit_code"], 10);
  EXPECT_EQ(json["counts"]["warn"], 3);
  EXPECT_EQ(json["findings"].size(), report.findings.size());
  const auto& first = json["findings"][0];
  EXPECT_EQ(first["id"], "atime");
  EXPECT_EQ(first["config"][0]["by_hand"], true);
  EXPECT_TRUE(first["config"][0]["replaces"].is_null());
  EXPECT_EQ(json["paths"][0]["disks"][0]["model"], "Fast NVMe 4TB");
}

TEST(SavedMachine, TakesFactsFromItsFile) {
  TestTree tree;
  tree.mount("0:60", "/lustre", "rw", "lustre", "10.0.0.1@tcp:/fs");
  tree.file("/penstock-facts.json",
            R"({"space": {"/lustre": {"total_bytes": 1000, "available_bytes": 1}},
                "lustre_striping": {"/lustre/x": "stripe_count: 1 stripe_size: 1048576"},
                "zfs": {"tank": {"compression": "off"}},
                "nvme_health": {"nvme0": {"percentage_used": 90}},
                "memlock_bytes": 65536, "io_uring_errno": 1})");
  const Result<Machine> machine = saved_machine(tree.root());
  ASSERT_TRUE(machine.ok());
  EXPECT_EQ(machine->facts().space("/lustre")->available_bytes, 1u);
  EXPECT_FALSE(machine->facts().space("/other").ok());
  EXPECT_EQ(*machine->facts().zfs_property("tank", "compression"), "off");
  EXPECT_FALSE(machine->facts().zfs_property("tank", "recordsize").ok());
  EXPECT_EQ(machine->facts().nvme_health("nvme0")->percentage_used, 90u);
  EXPECT_EQ(machine->facts().memlock_bytes, 65536u);
  EXPECT_EQ(machine->facts().io_uring_errno, 1);
  EXPECT_TRUE(machine->facts().lustre_striping("/lustre/x").ok());
}

TEST(SavedMachine, RefusesWhatIsNotATree) {
  EXPECT_FALSE(saved_machine("/nonexistent").ok());
  TestTree tree;
  for (const char* bad : {"[]", "{", "\"x\"", "\xff"}) {
    tree.file("/penstock-facts.json", bad);
    EXPECT_FALSE(saved_machine(tree.root()).ok()) << bad;
  }
}

TEST(SavedMachine, RefusesFactsOfAWrongKindByName) {
  TestTree tree;
  for (const auto& [facts, message] : std::vector<std::pair<std::string, std::string>>{
           {R"({"memlock_bytes": "x"})", "'memlock_bytes' must be a whole number from 0 on, not"},
           {R"({"memlock_bytes": -1})", "'memlock_bytes'"},
           {R"({"memlock_bytes": 1.5})", "'memlock_bytes'"},
           {R"({"memlock_bytes": null})", "'memlock_bytes'"},
           {R"({"io_uring_errno": 4294967296})", "'io_uring_errno' must be a whole number"},
           {R"({"space": []})", "'space' must be an object"},
           {R"({"space": {"/": {"total_bytes": "1"}}})", "'space./.total_bytes'"},
           {R"({"zfs": {"tank": {"compression": 1}}})", "'zfs.tank.compression' must be a text"},
           {R"({"lustre_striping": {"/l": {}}})", "'lustre_striping./l'"},
           {R"({"nvme_health": {"nvme0": "x"}})", "'nvme_health.nvme0' must be an object"}}) {
    tree.file("/penstock-facts.json", facts);
    const Result<Machine> machine = saved_machine(tree.root());
    ASSERT_FALSE(machine.ok()) << facts;
    EXPECT_EQ(machine.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(machine.error().detail, HasSubstr(message));
    EXPECT_THAT(machine.error().detail, HasSubstr("/penstock-facts.json: "));
  }
  tree.file("/penstock-facts.json", R"({"of_a_newer_version": [1]})");
  EXPECT_TRUE(saved_machine(tree.root()).ok());
}

TEST(Machine, LinksThatLeaveTheTreeLeadNowhere) {
  TestTree tree;
  std::filesystem::create_symlink("/proc", tree.root() + "/out");
  EXPECT_EQ(tree.machine().resolve("/out"), "");
  EXPECT_EQ(tree.machine().resolve("/proc/self/../self"), "/proc/self");
  EXPECT_EQ(tree.machine().resolve("/missing"), "");
}

TEST(LocalMachine, AnswersAboutThisMachine) {
  const Machine machine = local_machine();
  EXPECT_FALSE(machine.mounts().empty());
  EXPECT_GT(machine.facts().space("/")->total_bytes, 0u);
  EXPECT_TRUE(machine.facts().io_uring_errno.has_value());
  EXPECT_FALSE(machine.facts().nvme_health("nvme-that-is-not-there").ok());
  const Result<Report> report = examine(machine, {.paths = {"/"}});
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->findings.empty());
}

}  // namespace
}  // namespace penstock::tune::doctor
