// penstock load: runs a loader without a model, and says what a GPU would wait for.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/load_fields.h"
#include "cli/load_html.h"
#include "cli/output.h"
#include "cli/page_file.h"
#include "cli/progress_line.h"
#include "loader/explain.h"
#include "loader/order.h"
#include "loader/shuffle_quality.h"
#include "penstock/loader.h"

namespace penstock::cli {

namespace {

constexpr std::string_view kFooter =
    "Examples:\n"
    "  penstock load 'train-{000000..000099}.tar' --batch 256 --image 224 --step-time 100ms "
    "--explain\n"
    "  penstock load s3://bucket/train/ --cache-dir /nvme/cache --bytes jpg --shuffle global\n"
    "  penstock load imagenet/train --image 224 --crop random --dtype float16 --batches 200\n"
    "  penstock load 'train-*.tar' --image 224 --time 20s --html load.html    a timeline\n"
    "  penstock load 'train-*.tar' --shuffle local --dry-run        how good is the shuffle?\n"
    "\n"
    "Without --image, --int, --text or --bytes a batch has the bytes of every field of the first "
    "sample.";

struct LoadArguments {
  std::vector<std::string> sources;
  FieldArguments fields;
  uint32_t batch = 256;
  std::string shuffle = "none";
  uint64_t seed = 0;
  uint32_t rank = 0;
  uint32_t world_size = 1;
  uint32_t streams = loader::kStreamsDefault;
  std::string window = "16MiB";
  std::string last = "drop";
  uint32_t threads = 0;
  bool tune = false;
  std::string memory = "2GiB";
  std::string page_cache = "auto";
  std::vector<std::string> cache_dirs;
  std::string cache_quota = "80%";
  std::string format = "auto";
  bool skip_errors = false;
  uint64_t batches = 0;
  std::string time;
  std::string step_time;
  bool explain = false;
  bool dry_run = false;
  bool json = false;
  std::string html;
};

Result<loader::PageCache> parse_page_cache(const std::string& name) {
  constexpr std::string_view kNames[] = {"auto", "buffered", "uncached", "direct"};
  const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found != std::end(kNames)) return static_cast<loader::PageCache>(found - std::begin(kNames));
  return make_error(ErrorCode::kInvalid,
                    fmt::format("--page-cache {}: auto, buffered, uncached or direct", name));
}

Result<loader::LoaderOptions> make_options(const LoadArguments& arguments) {
  loader::LoaderOptions options;
  options.sources = {{arguments.sources, 1}};
  options.batch_size = arguments.batch;
  options.shuffle = PENSTOCK_TRY(loader::parse_shuffle(arguments.shuffle));
  options.seed = arguments.seed;
  options.rank = arguments.rank;
  options.world_size = arguments.world_size;
  options.streams = arguments.streams;
  options.window_bytes = PENSTOCK_TRY(parse_size(arguments.window));
  options.last = PENSTOCK_TRY(loader::parse_last(arguments.last));
  options.threads = arguments.threads;
  options.tune = arguments.tune;
  options.memory_bytes = PENSTOCK_TRY(parse_size(arguments.memory));
  options.page_cache = PENSTOCK_TRY(parse_page_cache(arguments.page_cache));
  options.on_error = arguments.skip_errors ? loader::OnError::kSkip : loader::OnError::kRaise;
  options.open.format = PENSTOCK_TRY(data::parse_format(arguments.format));
  return options;
}

Result<void> open_cache(const LoadArguments& arguments, loader::LoaderOptions& options) {
  if (arguments.cache_dirs.empty()) return {};
  cache::CacheOptions cache;
  cache.directories = arguments.cache_dirs;
  cache.quota = PENSTOCK_TRY(parse_size_or_percent(arguments.cache_quota));
  options.open.cache = PENSTOCK_TRY(cache::Cache::open(cache));
  return {};
}

nlohmann::json report_json(const loader::Report& report, const loader::Explanation& explanation) {
  const auto seconds = [](Nanoseconds time) { return std::chrono::duration<double>(time).count(); };
  nlohmann::json skipped = nlohmann::json::array();
  for (const loader::Skipped& one : report.skipped_list) {
    skipped.push_back({{"shard", one.shard}, {"key", one.key}, {"reason", one.reason}});
  }
  nlohmann::json cache;  // Null without one.
  if (report.cache) {
    cache = {{"hits", report.cache->hits + report.cache->memory_hits},
             {"misses", report.cache->misses},
             {"hit_bytes", report.cache->hit_bytes + report.cache->memory_hit_bytes},
             {"miss_bytes", report.cache->miss_bytes},
             {"source_bytes", report.cache->source_bytes}};
  }
  nlohmann::json staged;
  if (report.staged) {
    staged = {{"bytes", report.staged->bytes},
              {"failed_bytes", report.staged->failed_bytes},
              {"ahead_bytes", report.staged->ahead_bytes}};
  }
  return {{"schema", 1},
          {"batches", report.batches},
          {"samples", report.samples},
          {"bytes_read", report.bytes_read},
          {"reads", report.reads},
          {"seconds", seconds(report.elapsed)},
          {"samples_per_second", explanation.samples_per_second},
          {"first_batch_seconds", seconds(report.first_batch)},
          {"next_p50_seconds", seconds(report.next_p50)},
          {"next_p99_seconds", seconds(report.next_p99)},
          {"next_max_seconds", seconds(report.next_max)},
          {"ready_mean", report.ready_mean},
          {"threads", report.threads},
          {"decode_busy_seconds", seconds(report.decode_busy)},
          {"read_busy_seconds", seconds(report.read_busy)},
          {"worker_wait_seconds", seconds(report.worker_wait)},
          {"storage_busy_seconds", seconds(report.storage_busy)},
          {"memory_wait_seconds", seconds(report.memory_wait)},
          {"memory_peak_bytes", report.memory_peak_bytes},
          {"page_cache", report.page_cache},
          {"cache", cache},
          {"staged", staged},
          {"skipped", report.skipped},
          {"skipped_list", skipped},
          {"limit", loader::limit_name(explanation.limit)},
          {"verdict", explanation.verdict},
          {"advice", explanation.advice}};
}

// Runs it until enough was seen.
class LoadRun {
 public:
  LoadRun(const LoadArguments& arguments, loader::Loader& loader, std::stop_token stop)
      : arguments_(arguments),
        loader_(loader),
        stop_(std::move(stop)),
        progress_("penstock load") {}

