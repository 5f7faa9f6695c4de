// penstock checkpoint list | show | verify | prune | copy.
#include "cli/checkpoint_command.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/output.h"
#include "tune/text.h"

namespace penstock::cli {

namespace {

constexpr const char* kFooter =
    "PATH is the directory of a run, or s3://bucket/run, pen://volume/run; or one checkpoint in "
    "it.\n"
    "How they are made, and what they promise: docs/CHECKPOINTS.md\n\n"
    "  penstock checkpoint list /nvme/run1 --also s3://bucket/run1\n"
    "  penstock checkpoint show /nvme/run1 --step 1000 --diff 2000\n"
    "  penstock checkpoint verify s3://bucket/run1\n"
    "  penstock checkpoint copy s3://bucket/run1 /nvme/run1\n"
    "  penstock checkpoint prune /nvme/run1 --keep-last 3 --keep-every 1000 --dry-run";

using ArgumentsRef = std::shared_ptr<CheckpointArguments>;

CLI::App* add_verb(CLI::App& parent, const char* name, const char* help,
                   const ArgumentsRef& arguments) {
  CLI::App* command = parent.add_subcommand(name, help);
  command
      ->add_option("PATH", arguments->path,
                   "A run, or one checkpoint in it: a directory, s3:// or pen://")
      ->type_name("")
      ->required();
  command->add_flag("--json", arguments->json, "Print JSON");
  return command;
}

void add_step(CLI::App& command, const ArgumentsRef& arguments, const char* help) {
  command.add_option("--step", arguments->step, help)
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
}

}  // namespace

int checkpoint_failed(std::string_view verb, const Error& error) {
  tell("penstock checkpoint {}: {}\n", verb, tune::doctor::printable(error.detail));
  return error.code == ErrorCode::kInvalid ? kExitUsage : kExitFailed;
}

int checkpoint_print(std::string_view verb, const std::string& text, int exit_code) {
  const Result<void> printed = print_all(text);
  return printed.ok() ? exit_code : checkpoint_failed(verb, printed.error());
}

std::string checkpoint_json(const nlohmann::json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void add_checkpoint_command(CLI::App& app, Run& run) {
  CLI::App* parent =
      app.add_subcommand("checkpoint", "Look at checkpoints: list, show, verify, prune, copy");
  parent->require_subcommand(1);
  parent->footer(kFooter);
  const auto add = [&](const char* name, const char* help,
                       int (*run_verb)(io::FileSystem&, CheckpointArguments&)) {
    const auto arguments = std::make_shared<CheckpointArguments>();
    CLI::App* command = add_verb(*parent, name, help, arguments);
    command->callback([arguments, run_verb, name, &run] {
      run = [arguments, run_verb, name] {
        const Result<io::LocalFileSystem*> fs = io::process_file_system();
        return fs.ok() ? run_verb(**fs, *arguments) : checkpoint_failed(name, fs.error());
      };
    });
    return std::pair(command, arguments);
  };
  const auto [list, list_arguments] =
      add("list", "Steps, sizes, ages, places, what is damaged", checkpoint_list);
  list->add_option("--also", list_arguments->also, "Say which of them are there too")
      ->type_name("PLACE");
  const auto [show, show_arguments] =
      add("show", "The tensors of one, or what differs in two", checkpoint_show);
  add_step(*show, show_arguments, "Which (the newest)");
  show->add_option("--diff", show_arguments->diff, "Compare with this step")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  const auto [verify, verify_arguments] =
      add("verify", "Read everything, and check it against the checksums", checkpoint_verify);
  add_step(*verify, verify_arguments, "Only this one");
  const auto [prune_app, prune_arguments] = add("prune", "Remove old ones", checkpoint_prune);
  prune_app->add_option("--keep-last", prune_arguments->keep_last, "So many stay")
      ->type_name("N")
      ->required()
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40));
  prune_app
      ->add_option("--keep-every", prune_arguments->keep_every,
                   "And steps that are multiples of this")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  const auto [copy, copy_arguments] =
      add("copy", "Copy to another place, verified on the way", checkpoint_copy);
  copy->add_option("TO", copy_arguments->to, "A directory, s3://bucket/run or pen://volume/run")
      ->type_name("")
      ->required();
  add_step(*copy, copy_arguments, "Which (the newest that is whole)");
  copy->add_flag("--all", copy_arguments->all, "All that are not there yet, oldest first")
      ->excludes("--step");
  copy->add_option("--max-bandwidth", copy_arguments->max_bandwidth, "Bytes a second")
      ->type_name("SIZE");
  prune_app->add_flag("--dry-run", prune_arguments->dry_run, "Only say what would be removed");
}

}  // namespace penstock::cli
