// penstock pack: class folders to tar shards, text to tokens.
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress_line.h"
#include "pack/pack_images.h"
#include "penstock/data.h"

namespace penstock::cli {

namespace {

constexpr std::string_view kFooter =
    "Examples:\n"
    "  penstock pack images imagenet/train /data/shards --max-side 512 --shuffle\n"
    "  penstock pack images photos s3://bucket/photos --shard-size 1GiB";

// Tokenizers are Python's: so is this command.
constexpr const char* kRunTokens =
    "import sys\n"
    "try:\n"
    "    from penstock.pack import main\n"
    "except ImportError as error:\n"
    "    sys.exit(f'penstock pack tokens: {error}: it needs the Python package (pip install . in "
    "Penstock\\'s folder), for {sys.executable}; PENSTOCK_PYTHON names another Python')\n"
    "sys.exit(main(['tokens', *sys.argv[1:]]))\n";

struct PackArguments {
  pack::PackOptions options;
  std::string shard_size = "256MiB";
  bool no_check = false;
  bool no_index = false;
  bool json = false;
};

int fail(const Error& error) {
  tell("penstock pack images: {}\n", error.detail);
  return error.code == ErrorCode::kCancelled ? kExitInterrupted
         : error.code == ErrorCode::kInvalid ? kExitUsage
                                             : kExitFailed;
}

std::string summary(const pack::PackReport& report, const PackArguments& arguments) {
  const pack::PackProgress& totals = report.totals;
  return fmt::format(
      "{} of {} in {}, {}; {} made smaller, {} left out\n{}",
      counted(totals.samples - report.failed, "image", "images"),
      counted(report.classes.size(), "class", "classes"), counted(totals.shards, "shard", "shards"),
      format_size(totals.bytes_out), group_digits(report.resized), group_digits(report.failed),
      fmt::format("Try: penstock load '{}/{}-*.tar' --image 224 --crop random --explain\n",
                  arguments.options.to, arguments.options.prefix));
}

std::string json(const pack::PackReport& report) {
  nlohmann::json failures = nlohmann::json::array();
  for (const pack::PackFailure& one : report.failures)
    failures.push_back({{"file", one.file}, {"reason", one.reason}});
  return nlohmann::json{{"schema", 1},
                        {"samples", report.totals.samples - report.failed},
                        {"shards", report.totals.shards},
                        {"bytes", report.totals.bytes_out},
                        {"resized", report.resized},
                        {"failed", report.failed},
                        {"failures", failures},
                        {"classes", report.classes}}
             .dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

Result<void> make_index(const pack::PackOptions& options) {
  data::OpenOptions open;
  open.cancel = options.cancel;
  PENSTOCK_TRY(data::Dataset::open({fmt::format("{}/{}-*.tar", options.to, options.prefix)}, open));
  return {};
}

int run_pack(PackArguments& arguments) {
  pack::PackOptions& options = arguments.options;
  options.cancel = stop_on_interrupt();
  const Result<uint64_t> shard_bytes = parse_size(arguments.shard_size);
  if (!shard_bytes.ok()) return fail(shard_bytes.error());
  options.shard_bytes = *shard_bytes;
  options.check = !arguments.no_check;
  ProgressLine progress("penstock pack images");
  RateMeter meter;
  options.on_progress = [&](const pack::PackProgress& now) {
    meter.add(now.samples_done);
    if (!progress.due()) return;
    const auto left = meter.time_for(now.samples - now.samples_done);
    progress.show(fmt::format("{} of {} images, {}  {} a second{}", group_digits(now.samples_done),
                              group_digits(now.samples), format_size(now.bytes_out),
                              format_count(meter.per_second()),
                              left ? fmt::format("  {} left", format_duration(*left)) : ""));
  };
  const Result<pack::PackReport> report = pack::pack_images(options);
  progress.clear();
  if (!report.ok()) return fail(report.error());
  if (!arguments.no_index) {
    const Result<void> indexed = make_index(options);
    if (!indexed.ok()) return fail(indexed.error());
  }
  for (const pack::PackFailure& one : report->failures)
    tell("penstock pack images: left out {}: {}\n", one.file, one.reason);
  const Result<void> printed =
      print_all(arguments.json ? json(*report) : summary(*report, arguments));
  return printed.ok() ? kExitOk : fail(printed.error());
}

// Does not return when it can be run.
int run_tokens(const std::vector<std::string>& words) {
  const char* chosen = std::getenv("PENSTOCK_PYTHON");
  std::string python = chosen != nullptr && *chosen != 0 ? chosen : "python3";
  std::vector<std::string> all = {python, "-c", kRunTokens};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& word : all) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(python.c_str(), arguments.data());
  tell("penstock pack tokens: cannot run {}: {}\n", python, std::strerror(errno));
  return kExitFailed;
}

void add_tokens_command(CLI::App& pack, Run& run) {
  CLI::App* command = pack.add_subcommand(
      "tokens", "Text (.jsonl, .txt, .gz, .zst) to token ids, as Megatron's .bin and .idx");
  command->prefix_command();
  command->set_help_flag();  // Passed on.
  command->callback(
      [command, &run] { run = [words = command->remaining()] { return run_tokens(words); }; });
}

}  // namespace

void add_pack_command(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<PackArguments>();
  CLI::App* pack = app.add_subcommand("pack", "Make shards of many small files");
  pack->require_subcommand(1);
  add_tokens_command(*pack, run);
  CLI::App* command =
      pack->add_subcommand("images", "Class folders to tar shards, with their index");
  pack::PackOptions& options = arguments->options;
  command->add_option("FROM", options.from, "A folder per class, or images")
      ->required()
      ->type_name("");
  command->add_option("TO", options.to, "A directory, s3:// or pen://")->required()->type_name("");
  command->add_option("--shard-size", arguments->shard_size, "Of each shard, about")
      ->type_name("SIZE");
  command->add_option("--prefix", options.prefix, "What names of shards begin with");
  command
      ->add_option("--max-side", options.max_side,
                   "Make larger images smaller, and JPEG: decoding is what training waits for")
      ->type_name("PIXELS");
  command->add_option("--quality", options.quality, "Of JPEGs that are made")
      ->check(CLI::Range(1, 100));
  command->add_flag("--shuffle", options.shuffle,
                    "Mix the classes, so that any order is a good one");
  command->add_option("--seed", options.seed, "Of --shuffle")->type_name("N");
  command->add_flag("--names", options.names, "Keep where each came from, as .json");
  command->add_flag("--no-check", arguments->no_check, "Do not decode what is only copied");
  command->add_flag("--no-index", arguments->no_index, "Do not make the index");
  command->add_option("--threads", options.threads, "Default: the cores")->type_name("N");
  command->add_flag("--json", arguments->json, "Print JSON");
  command->footer(std::string(kFooter));
  command->callback([arguments, &run] { run = [arguments] { return run_pack(*arguments); }; });
}

}  // namespace penstock::cli