  Result<void> run() {
    if (!arguments_.step_time.empty()) step_ = PENSTOCK_TRY(parse_duration(arguments_.step_time));
    Deadline end = kNoDeadline;
    if (!arguments_.time.empty()) end = deadline_in(PENSTOCK_TRY(parse_duration(arguments_.time)));
    const uint64_t wanted = arguments_.batches > 0 ? arguments_.batches : loader_.steps();
    uint64_t done = 0;
    while (done < wanted && !stop_.stop_requested() && std::chrono::steady_clock::now() < end) {
      const auto batch = loader_.next(deadline_in(std::chrono::milliseconds(200)));
      if (!batch.ok() && batch.error().code == ErrorCode::kTimeout) continue;
      if (!batch.ok()) return batch.error();
      timeline_.look(loader_);
      if (*batch == nullptr) continue;
      ++done;
      show(done, wanted);
      if (step_) std::this_thread::sleep_for(*step_);
    }
    progress_.clear();
    timeline_.finish(loader_);
    return {};
  }

  std::string html() const {
    LoadPage page;
    for (const std::string& source : arguments_.sources)
      page.source += (page.source.empty() ? "" : " ") + source;
    page.options = fmt::format("batches of {}, shuffle {}", arguments_.batch, arguments_.shuffle);
    if (step_) page.options += fmt::format(", a step takes {}", format_duration(*step_));
    page.report = loader_.report();
    page.explanation = loader::explain(page.report, step_, arguments_.batch);
    page.moments = timeline_.moments();
    return render_load_html(page);
  }

  std::string text() const {
    const loader::Report report = loader_.report();
    const loader::Explanation explanation = loader::explain(report, step_, arguments_.batch);
    if (arguments_.json) {
      return report_json(report, explanation)
                 .dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
             "\n";
    }
    const std::string all = loader::to_text(report, explanation);
    return arguments_.explain ? all : all.substr(0, all.find('\n') + 1);
  }

