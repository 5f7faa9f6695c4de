#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <map>
#include <memory>

#include "cli/commands.h"
#include "cli/output.h"
#include "penstock/units.h"
#include "tune/doctor.h"

namespace penstock::cli {

namespace {

namespace doctor = tune::doctor;

// Beside the codes that all commands share: what was found.
constexpr int kExitWarnings = 10;
constexpr int kExitErrors = 20;

constexpr const char* kFooter =
    "Changes nothing. Every check: docs/DOCTOR.md\n"
    "Exit code: 0 nothing but notes, 10 warnings, 20 errors, 2 wrong usage,\n"
    "1 the examination itself failed.\n\n"
    "  penstock doctor /data --workload shards --dataset-size 1.2TB\n"
    "  penstock doctor /checkpoints --checkpoint-size 140GB --script > fixes.sh";

struct DoctorArguments {
  std::vector<std::string> paths;
  std::string checkpoint_size;
  std::string dataset_size;
  std::string workload;
  std::string root;
  bool json = false;
  bool script = false;
};

const std::map<std::string, doctor::Workload>& workloads() {
  static const std::map<std::string, doctor::Workload> table = {
      {"shards", doctor::Workload::kShards},
      {"images", doctor::Workload::kImages},
      {"video", doctor::Workload::kVideo},
      {"checkpoints", doctor::Workload::kCheckpoints},
      {"embeddings", doctor::Workload::kEmbeddings},
  };
  return table;
}

// Of a saved tree paths need not exist here: they are names on another machine.
Result<std::string> absolute_path(const std::string& path, bool saved_tree) {
  if (saved_tree) {
    if (path.starts_with("/")) return path;
    return make_error(ErrorCode::kInvalid, fmt::format("'{}': with --root, paths start with /",
                                                       doctor::printable(path)));
  }
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  if (!real) return errno_error(errno, fmt::format("'{}'", doctor::printable(path)));
  return std::string(real.get());
}

Result<doctor::DoctorOptions> make_options(const DoctorArguments& arguments) {
  doctor::DoctorOptions options;
  const bool saved_tree = !arguments.root.empty();
  std::vector<std::string> paths = arguments.paths;
  if (paths.empty()) paths.push_back(saved_tree ? "/" : ".");
  for (const std::string& path : paths) {
    std::string absolute = PENSTOCK_TRY(absolute_path(path, saved_tree));
    const auto end = options.paths.end();
    if (std::find(options.paths.begin(), end, absolute) == end)
      options.paths.push_back(std::move(absolute));
  }
  if (!arguments.checkpoint_size.empty())
    options.checkpoint_bytes = PENSTOCK_TRY(parse_size(arguments.checkpoint_size));
  if (!arguments.dataset_size.empty())
    options.dataset_bytes = PENSTOCK_TRY(parse_size(arguments.dataset_size));
  if (!arguments.workload.empty()) {
    const auto workload = workloads().find(arguments.workload);
    if (workload == workloads().end())
      return make_error(ErrorCode::kInvalid,
                        fmt::format("'{}' is not a workload: expected shards, images, video, "
                                    "checkpoints or embeddings",
                                    doctor::printable(arguments.workload)));
    options.workload = workload->second;
  }
  return options;
}

doctor::TextStyle terminal_style() {
  doctor::TextStyle style;
  const char* term = std::getenv("TERM");
  const char* no_colour = std::getenv("NO_COLOR");
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  style.colour = terminal && (no_colour == nullptr || *no_colour == '\0') &&
                 (term == nullptr || std::string_view(term) != "dumb");
  winsize size{};
  const bool said = std::getenv("COLUMNS") != nullptr;  // TextStyle begins with that.
  if (terminal && !said && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    style.columns = std::clamp<size_t>(size.ws_col, 40, 100);
  }
  return style;
}

// The command the user gave, with --script.
std::string script_command(const DoctorArguments& arguments) {
  std::string command = "penstock doctor --script";
  const auto add = [&](std::string_view option, const std::string& value) {
    if (!value.empty()) command += fmt::format(" {}{}", option, doctor::shell_quote(value));
  };
  add("--root=", arguments.root);
  add("--checkpoint-size=", arguments.checkpoint_size);
  add("--dataset-size=", arguments.dataset_size);
  add("--workload=", arguments.workload);
  for (const std::string& path : arguments.paths) {
    add(path.starts_with("-") ? "./" : "", path);
  }
  return command;
}

int exit_code_of(const doctor::Report& report) {
  const doctor::Severity worst = report.worst();
  if (worst == doctor::Severity::kError) return kExitErrors;
  return worst == doctor::Severity::kWarn ? kExitWarnings : kExitOk;
}

int fail(const Error& error, int exit_code) {
  tell("penstock doctor: {}\n", error.detail);
  return exit_code;
}

int run_doctor(const DoctorArguments& arguments) {
  const Result<doctor::DoctorOptions> options = make_options(arguments);
  if (!options) return fail(options.error(), kExitUsage);
  Result<doctor::Machine> machine = arguments.root.empty()
                                        ? Result<doctor::Machine>(doctor::local_machine())
                                        : doctor::saved_machine(arguments.root);
  if (!machine) return fail(machine.error(), kExitUsage);
  const Result<doctor::Report> report = doctor::examine(*machine, *options);
  if (!report) return fail(report.error(), kExitFailed);
  const int exit_code = exit_code_of(*report);
  doctor::TextStyle style = terminal_style();
  style.script_command = script_command(arguments);
  const std::string output = arguments.json     ? doctor::render_json(*report, exit_code)
                             : arguments.script ? doctor::render_script(*report)
                                                : doctor::render_text(*report, style);
  const Result<void> printed = print_all(output);
  if (!printed.ok()) return fail(printed.error(), kExitFailed);
  return exit_code;
}

}  // namespace

void add_doctor_command(CLI::App& app, Run& run) {
  const auto arguments = std::make_shared<DoctorArguments>();
  CLI::App* command = app.add_subcommand(
      "doctor", "Look at what decides training I/O on this machine; say what to fix, and how");
  command
      ->add_option("PATH", arguments->paths,
                   "Where data or checkpoints lie (default: the current directory)")
      ->type_name("");
  command
      ->add_option("--checkpoint-size", arguments->checkpoint_size,
                   "Size of one checkpoint, such as 140GB: sharpens the advice")
      ->type_name("SIZE");
  command
      ->add_option("--dataset-size", arguments->dataset_size,
                   "Size of the data set, such as 1.2TB: sharpens the advice")
      ->type_name("SIZE");
  command
      ->add_option("--workload", arguments->workload,
                   "shards, images, video, checkpoints or embeddings: what PATH is for")
      ->type_name("KIND");
  CLI::Option* json = command->add_flag("--json", arguments->json, "Print the report as JSON");
  command
      ->add_flag("--script", arguments->script,
                 "Print the fixes as a bash script, to read and run as root")
      ->excludes(json);
  command
      ->add_option("--root", arguments->root,
                   "Examine a saved tree: the proc, sys and etc of another machine")
      ->type_name("DIR")
      ->group("Advanced");
  command->footer(kFooter);
  command->callback([arguments, &run] { run = [arguments] { return run_doctor(*arguments); }; });
}

}  // namespace penstock::cli
