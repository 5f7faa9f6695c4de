// penstock volume recover: what a journal holds that cannot be replayed any more.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress_line.h"
#include "cli/volume_command.h"
#include "tune/text.h"
#include "volume/recover.h"

namespace penstock::cli {

namespace {

using tune::doctor::printable;

Result<volume::RecoverReport> recover(const VolumeArguments& arguments) {
  const volume::Registry registry = PENSTOCK_TRY(user_registry());
  const volume::VolumeAddress address = PENSTOCK_TRY(registry.resolve(arguments.name));
  io::FileSystem* const fs = PENSTOCK_TRY(io::process_file_system());
  const std::string to = std::filesystem::absolute(arguments.to).lexically_normal().string();
  return volume::recover_journal(*fs, address.directory, {.to = to, .discard = arguments.discard});
}

std::string recover_text(const VolumeArguments& arguments, const volume::RecoverReport& report) {
  std::string text;
  for (const std::string& what : report.damage) text += printable(what) + "\n";
  text += fmt::format(
      "{} and {} of {} saved in {}\n", counted(report.operations, "operation", "operations"),
      format_size(report.bytes), counted(report.files, "file", "files"), printable(arguments.to));
  if (!report.set_aside.empty()) {
    text += fmt::format(
        "the journal is {} now, and the volume opens without it; next: penstock volume fsck {}\n",
        printable(report.set_aside), printable(arguments.name));
  }
  return text;
}

}  // namespace

CLI::App* add_volume_recover(CLI::App& volume, const std::shared_ptr<VolumeArguments>& arguments) {
  CLI::App* command = volume.add_subcommand(
      "recover", "Save what the journal holds, when a volume does not open because of it");
  command->add_option("NAME", arguments->name, "The volume")->type_name("")->required();
  command->add_option("--to", arguments->to, "A new directory for it")
      ->type_name("DIR")
      ->required();
  command->add_flag("--discard", arguments->discard,
                    "Then put the journal aside, under another name, so that the volume opens "
                    "again");
  command->add_flag("--json", arguments->json, "Print JSON (docs/VOLUMES.md)");
  command->footer(
      "In DIR: operations.jsonl (what was done, in order), files/ (what was written, by name) and "
      "inodes/ (by\n"
      "number, where the name is not known). Without --discard the volume is not changed.\n"
      "Exit code: 0 all that the journal holds is saved, 1 not all of it, or it failed, 2 wrong "
      "usage.");
  return command;
}

int run_volume_recover(const VolumeArguments& arguments) {
  const Result<volume::RecoverReport> report = recover(arguments);
  if (!report.ok()) return fail_volume("recover", report.error());
  const nlohmann::json json = {{"schema", 1},
                               {"operations", report->operations},
                               {"files", report->files},
                               {"bytes", report->bytes},
                               {"damage", report->damage},
                               {"set_aside", report->set_aside}};
  return print_volume("recover",
                      arguments.json ? json_text(json) : recover_text(arguments, *report),
                      report->damage.empty() ? kExitOk : kExitFailed);
}

}  // namespace penstock::cli