 private:
  void show(uint64_t done, uint64_t wanted) {
    meter_.add(done * arguments_.batch);
    if (!progress_.due()) return;
    progress_.show(fmt::format("batch {} of {}  {} samples/s", done, wanted,
                               format_count(meter_.per_second())));
  }

  const LoadArguments& arguments_;
  loader::Loader& loader_;
  const std::stop_token stop_;
  ProgressLine progress_;
  RateMeter meter_;
  LoadTimeline timeline_;
  std::optional<Nanoseconds> step_;
};

int fail(const Error& error) {
  tell("penstock load: {}\n", error.detail);
  return error.code == ErrorCode::kCancelled ? kExitInterrupted
         : error.code == ErrorCode::kInvalid ? kExitUsage
                                             : kExitFailed;
}

// The order alone: no sample is read but the first, which tells how long that takes.
Result<std::string> dry_run(const LoadArguments& arguments, loader::Loader& loader,
                            const loader::LoaderOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  PENSTOCK_TRY(loader.next());
  const Nanoseconds first = std::chrono::steady_clock::now() - begin;
  std::vector<uint64_t> samples;
  for (const data::Shard& shard : loader.datasets()[0]->shards()) samples.push_back(shard.samples);
  const loader::State state = loader.state();
  const loader::Order order({.shuffle = options.shuffle,
                             .seed = options.seed,
                             .streams = options.streams,
                             .window_samples = state.window_samples},
                            samples);
  const loader::ShuffleQuality quality =
      loader::measure_shuffle(order, samples, uint64_t{options.batch_size} * options.world_size);
  if (arguments.json) {
    return nlohmann::json{{"schema", 1},
                          {"samples", loader.samples()},
                          {"shards", samples.size()},
                          {"steps", loader.steps()},
                          {"first_batch_seconds", std::chrono::duration<double>(first).count()},
                          {"shards_per_batch", quality.shards_per_batch},
                          {"shards_per_batch_perfect", quality.shards_per_batch_perfect},
                          {"neighbours_apart", quality.neighbours_apart}}
               .dump(2) +
           "\n";
  }
  return fmt::format(
      "{} in {}; {} of {} for each of {}\n"
      "shuffle {}: {:.1f} shards in a step's batch (a perfect shuffle: {:.1f}); samples that lie "
      "side by "
      "side come {:.1f} % of an epoch apart (perfect: 33.3 %)\n"
      "first batch after {}\n",
      counted(loader.samples(), "sample", "samples"), counted(samples.size(), "shard", "shards"),
      counted(loader.steps(), "step", "steps"), options.batch_size,
      counted(options.world_size, "rank", "ranks"), loader::shuffle_name(options.shuffle),
      quality.shards_per_batch, quality.shards_per_batch_perfect, quality.neighbours_apart * 100,
      format_duration(first));
}

int run_load(const LoadArguments& arguments) {
  const std::stop_token stop = stop_on_interrupt();
  Result<loader::LoaderOptions> options = make_options(arguments);
  if (!options.ok()) return fail(options.error());
  const Result<std::string> html = resolve_page_path(arguments.html, arguments.sources);
  if (!html.ok()) return fail(html.error());
  const Result<void> cached = open_cache(arguments, *options);
  if (!cached.ok()) return fail(cached.error());
  options->open.cancel = stop;
  ProgressLine indexing("penstock load");
  options->open.on_progress = [&](const data::OpenProgress& now) {
    if (!indexing.due() || now.bytes == 0) return;
    indexing.show(fmt::format("indexing: {} of {}, {}", now.shards_indexed,
                              counted(now.shards, "shard", "shards"),
                              format_share(now.bytes_done, now.bytes)));
  };
  Result<std::vector<loader::Field>> fields =
      make_fields(arguments.fields, arguments.sources, *options);
  if (!fields.ok()) return fail(fields.error());
  options->fields = std::move(*fields);
  const Result<std::unique_ptr<loader::Loader>> opened = loader::Loader::open(*options);
  indexing.clear();
  if (!opened.ok()) return fail(opened.error());
  loader::Loader& loader = **opened;
  for (const std::string& warning : loader.warnings()) tell("penstock load: {}\n", warning);
  if (arguments.dry_run) {
    const Result<std::string> text = dry_run(arguments, loader, *options);
    if (!text.ok()) return fail(text.error());
    return print_all(*text).ok() ? kExitOk : kExitFailed;
  }
  LoadRun run(arguments, loader, stop);
  const Result<void> ran = run.run();
  const Result<void> page = write_page("load", *html, run.html());
  const Result<void> printed = print_all(run.text());
  if (!ran.ok()) return fail(ran.error());
  if (!page.ok()) return fail(page.error());
  if (!printed.ok()) return fail(printed.error());
  return stop.stop_requested() ? kExitInterrupted : kExitOk;
}

void add_order(CLI::App& command, LoadArguments& arguments) {
  command.add_option("--shuffle", arguments.shuffle, "none, global, local or resampled")
      ->type_name("HOW");
  command.add_option("--seed", arguments.seed, "Of the order and of what is random")
      ->type_name("N");
  command.add_option("--rank", arguments.rank, "Which of the ranks this is")->type_name("N");
  command.add_option("--world-size", arguments.world_size, "How many ranks there are")
      ->type_name("N");
  command.add_option("--streams", arguments.streams, "Of --shuffle local")->type_name("N");
  command.add_option("--window", arguments.window, "Of --shuffle local: shuffled within")
      ->type_name("SIZE");
  command.add_option("--last", arguments.last, "What is left over: drop, pad or exact")
      ->type_name("HOW");
}

void add_resources(CLI::App& command, LoadArguments& arguments) {
  command.add_option("--threads", arguments.threads, "That decode (default: the cores)")
      ->type_name("N");
  command.add_flag("--tune", arguments.tune, "Find the best number of threads by trying, first");
  command.add_option("--memory", arguments.memory, "Ceiling on all buffers")->type_name("SIZE");
  command
      .add_option("--page-cache", arguments.page_cache,
                  "auto, buffered, uncached or direct (auto: by size and free memory)")
      ->type_name("HOW");
  command.add_option("--cache-dir", arguments.cache_dirs, "Disk cache; again for each drive")
      ->type_name("DIR");
  command.add_option("--cache-quota", arguments.cache_quota, "Of each cache directory")
      ->type_name("SIZE|%");
}

}  // namespace

