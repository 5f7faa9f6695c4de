// penstock doctor: looks at what decides training I/O and says what it found. Never changes
// anything.
//
//   Machine machine = local_machine();
//   Report report = examine(machine, {.paths = {"/data"}, .checkpoint_bytes = 140 * kGiB});
//   fmt::print("{}", render_text(report, {}));
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/io.h"
#include "tune/finding.h"
#include "tune/machine.h"

namespace penstock::tune::doctor {

enum class Workload : uint8_t { kAny, kShards, kImages, kVideo, kCheckpoints, kEmbeddings };

struct DoctorOptions {
  std::vector<std::string> paths;  // Absolute, links followed.
  uint64_t checkpoint_bytes = 0;   // 0: not told.
  uint64_t dataset_bytes = 0;      // 0: not told.
  Workload workload = Workload::kAny;

  bool writes_checkpoints() const {
    return checkpoint_bytes != 0 || workload == Workload::kCheckpoints;
  }
};

// A check reads the machine, and returns nothing where it does not apply: no NVMe drive, no finding
// about links.
struct Check {
  std::string_view name;
  Findings (*run)(const Machine& machine, const DoctorOptions& options);
};
std::span<const Check> all_checks();

// The type of a path that names a drive.
inline constexpr std::string_view kBlockDeviceType = "block device";
// The type of a path whose file system is in no mount table that this process sees.
inline constexpr std::string_view kUnseenType = "unseen";

// What stands behind a path, for the head of the report.
struct PathSummary {
  std::string path;
  std::string mount_point;  // Empty when the path names a drive.
  std::string type;
  std::string source;
  std::vector<std::string> options;
  std::string device;      // Empty when no block device stands behind it.
  std::string raid_level;  // Empty when it is not an array.
  std::vector<std::string> disks;
  std::vector<std::string> models;  // Of those disks; empty strings where unknown.
  std::optional<io::SpaceInfo> space;
};

struct MachineSummary {
  std::string kernel;
  uint64_t cores = 0;
  uint64_t memory_bytes = 0;
  std::optional<uint64_t> memory_limit_bytes;
  std::vector<std::string> gpus;
};

struct Report {
  MachineSummary machine;
  std::vector<PathSummary> paths;
  Findings findings;  // Worst first.

  Severity worst() const;  // kOk, kInfo, kWarn or kError.
  size_t count(Severity severity) const;
};

// Runs every check. kNotFound when a path lies on no mount the machine knows of.
Result<Report> examine(const Machine& machine, const DoctorOptions& options);

// As many columns as the environment says ($COLUMNS) where that is fewer than the usual 90, and no
// fewer than 40.
size_t default_columns();

struct TextStyle {
  bool colour = false;
  size_t columns = default_columns();
  std::string script_command = "penstock doctor --script";  // How to get the fixes as a script.
};
std::string render_text(const Report& report, const TextStyle& style);

// The schema is in docs/DOCTOR.md. `exit_code` is repeated in it.
std::string render_json(const Report& report, int exit_code);

// The fixes for bash, each under what it is for. Warnings and errors are live, notes are commented
// out.
std::string render_script(const Report& report);

}  // namespace penstock::tune::doctor
