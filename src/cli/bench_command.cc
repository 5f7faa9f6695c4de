#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <memory>

#include "base/thread_pool.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/page_file.h"
#include "penstock/buffer.h"
#include "penstock/io.h"
#include "penstock/store.h"
#include "store/object_address.h"
#include "tune/bench_facts.h"
#include "tune/bench_findings.h"
#include "tune/bench_plan.h"
#include "tune/bench_render.h"
#include "tune/bench_runner.h"
#include "tune/bench_scratch.h"
#include "tune/text.h"

namespace penstock::cli {

namespace {

using namespace penstock::tune;

struct BenchArguments {
  std::string target;
  std::string size;
  std::string seconds;
  std::string profile = "general";
  std::vector<std::string> cases;
  std::string engine = "auto";
  bool quick = false;
  bool json = false;
  std::string html;
};

// One line on the terminal that is written over and over; nothing when there is no terminal.
class ProgressLine {
 public:
  ProgressLine() : shown_(::isatty(STDERR_FILENO) == 1) {}
  ~ProgressLine() { clear(); }

  void show(const BenchProgress& progress) {
    if (!shown_) return;
    const std::string rate = progress.bytes_per_second > 0
                                 ? format_rate(progress.bytes_per_second)
                                 : format_count(progress.ops_per_second) + " per second";
    tell("\r[{}/{}] {:.60}  {}\033[K", progress.case_number, progress.case_count, progress.label,
         rate);
  }
  void clear() {
    if (shown_) tell("\r\033[K");
  }

 private:
  const bool shown_;
};

bool is_store_address(const std::string& target) {
  for (const std::string_view scheme : {"file:", "tree:", "memory:"}) {
    if (target.starts_with(scheme)) return true;
  }
  return store::is_object_address(target);
}

// "0.5": seconds, as fio takes them, up to a day.
Result<Nanoseconds> parse_case_time(const std::string& text) {
  double seconds = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, seconds, std::chars_format::fixed);
  if (parsed.ec != std::errc{} || parsed.ptr != end || !(seconds > 0) || seconds > 86400) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("--seconds {}: expected a number above 0 and up to 86400",
                                  doctor::printable(text)));
  }
  return Nanoseconds(static_cast<int64_t>(seconds * 1e9));
}

Result<BenchOptions> parse_options(const BenchArguments& arguments) {
  BenchOptions options;
  if (!arguments.size.empty()) options.size_bytes = PENSTOCK_TRY(parse_size(arguments.size));
  if (!arguments.seconds.empty()) {
    options.case_time = PENSTOCK_TRY(parse_case_time(arguments.seconds));
  }
  options.profile = PENSTOCK_TRY(parse_bench_profile(arguments.profile));
  options.quick = arguments.quick;
  for (const std::string& text : arguments.cases) {
    options.cases.push_back(PENSTOCK_TRY(parse_bench_case(text)));
  }
  return options;
}

// As many rings as jobs keep busy, and queues that hold all their requests.
io::LocalOptions engine_options(const BenchPlan& plan) {
  uint32_t jobs = 1;
  uint32_t in_flight = 1;
  for (const BenchCase& bench_case : plan.cases) {
    jobs = std::max(jobs, bench_case.jobs);
    in_flight = std::max(in_flight, bench_case.jobs * bench_case.depth);
  }
  io::LocalOptions options;
  options.threads = std::min(jobs, static_cast<uint32_t>(available_cores()));
  options.queue_depth = std::clamp(std::bit_ceil(in_flight), 256U, 4096U);
  return options;
}

Result<std::unique_ptr<io::LocalFileSystem>> open_engine(const std::string& engine,
                                                         const BenchPlan& plan) {
  io::LocalOptions options = engine_options(plan);
  if (engine != "threads") {
    options.engine = io::EngineKind::kUring;
    auto opened = io::open_local_file_system(options);
    const bool refused = !opened.ok() && opened.error().code == ErrorCode::kUnsupported;
    if (!refused || engine == "io_uring") return opened;
    tell("penstock bench: io_uring is not available here; using threads\n");
  }
  options.engine = io::EngineKind::kThreads;
  options.threads = std::clamp(options.queue_depth / 4, 32U, 256U);
  return io::open_local_file_system(options);
}

Result<void> bench_path(const BenchArguments& arguments, const BenchOptions& options,
                        const BenchContext& context, BenchReport& report) {
  const auto probe = PENSTOCK_TRY(open_plain_file_system());
  BenchPath path = PENSTOCK_TRY(inspect_bench_path(*probe, arguments.target, report.facts));
  if (path.limits.target == BenchTarget::kDirectory) {
    const auto removed = PENSTOCK_TRY(remove_bench_leftovers(*probe, path.real_path));
    for (const std::string& leftover : removed) {
      tell("penstock bench: removed {}, left by a run that was killed\n",
           doctor::printable(leftover));
    }
    for (const std::string& other : PENSTOCK_TRY(find_foreign_scratch(*probe, path.real_path))) {
      tell("penstock bench: {} is of a run on another host; remove it if that run is gone\n",
           doctor::printable(other));
    }
    // What was removed is room again.
    if (!removed.empty())
      path = PENSTOCK_TRY(inspect_bench_path(*probe, arguments.target, report.facts));
  }
  const BenchPlan plan = PENSTOCK_TRY(make_bench_plan(options, path.limits));
  const auto fs = PENSTOCK_TRY(open_engine(arguments.engine, plan));
  report.facts.engine = fs->description();
  report.profile = plan.profile;
  report.size_bytes = plan.size_bytes;
  report.case_seconds = std::chrono::duration<double>(plan.case_time).count();
  const FileBenchTarget target{*fs, path.real_path, path.limits.target, fs->registrar()};
  return run_file_bench(target, plan, context, report.results);
}

