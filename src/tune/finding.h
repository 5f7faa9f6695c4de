// What a check has to say.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tune/text.h"

namespace penstock::tune::doctor {

enum class Severity : uint8_t {
  kOk,       // Looked at, and fine.
  kUnknown,  // Would matter, and could not be seen.
  kInfo,     // Worth knowing; may well be what is wanted.
  kWarn,     // Costs speed, or will hurt later.
  kError,    // Loses data, or is about to stop the work.
};
std::string_view severity_name(Severity severity);  // "ok", "unknown", "info", "warn", "error"

// A line in a configuration file that makes a fix survive a reboot.
struct ConfigLine {
  std::string file;
  std::string line;
  std::string replaces;  // The line that stands there now; empty when there is none.
  bool by_hand = false;  // A file where adding a line blindly does harm, such as fstab.
  // Of an fstab line: its mount point, and the options this finding is about.
  std::string mount_point = {};
  std::vector<std::string> mount_options = {};
};

struct Finding {
  std::string id;  // The rule's.
  Severity severity = Severity::kOk;
  std::string subject;  // The mount point, path or device; empty for the machine as a whole.
  std::string title;
  std::string observed;
  std::string why;
  std::string advice;
  std::vector<std::string> commands;  // The fix, word for word; for root.
  std::vector<ConfigLine> config;
  std::vector<std::string> look;  // Commands that only show more.
};
using Findings = std::vector<Finding>;

// A finding with the rule's texts, their placeholders filled from `values` (quoted in commands).
// Fixes are left out where nothing is wrong.
Finding make_finding(std::string_view rule_id, Severity severity, std::string subject,
                     std::string observed, const Values& values = {});

// The same for what could not be seen, and why not.
Finding make_unknown(std::string_view rule_id, std::string subject, std::string reason);

}  // namespace penstock::tune::doctor
