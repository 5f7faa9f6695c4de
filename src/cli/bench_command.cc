#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <memory>

#include "base/thread_pool.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "penstock/buffer.h"
#include "penstock/io.h"
#include "penstock/store.h"
#include "tune/bench_facts.h"
#include "tune/bench_findings.h"
#include "tune/bench_plan.h"
#include "tune/bench_render.h"
#include "tune/bench_runner.h"
#include "tune/bench_scratch.h"

namespace penstock::cli {

namespace {

using namespace penstock::tune;

struct BenchArguments {
  std::string target;
  std::string size;
  double seconds = 0;
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
    fmt::print(stderr, "\r[{}/{}] {:.60}  {}\033[K", progress.case_number, progress.case_count,
               progress.label, rate);
    std::fflush(stderr);
  }
  void clear() {
    if (shown_) fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
  }

 private:
  const bool shown_;
};

bool is_store_address(const std::string& target) {
  for (const std::string_view scheme : {"s3://", "file:", "tree:", "memory:"}) {
    if (target.starts_with(scheme)) return true;
  }
  return false;
}

Result<BenchOptions> parse_options(const BenchArguments& arguments) {
  BenchOptions options;
  if (!arguments.size.empty()) options.size_bytes = PENSTOCK_TRY(parse_size(arguments.size));
  if (arguments.seconds != 0) {
    options.case_time = Nanoseconds(static_cast<int64_t>(arguments.seconds * 1e9));
  }
  options.profile = PENSTOCK_TRY(parse_bench_profile(arguments.profile));
  options.quick = arguments.quick;
  for (const std::string& text : arguments.cases) {
    options.cases.push_back(PENSTOCK_TRY(parse_bench_case(text)));
  }
  return options;
}

// Found out before half a minute of measuring, not after.
Result<void> check_html_path(const std::string& path) {
  if (path.empty()) return {};
  const std::string parent = io::parent_path(path);
  if (::access(parent.c_str(), W_OK) != 0) return errno_error(errno, "write to " + parent);
  return {};
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
    fmt::print(stderr, "penstock bench: io_uring is not available here; using threads\n");
  }
  options.engine = io::EngineKind::kThreads;
  options.threads = std::clamp(options.queue_depth / 4, 32U, 256U);
  return io::open_local_file_system(options);
}

Result<void> bench_path(const BenchArguments& arguments, const BenchOptions& options,
                        const BenchContext& context, BenchReport& report) {
  const auto probe = PENSTOCK_TRY(io::open_local_file_system({}));
  const BenchPath path = PENSTOCK_TRY(inspect_bench_path(*probe, arguments.target, report.facts));
  if (path.limits.target == BenchTarget::kDirectory) {
    const auto removed = PENSTOCK_TRY(remove_bench_leftovers(*probe, path.real_path));
    for (const std::string& leftover : removed) {
      fmt::print(stderr, "penstock bench: removed {}, left by a run that was killed\n", leftover);
    }
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
    fmt::print(stderr,
               "penstock bench: {}/{} may be left by a run that was killed; remove it if no other "
               "bench is running\n",
               store->description(), leftover);
  }
  report.facts.engine = "requests by libcurl";
  report.profile = plan.profile;
  report.size_bytes = plan.size_bytes;
  report.case_seconds = std::chrono::duration<double>(plan.case_time).count();
  return run_store_bench(*store, plan, context, report.results);
}

Result<void> write_html(const std::string& path, const BenchReport& report) {
  if (path.empty()) return {};
  const auto fs = PENSTOCK_TRY(io::open_local_file_system({}));
  return io::write_file_durably(*fs, path, render_bench_html(report));
}

int fail(const Error& error) {
  fmt::print(stderr, "penstock bench: {}\n", error.detail);
  return error.code == ErrorCode::kInvalid ? kExitUsage : kExitFailed;
}

int print_report(const BenchArguments& arguments, const BenchReport& report) {
  const std::string text = arguments.json ? render_bench_json(report) : render_bench_table(report);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  const Result<void> written = write_html(arguments.html, report);
  if (!written.ok()) return fail(written.error());
  if (!arguments.html.empty()) fmt::print(stderr, "penstock bench: wrote {}\n", arguments.html);
  return kExitOk;
}

int run_bench(const BenchArguments& arguments) {
  BenchContext context;
  context.stop = stop_on_interrupt();
  const Result<BenchOptions> options = parse_options(arguments);
  if (!options.ok()) return fail(options.error());
  const Result<void> writable = check_html_path(arguments.html);
  if (!writable.ok()) return fail(writable.error());

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
  report.findings = find_findings(report.results);
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
  command->add_option("--seconds", arguments->seconds, "Time for each case (0.5)")
      ->check(CLI::PositiveNumber);
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