Result<void> bench_store(const BenchArguments& arguments, const BenchOptions& options,
                         const BenchContext& context, BenchReport& report) {
  const auto store = PENSTOCK_TRY(store::open_store(arguments.target, {}));
  report.facts.target = store->description();
  report.facts.kind = BenchTarget::kStore;
  const BenchPlan plan = PENSTOCK_TRY(make_bench_plan(options, {.target = BenchTarget::kStore}));
  for (const std::string& leftover : PENSTOCK_TRY(find_store_leftovers(*store))) {
    tell(
        "penstock bench: {}/{} may be left by a run that was killed; remove it if no other "
        "bench is running\n",
        store->description(), leftover);
  }
  const bool remote = arguments.target.starts_with("s3://");
  report.facts.engine = remote ? "requests by libcurl" : "a store on this machine";
  report.profile = plan.profile;
  report.size_bytes = plan.size_bytes;
  report.case_seconds = std::chrono::duration<double>(plan.case_time).count();
  return run_store_bench(*store, plan, context, report.results);
}

int fail(const Error& error) {
  tell("penstock bench: {}\n", doctor::printable(error.detail));
  const bool usage = error.code == ErrorCode::kInvalid || error.code == ErrorCode::kNotFound;
  return usage ? kExitUsage : kExitFailed;
}

int print_report(const BenchArguments& arguments, const BenchReport& report) {
  const Result<void> page = write_page("bench", arguments.html, render_bench_html(report));
  const Result<void> printed =
      print_all(arguments.json ? render_bench_json(report) : render_bench_table(report));
  if (!page.ok()) return fail(page.error());
  // Whoever closed the pipe has seen enough.
  if (!printed.ok() && printed.error().os_errno == EPIPE) return kExitFailed;
  return printed.ok() ? kExitOk : fail(printed.error());
}

int run_bench(BenchArguments arguments) {
  BenchContext context;
  context.stop = stop_on_interrupt();
  const Result<BenchOptions> options = parse_options(arguments);
  if (!options.ok()) return fail(options.error());
  Result<std::string> path = resolve_page_path(arguments.html, {arguments.target});
  if (!path.ok()) return fail(path.error());
  arguments.html = std::move(*path);

  ProgressLine progress;
  context.progress = [&progress](const BenchProgress& now) { progress.show(now); };
  BenchReport report;
  report.facts = collect_machine_facts();
  report.facts.version = PENSTOCK_VERSION;
  const bool on_store = is_store_address(arguments.target);
  const Result<void> ran = on_store ? bench_store(arguments, *options, context, report)
                                    : bench_path(arguments, *options, context, report);
  progress.clear();
  report.interrupted = context.stop.stop_requested();
  if (!ran.ok() && !report.interrupted) {
    if (report.results.empty()) return fail(ran.error());
    report.error = ran.error().detail;
  }
  if (report.interrupted && report.results.empty()) return kExitInterrupted;
  report.findings = find_findings(report.results, report.facts);
  const int printed = print_report(arguments, report);
  if (report.interrupted) return kExitInterrupted;
  return ran.ok() ? printed : fail(ran.error());
}

}  // namespace

void add_bench_command(CLI::App& app, Run& run) {
  auto* command =
      app.add_subcommand("bench", "Measure storage: a directory, file, device or s3://");
  auto arguments = std::make_shared<BenchArguments>();
  command->footer(
      "What the results mean: docs/BENCH.md\n\n"
      "  penstock bench /data\n"
      "  penstock bench /data --profile checkpoint --size 64GiB --html report.html\n"
      "  penstock bench /data/shard-000.tar --case read:random:direct:4KiB:32\n"
      "  penstock bench s3://bucket/prefix --json");
  command
      ->add_option("TARGET", arguments->target,
                   "A directory (data is written below it and removed), an existing file or block "
                   "device (only read), or s3://bucket/prefix")
      ->required();
  command->add_option(
      "--size", arguments->size,
      "Size of the test file, or of all objects together (1GiB, or less where there "
      "is less room). Make it larger than a drive's fast part to see a write cliff");
  command->add_option("--seconds", arguments->seconds, "Time for each case (0.5)");
  command->add_option("--profile", arguments->profile,
                      "What to imitate: general, checkpoint, shards, images, embeddings or logs");
  command->add_option(
      "--case", arguments->cases,
      "Measure only this; may be repeated. OP:PATTERN:MODE:BLOCK:DEPTH[xJOBS], as in "
      "read:random:direct:4KiB:32 or write:sequential:buffered:1MiB:8");
  command->add_option("--engine", arguments->engine, "How requests reach the kernel")
      ->check(CLI::IsMember({"auto", "io_uring", "threads"}));
  command->add_flag("--quick", arguments->quick, "A rough look within ten seconds");
  command->add_flag("--json", arguments->json, "Print JSON (docs/BENCH.md) instead of the table");
  command->add_option("--html", arguments->html, "Also write a page with plots to this file");
  command->callback([arguments, &run] { run = [arguments] { return run_bench(*arguments); }; });
}

}  // namespace penstock::cli
