// The report for programs: JSON, and a script.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tune/doctor.h"

namespace penstock::tune::doctor {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kScriptSchema = 1;

Json to_json(const Finding& finding) {
  Json config = Json::array();
  for (const ConfigLine& line : finding.config) {
    config.push_back({{"file", line.file},
                      {"line", line.line},
                      {"replaces", line.replaces.empty() ? Json() : Json(line.replaces)},
                      {"by_hand", line.by_hand}});
  }
  return {{"id", finding.id},
          {"severity", severity_name(finding.severity)},
          {"subject", finding.subject},
          {"title", finding.title},
          {"observed", finding.observed},
          {"why", finding.why},
          {"advice", finding.advice},
          {"commands", finding.commands},
          {"config", config},
          {"look", finding.look}};
}

Json to_json(const PathSummary& path) {
  Json disks = Json::array();
  for (size_t i = 0; i < path.disks.size(); ++i)
    disks.push_back({{"name", path.disks[i]}, {"model", path.models[i]}});
  Json space;
  if (path.space) {
    space = {{"total_bytes", path.space->total_bytes},
             {"available_bytes", path.space->available_bytes},
             {"total_inodes", path.space->total_inodes},
             {"free_inodes", path.space->free_inodes}};
  }
  return {{"path", path.path},
          {"mount_point", path.mount_point},
          {"type", path.type},
          {"source", path.source},
          {"options", path.options},
          {"device", path.device.empty() ? Json() : Json(path.device)},
          {"raid_level", path.raid_level.empty() ? Json() : Json(path.raid_level)},
          {"disks", disks},
          {"space", space}};
}

Json to_json(const MachineSummary& machine) {
  return {{"kernel", machine.kernel},
          {"cores", machine.cores},
          {"memory_bytes", machine.memory_bytes},
          {"memory_limit_bytes",
           machine.memory_limit_bytes ? Json(*machine.memory_limit_bytes) : Json()},
          {"gpus", machine.gpus}};
}

// Adds lines once each: two drives may need the same sysctl.
class ScriptWriter {
 public:
  void comment(std::string_view label, std::string_view text) {
    if (!text.empty()) out_ += fmt::format("# {}{}\n", label, printable(text));
  }

  void command(std::string line, bool live) {
    if (!seen_.insert(line).second) {
      comment("As above: ", line);
    } else {
      out_ += (live ? "" : "# ") + line + "\n";
    }
  }

  void blank() { out_ += "\n"; }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
  std::set<std::string> seen_;
};

void add_config(const ConfigLine& config, bool live, ScriptWriter& script) {
  if (!config.by_hand) {
    script.command(fmt::format("keep {} {}", shell_quote(config.file), shell_quote(config.line)),
                   live);
    return;
  }
  if (config.replaces.empty()) {
    script.comment("", fmt::format("By hand, add to {}:", config.file));
  } else {
    script.comment("", fmt::format("By hand, in {}, replace", config.file));
    script.comment("    ", config.replaces);
    script.comment("", "by");
  }
  script.comment("    ", config.line);
}

void add_finding(const Finding& finding, ScriptWriter& script) {
  const bool live = finding.severity >= Severity::kWarn;
  script.blank();
  const std::string subject = finding.subject.empty() ? "" : " of " + finding.subject;
  script.comment("", fmt::format("{}: {}{}: {}", severity_name(finding.severity), finding.title,
                                 subject, finding.observed));
  script.comment("Why: ", finding.why);
  script.comment("Do: ", finding.advice);
  for (const std::string& command : finding.look) script.comment("Look: ", command);
  for (const std::string& command : finding.commands) script.command(command, live);
  for (const ConfigLine& config : finding.config) add_config(config, live, script);
}

constexpr std::string_view kScriptHead = R"bash(#!/usr/bin/env bash
# Fixes proposed by penstock doctor. READ BEFORE YOU RUN: it changes this machine's settings.
# Nothing has been changed yet. Delete what you do not want, then run the rest as root.
# What is worth knowing but may be as you want it is commented out.
set -euo pipefail
if [ "$(id -u)" -ne 0 ]; then
  echo "these commands need root" >&2
  exit 1
fi

# Adds a line to a configuration file, unless it is there.
keep() {
  mkdir -p "$(dirname "$1")"
  grep -qxF -- "$2" "$1" 2>/dev/null || printf '%s\n' "$2" >>"$1"
}
)bash";

}  // namespace

std::string render_json(const Report& report, int exit_code) {
  Json json = {{"schema", kScriptSchema},  {"severity", severity_name(report.worst())},
               {"exit_code", exit_code},   {"machine", to_json(report.machine)},
               {"paths", Json::array()},   {"counts", Json::object()},
               {"findings", Json::array()}};
  for (const PathSummary& path : report.paths) json["paths"].push_back(to_json(path));
  for (const Severity severity :
       {Severity::kError, Severity::kWarn, Severity::kInfo, Severity::kOk, Severity::kUnknown})
    json["counts"][std::string(severity_name(severity))] = report.count(severity);
  for (const Finding& finding : report.findings) json["findings"].push_back(to_json(finding));
  // Names may be any bytes; what is not UTF-8 becomes U+FFFD.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string render_script(const Report& report) {
  ScriptWriter script;
  bool any = false;
  for (const Finding& finding : report.findings) {
    if (finding.commands.empty() && finding.config.empty()) continue;
    add_finding(finding, script);
    any = true;
  }
  if (!any) {
    script.blank();
    script.comment("", "There is nothing to change.");
  }
  return std::string(kScriptHead) + script.take();
}

}  // namespace penstock::tune::doctor