void add_load_command(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<LoadArguments>();
  CLI::App* command =
      app.add_subcommand("load", "Run a loader without a model: what would a GPU wait for?");
  command
      ->add_option("SOURCE", arguments->sources,
                   "Shards, a folder, files: paths, patterns, brace lists, s3://, pen://")
      ->required()
      ->type_name("");
  command->add_option("--batch", arguments->batch, "Samples per batch")->type_name("N");
  add_field_options(*command, arguments->fields);
  add_order(*command, *arguments);
  add_resources(*command, *arguments);
  command->add_option("--format", arguments->format, "auto, tar, tfrecord, folder or files");
  command->add_flag("--skip-errors", arguments->skip_errors,
                    "Leave out samples that cannot be read or decoded, and list them");
  command->add_option("--batches", arguments->batches, "Stop after so many (default: an epoch)")
      ->type_name("N");
  command->add_option("--time", arguments->time, "Stop after so long, as in 30s")
      ->type_name("TIME");
  command
      ->add_option("--step-time", arguments->step_time,
                   "Pretend that a training step takes so long, as in 100ms")
      ->type_name("TIME");
  command->add_flag("--explain", arguments->explain, "Where the time went, and what to change");
  command->add_flag("--dry-run", arguments->dry_run,
                    "How well the order is shuffled, and when the first batch comes");
  command->add_flag("--json", arguments->json, "Print JSON");
  command->add_option("--html", arguments->html, "Also write a page with a timeline")
      ->type_name("FILE");
  command->footer(std::string(kFooter));
  command->callback([arguments, &run] { run = [arguments] { return run_load(*arguments); }; });
}

}  // namespace penstock::cli
