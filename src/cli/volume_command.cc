#include "cli/volume_command.h"

#include <fmt/core.h>

#include "cli/commands.h"
#include "volume/presets.h"

namespace penstock::cli {

namespace {

using ArgumentsRef = std::shared_ptr<VolumeArguments>;

constexpr const char* kFooter =
    "NAME is a name under $PENSTOCK_HOME (default ~/.penstock), or the directory of a volume.\n"
    "What volumes are, and what they promise: docs/VOLUMES.md\n\n"
    "  penstock volume create training-data --preset shards\n"
    "  penstock volume create checkpoints --compression zstd --retention 30d --store "
    "s3://bucket/prefix\n"
    "  penstock mount training-data /mnt/data\n"
    "  penstock volume show training-data\n"
    "  penstock volume snapshot checkpoints before-cleanup\n"
    "  penstock volume clone training-data experiment --at '2026-11-14 09:00'\n"
    "  penstock volume gc checkpoints --dry-run";

std::string create_footer() {
  std::string text = "Presets:\n";
  for (const volume::Preset& preset : volume::kPresets) {
    text +=
        fmt::format("  {:<12} {} blocks, {}: {}\n", preset.name, format_size(preset.block_bytes),
                    codec::codec_name(preset.codec.codec), preset.what);
  }
  return text +
         "\n  penstock volume create training-data --preset shards\n"
         "  penstock volume create images --preset images --store s3://bucket/images --quota "
         "2TiB\n";
}

void add_name(CLI::App& command, const ArgumentsRef& arguments) {
  command.add_option("NAME", arguments->name, "The volume")->type_name("")->required();
}

void add_json(CLI::App& command, const ArgumentsRef& arguments) {
  command.add_flag("--json", arguments->json, "Print JSON (docs/VOLUMES.md)");
}

void add_settings(CLI::App& command, const ArgumentsRef& arguments) {
  command
      .add_option("--compression", arguments->compression,
                  "none, lz4 or zstd, with a level if need be: zstd:7 (lz4)")
      ->type_name("CODEC");
  command
      .add_option("--retention", arguments->retention,
                  "How long what was deleted or overwritten can still be seen: 30d, forever (0s)")
      ->type_name("TIME");
  command
      .add_option("--quota", arguments->quota_bytes,
                  "Bytes that its files may have in all; 0: as many as fit")
      ->type_name("SIZE");
  command
      .add_option("--quota-files", arguments->quota_files,
                  "Files and directories that there may be; 0: any number")
      ->type_name("N");
}

CLI::App* add_create(CLI::App& volume, const ArgumentsRef& arguments) {
  CLI::App* command = volume.add_subcommand("create", "Make a volume");
  add_name(*command, arguments);
  command->add_option("--preset", arguments->preset, "Settings that suit a kind of data (below)")
      ->type_name("PRESET");
  command
      ->add_option("--block-size", arguments->block_size,
                   "The unit of writing: a power of two, 64KiB to 16MiB (4MiB)")
      ->type_name("SIZE");
  add_settings(*command, arguments);
  command
      ->add_option("--store", arguments->store,
                   "Where content goes: s3://BUCKET/PREFIX or file:DIR (beside the metadata)")
      ->type_name("ADDRESS");
  add_json(*command, arguments);
  command->footer(create_footer());
  return command;
}

CLI::App* add_list(CLI::App& volume, const ArgumentsRef& arguments) {
  CLI::App* command = volume.add_subcommand("list", "All volumes of this user");
  add_json(*command, arguments);
  return command;
}

CLI::App* add_show(CLI::App& volume, const ArgumentsRef& arguments) {
  CLI::App* command = volume.add_subcommand(
      "show", "Settings, how much is in it, what waits to be stored and since when");
  add_name(*command, arguments);
  add_json(*command, arguments);
  command
      ->add_flag("--metrics", arguments->metrics,
                 "Print what the process that has it counted, as Prometheus text "
                 "(docs/METRICS.md)")
      ->excludes("--json");
  return command;
}

CLI::App* add_set(CLI::App& volume, const ArgumentsRef& arguments) {
  CLI::App* command = volume.add_subcommand("set",
                                            "Change settings; they hold for what is written "
                                            "from then on");
  add_name(*command, arguments);
  add_settings(*command, arguments);
  return command;
}

CLI::App* add_delete(CLI::App& volume, const ArgumentsRef& arguments) {
  CLI::App* command =
      volume.add_subcommand("delete", "Delete a volume, its content and its history");
  add_name(*command, arguments);
  command->add_flag("--yes", arguments->yes, "Do not ask");
  return command;
}

CLI::App* add_gc(CLI::App& volume, const ArgumentsRef& arguments) {
  CLI::App* command = volume.add_subcommand(
      "gc", "Delete content that nothing refers to or retains, and pack what is left of objects");
  add_name(*command, arguments);
  command->add_flag("--dry-run", arguments->dry_run, "Only say what would be done");
  add_json(*command, arguments);
  return command;
}

CLI::App* add_fsck(CLI::App& volume, const ArgumentsRef& arguments) {
  CLI::App* command =
      volume.add_subcommand("fsck", "Check that everything that files refer to is there and right");
  add_name(*command, arguments);
  command->add_flag("--quick", arguments->quick, "Do not read content: only look for it");
  command->add_flag("--repair", arguments->repair,
                    "Mend what can be without touching names or content: wrong counts, what a "
                    "crash left");
  add_json(*command, arguments);
  command->footer(
      "Exit code: 0 all is well (or was repaired), 1 something is wrong (each file is named), 2 "
      "wrong usage, 130 interrupted.");
  return command;
}

CLI::App* add_snapshot(CLI::App& volume, const ArgumentsRef& arguments) {
  CLI::App* command = volume.add_subcommand(
      "snapshot", "Keep the volume as it is now (or was), under a name, until that is removed");
  add_name(*command, arguments);
  command->add_option("SNAPSHOT", arguments->other, "Its name")->type_name("");
  command->add_option("--at", arguments->at, "As it was then: '2026-11-14 09:00', or 3h (ago)")
      ->type_name("TIME");
  command->add_flag("--remove", arguments->remove, "Let go of it");
  command->add_flag("--list", arguments->list, "Those that there are");
  add_json(*command, arguments);
  return command;
}

CLI::App* add_clone(CLI::App& volume, const ArgumentsRef& arguments) {
  CLI::App* command = volume.add_subcommand(
      "clone", "A second volume that begins as this one is (or was), and shares its content");
  add_name(*command, arguments);
  command->add_option("CLONE", arguments->other, "Its name")->type_name("")->required();
  command->add_option("--at", arguments->at, "As it was then: '2026-11-14 09:00', or 3h (ago)")
      ->type_name("TIME");
  return command;
}

}  // namespace

void add_volume_command(CLI::App& app, Run& run) {
  CLI::App* volume = app.add_subcommand(
      "volume", "Volumes: create, list, show, set, delete, gc, fsck, snapshot, clone, recover");
  volume->require_subcommand(1);
  volume->footer(kFooter);
  const auto add = [&](CLI::App* (*add_verb)(CLI::App&, const ArgumentsRef&),
                       int (*run_verb)(const VolumeArguments&)) {
    const auto arguments = std::make_shared<VolumeArguments>();
    add_verb(*volume, arguments)->callback([arguments, run_verb, &run] {
      run = [arguments, run_verb] { return run_verb(*arguments); };
    });
  };
  add(add_create, run_volume_create);
  add(add_list, run_volume_list);
  add(add_show, run_volume_show);
  add(add_set, run_volume_set);
  add(add_delete, run_volume_delete);
  add(add_gc, run_volume_gc);
  add(add_fsck, run_volume_fsck);
  add(add_snapshot, run_volume_snapshot);
  add(add_clone, run_volume_clone);
  add(add_volume_recover, run_volume_recover);
}

}  // namespace penstock::cli
