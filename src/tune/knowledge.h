// What an expert knows about storage settings for training, as data: one row per thing to look at,
// with its thresholds, why it matters and how it is put right. Every tool that gives advice takes
// its numbers and words from here, so that they all say the same.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace penstock::tune {

struct Threshold {
  std::string_view name;
  double value;
  std::string_view unit;  // "%", "bytes", "KiB", "" for plain counts.
};

// A line for a configuration file, by which a fix survives a reboot.
struct ConfigTemplate {
  std::string_view file;
  std::string_view line;
};

// Texts may hold {placeholders}, filled by the check with the device or path at hand: in commands
// they arrive quoted for a shell.
struct Rule {
  std::string_view id;  // Stable: scripts and docs/DOCTOR.md refer to it.
  std::string_view title;
  std::vector<Threshold> thresholds = {};
  std::string_view why = {};
  std::string_view advice = {};                 // What to do, where no command does it alone.
  std::vector<std::string_view> commands = {};  // Change something: the fix.
  std::vector<ConfigTemplate> config = {};
  std::vector<std::string_view> look = {};  // Change nothing: show more.
};

std::span<const Rule> rules();

// Requires that there is such a rule, and such a threshold of it: the process ends otherwise.
const Rule& rule(std::string_view id);
double threshold(std::string_view rule_id, std::string_view name);

// Disks of clouds that are a network away, by what they say of themselves in sysfs.
struct CloudDisk {
  std::string_view vendor;  // A prefix; "" fits all.
  std::string_view model;   // A prefix.
  std::string_view name;    // For people.
};
std::span<const CloudDisk> cloud_disks();

// File systems that GPUDirect Storage reads without a copy in host memory.
std::span<const std::string_view> gds_block_file_systems();   // Over NVMe or NVMe-oF.
std::span<const std::string_view> gds_remote_file_systems();  // With their vendor's client.

}  // namespace penstock::tune
