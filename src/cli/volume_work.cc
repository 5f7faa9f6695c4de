// penstock volume gc, fsck, snapshot, clone.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress_line.h"
#include "cli/volume_command.h"
#include "tune/text.h"

namespace penstock::cli {

namespace {

using tune::doctor::printable;

Result<volume::GcReport> collect(const VolumeArguments& arguments) {
  const std::stop_token cancel = stop_on_interrupt();
  const OpenVolume open = PENSTOCK_TRY(open_volume(arguments.name));
  return open.admin->gc({.dry_run = arguments.dry_run, .cancel = cancel});
}

std::string gc_text(const volume::GcReport& report, bool dry_run) {
  return fmt::format(
      "{}{} ({} in all), {} of them left by a crash; {} packed anew ({} moved); {} of history "
      "forgotten\n",
      dry_run ? "would have deleted " : "deleted ",
      counted(report.deleted + report.orphans, "object", "objects"),
      format_size(report.freed_bytes), group_digits(report.orphans),
      counted(report.compacted, "object", "objects"), format_size(report.moved_bytes),
      counted(report.rows, "row", "rows"));
}

Result<volume::FsckReport> check(const VolumeArguments& arguments) {
  const std::stop_token cancel = stop_on_interrupt();
  const OpenVolume open = PENSTOCK_TRY(open_volume(arguments.name));
  ProgressLine line("penstock volume fsck");
  volume::FsckOptions options;
  options.read_content = !arguments.quick;
  options.repair = arguments.repair;
  options.cancel = cancel;
  options.progress = [&](uint64_t files, uint64_t bytes) {
    if (!line.due()) return;
    line.show(fmt::format("{}, {} verified", counted(files, "file", "files"), format_size(bytes)));
  };
  return open.admin->fsck(options);
}

std::string fsck_text(const volume::FsckReport& report) {
  std::string text;
  for (const std::string& what : report.repaired) {
    text += fmt::format("repaired: {}\n", printable(what));
  }
  for (const volume::Finding& finding : report.findings) {
    text += fmt::format("{}{}{}\n", printable(finding.path), finding.path.empty() ? "" : ": ",
                        printable(finding.what));
  }
  return text + fmt::format("{}, {} verified: {}\n", counted(report.files, "file", "files"),
                            format_size(report.bytes),
                            report.findings.empty()
                                ? "all is well"
                                : counted(report.findings.size(), "finding", "findings"));
}

nlohmann::json fsck_json(const volume::FsckReport& report) {
  nlohmann::json findings = nlohmann::json::array();
  for (const volume::Finding& finding : report.findings) {
    findings.push_back(
        {{"volume", finding.volume}, {"path", finding.path}, {"what", finding.what}});
  }
  return {{"schema", 1},
          {"files", report.files},
          {"verified_bytes", report.bytes},
          {"findings", std::move(findings)},
          {"repaired", report.repaired}};
}

Result<std::string> snapshot(const VolumeArguments& arguments) {
  const OpenVolume open = PENSTOCK_TRY(open_volume(arguments.name));
  if (arguments.list || arguments.other.empty()) {
    nlohmann::json json = nlohmann::json::array();
    std::string text;
    for (const meta::Snapshot& one : PENSTOCK_TRY(open.admin->status(open.name)).snapshots) {
      text += fmt::format("{}  {}\n", format_time(one.time), printable(one.name));
      json.push_back({{"name", one.name},
                      {"version", one.version},
                      {"time", static_cast<double>(one.time) / 1e9}});
    }
    return arguments.json ? json_text({{"schema", 1}, {"snapshots", std::move(json)}}) : text;
  }
  if (arguments.remove) {
    PENSTOCK_TRY(open.admin->remove_snapshot(open.name, arguments.other));
    return std::string();
  }
  const std::optional<meta::Time> at = PENSTOCK_TRY(parse_at(arguments.at));
  const Result<void> made = open.admin->make_snapshot(open.name, arguments.other, at);
  if (!made.ok()) return explain_at(made.error(), at);
  return std::string();
}

Result<void> clone(const VolumeArguments& arguments) {
  const OpenVolume open = PENSTOCK_TRY(open_volume(arguments.name));
  const volume::Registry registry = PENSTOCK_TRY(user_registry());
  PENSTOCK_TRY(registry.new_directory(arguments.other));  // Before the work is done.
  const std::optional<meta::Time> at = PENSTOCK_TRY(parse_at(arguments.at));
  const Result<void> made = open.admin->clone(open.name, at, arguments.other);
  if (!made.ok()) return explain_at(made.error(), at);
  return registry.add_alias(arguments.other, {open.address.directory, arguments.other});
}

}  // namespace

int run_volume_gc(const VolumeArguments& arguments) {
  const Result<volume::GcReport> report = collect(arguments);
  if (!report.ok()) return fail_volume("gc", report.error());
  const nlohmann::json json = {{"schema", 1},
                               {"deleted", report->deleted},
                               {"orphans", report->orphans},
                               {"freed_bytes", report->freed_bytes},
                               {"compacted", report->compacted},
                               {"moved_bytes", report->moved_bytes},
                               {"rows", report->rows},
                               {"dry_run", arguments.dry_run}};
  return print_volume("gc", arguments.json ? json_text(json) : gc_text(*report, arguments.dry_run),
                      kExitOk);
}

int run_volume_fsck(const VolumeArguments& arguments) {
  const Result<volume::FsckReport> report = check(arguments);
  if (!report.ok()) return fail_volume("fsck", report.error());
  return print_volume("fsck", arguments.json ? json_text(fsck_json(*report)) : fsck_text(*report),
                      report->findings.empty() ? kExitOk : kExitFailed);
}

int run_volume_snapshot(const VolumeArguments& arguments) {
  const Result<std::string> text = snapshot(arguments);
  if (!text.ok()) return fail_volume("snapshot", text.error());
  return print_volume("snapshot", *text, kExitOk);
}

int run_volume_clone(const VolumeArguments& arguments) {
  const Result<void> cloned = clone(arguments);
  return cloned.ok() ? kExitOk : fail_volume("clone", cloned.error());
}

}  // namespace penstock::cli
