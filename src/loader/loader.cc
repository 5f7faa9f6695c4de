#include "penstock/loader.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "base/thread_pool.h"
#include "loader/page_cache.h"
#include "loader/pipeline.h"
#include "loader/sequence.h"
#include "loader/stage_ahead.h"
#include "loader/token_dataset.h"
#include "loader/tuning.h"

namespace penstock::loader {

namespace {

// Batches ahead: two at least, one to hand out and one to work on. More hide the latency of reads; what
// they take beyond that is memory, time to get it, and what the CPU has in its caches. Drives that are
// read directly want some tens of MiB under way, however small the batches are.
constexpr uint32_t kAheadMin = 2;
constexpr uint32_t kAheadLocalMax = 8;
constexpr uint64_t kAheadLocalBytes = 512 * kMiB;
constexpr uint64_t kSmallBatchBytes = 4 * kMiB;
constexpr uint64_t kAheadCachedBytes = 12 * kMiB;
constexpr uint64_t kAheadCopiedBytes = 24 * kMiB;
constexpr uint64_t kAheadDriveBytes = 128 * kMiB;
constexpr uint64_t kAheadSmallMax = 256;
constexpr uint32_t kAheadRemoteMax = 64;

// What reading over the network costs, every epoch anew, and what to do about it.
std::optional<std::string> cost_of_no_cache(const LoaderOptions& options,
                                            const BatchWork::Datasets& datasets) {
  uint64_t bytes = 0;
  std::string first;
  for (const auto& dataset : datasets) {
    if (dataset->far_bytes() == 0) continue;
    if (first.empty()) first = dataset->shards().front().name;
    bytes += dataset->far_bytes();
  }
  if (bytes == 0) return std::nullopt;
  return fmt::format(
      "{} is read over the network and no cache is given: every epoch reads {} again{}. "
      "cache_dir= (--cache-dir) keeps it on a local drive, and later epochs read from there",
      first, format_size(bytes / options.world_size),
      options.world_size > 1 ? " for this rank" : "");
}

// Of a batch, as far as its samples are of usual size.
struct BatchBytes {
  uint64_t dense = 0;  // What is decoded,
  uint64_t raw = 0;    // from what is read.

  bool only_copied() const { return dense < raw / 3; }
};

BatchBytes batch_bytes(const LoaderOptions& options, uint64_t bytes, uint64_t samples) {
  return {.dense = Layout(options.fields, options.batch_size).bytes,
          .raw = options.batch_size * bytes / std::max<uint64_t>(1, samples)};
}

// Whether shards are read as mapped files. That is for bytes that are only copied, at the speed of
// memory. The data is then in the memory of this process, whose ceiling is for all there is.
bool are_mapped(const LoaderOptions& options, const PageCacheChoice& choice,
                const BatchBytes& batch, uint64_t all_bytes) {
  return choice.mode == io::CacheMode::kBuffered && choice.fits && batch.only_copied() &&
         all_bytes <= options.memory_bytes / 2;
}

class LoaderImpl final : public Loader {
 public:
  LoaderImpl(const LoaderOptions& options, Sequence sequence, BatchWork::Datasets datasets,
             std::unique_ptr<Pipeline> pipeline, std::string page_cache, std::string tuned)
      : options_(options),
        sequence_(std::move(sequence)),
        datasets_(std::move(datasets)),
        page_cache_(std::move(page_cache)),
        tuned_(std::move(tuned)),
        pipeline_(std::move(pipeline)) {
    ahead_ = options.batches_ahead > 0 ? options.batches_ahead : enough_ahead();
    if (auto cost = cost_of_no_cache(options, datasets_)) warnings_.push_back(std::move(*cost));
    stage_ = StageAhead::create(sequence_, datasets_,
                                {.shuffle = options.shuffle,
                                 .world_size = options.world_size,
                                 .is_calm = [this] { return is_calm(); }});
  }
  ~LoaderImpl() override {
    if (is_forked()) {
      leave_all();
      return;
    }
    for (const auto& dataset : datasets_) dataset->stop_reads();
    stop();
  }

  uint64_t samples() const override { return sequence_.positions(); }
  uint64_t steps() const override { return sequence_.deal(0).steps(); }
  Result<std::shared_ptr<const Batch>> next(Deadline deadline) override;
  uint64_t epoch() const override {
    const std::lock_guard lock(mutex_);
    return epoch_;
  }
  Result<void> set_epoch(uint64_t epoch) override;
  uint64_t steps_left() const override {
    const std::lock_guard lock(mutex_);
    return sequence_.deal(position_).steps();
  }
  State state() const override;
  Result<void> load_state(const State& state) override;
  Report report() const override;
  void reset_report() override { pipeline_->reset_stats(); }
  std::span<const std::shared_ptr<data::Dataset>> datasets() const override { return datasets_; }
  std::span<const std::string> warnings() const override { return warnings_; }

 private:
  // What the planner has in line for next(): a batch under way, what went wrong, or (neither) the end
  // of the epoch.
  struct Item {
    WorkRef batch;
    std::optional<Error> error;
  };

  uint32_t enough_ahead() const;
  void start();
  void stop();
  void plan(std::stop_token stop, uint64_t epoch, uint64_t begin);
  bool push(const std::stop_token& stop, Item item);
  // How short the line becomes before the planner goes on: several batches at once cost fewer wake-ups
  // than one at a time.
  uint32_t refill_at() const { return ahead_ / 2; }
  Result<Item> front(Deadline deadline);
  Result<std::shared_ptr<const Batch>> hand_over(Item item, const std::optional<Error>& error);
  void begin_asking();
  void go_to(uint64_t epoch, uint64_t position);
  bool is_calm() const;
  // After a fork the threads are not in this process, and waiting for them would take for ever.
  bool is_forked() const { return getpid() != process_; }
  Result<void> check_process() const;
  void leave_all();

  const LoaderOptions options_;
  const Sequence sequence_;
  const BatchWork::Datasets datasets_;
  const std::string page_cache_;
  const std::string tuned_;
  std::vector<std::string> warnings_;
  const pid_t process_ = getpid();
  uint32_t ahead_ = 0;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<StageAhead> stage_;  // Null without a cache.

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Item> line_;
  uint64_t epoch_ = 0;
  uint64_t position_ = 0;
  std::optional<Clock::time_point> asked_;  // When the next() began that has not answered yet.
  std::optional<Clock::time_point> left_;   // When the last one did.
  std::unique_ptr<std::jthread> planner_;   // Last: uses the others.
};

uint32_t LoaderImpl::enough_ahead() const {
  bool local = true;
  bool direct = false;
  uint64_t bytes = 0;
  uint64_t samples = 0;
  for (const auto& dataset : datasets_) {
    local &= dataset->local();
    direct |= dataset->mode() == io::CacheMode::kDirect;
    bytes += dataset->bytes();
    samples += dataset->samples();
  }
  if (!local) return kAheadRemoteMax;
  const BatchBytes each = batch_bytes(options_, bytes, samples);
  const uint64_t batch = each.dense + each.raw;
  const auto fit = [&](uint64_t all) { return all / std::max<uint64_t>(1, batch); };
  if (!direct && batch <= kSmallBatchBytes) {
    const uint32_t least = std::min(options_.threads + kAheadMin, kAheadLocalMax);
    return static_cast<uint32_t>(
        std::clamp<uint64_t>(fit(kAheadCachedBytes), least, kAheadLocalMax));
  }
  // Only copied, not decoded: as fast as memory is, and the CPU's caches are faster.
  if (!direct && each.only_copied())
    return static_cast<uint32_t>(
        std::clamp<uint64_t>(fit(kAheadCopiedBytes), kAheadMin, kAheadLocalMax));
  const uint64_t most =
      direct ? std::clamp<uint64_t>(fit(kAheadDriveBytes), kAheadLocalMax, kAheadSmallMax)
             : kAheadLocalMax;
  return static_cast<uint32_t>(std::clamp<uint64_t>(fit(kAheadLocalBytes), kAheadMin, most));
}

void LoaderImpl::start() {
  if (planner_ != nullptr) return;
  if (stage_ != nullptr) stage_->start(epoch_, position_);
  planner_ = std::make_unique<std::jthread>(
      [this, epoch = epoch_, begin = position_](std::stop_token stop) {
        set_thread_name("load-plan");
        plan(stop, epoch, begin);
      });
}

void LoaderImpl::stop() {
  if (stage_ != nullptr) stage_->stop();
  planner_.reset();  // Asks it to stop, and waits.
  line_.clear();
}

// Whether the caller finds what it asks for: then there is time for what it will ask for later.
bool LoaderImpl::is_calm() const {
  const std::lock_guard lock(mutex_);
  const auto is_ready = [this](const Item& item) {
    return item.batch == nullptr || pipeline_->ready(*item.batch);
  };
  if (line_.empty() || !is_ready(line_.front())) return false;
  return 2 * static_cast<size_t>(std::ranges::count_if(line_, is_ready)) >= line_.size();
}

void LoaderImpl::plan(std::stop_token stop, uint64_t epoch, uint64_t begin) {
  for (;; ++epoch, begin = 0) {
    const Deal deal = sequence_.deal(begin);
    const uint64_t steps = deal.steps();
    for (uint64_t step = 0; step < steps; ++step) {
      Result<WorkRef> started = pipeline_->start(sequence_.batch(epoch, deal, step), stop);
      if (stop.stop_requested()) return;
      if (stage_ != nullptr) stage_->begun();
      Item item;
      if (started.ok()) {
        item.batch = std::move(*started);
      } else {
        item.error = started.error().as_outcome();
      }
      if (!push(stop, std::move(item))) return;
    }
    if (!push(stop, {})) return;
  }
}

bool LoaderImpl::push(const std::stop_token& stop, Item item) {
  std::unique_lock lock(mutex_);
  if (line_.size() >= ahead_) {
    const Clock::time_point begin = Clock::now();
    changed_.wait(lock, stop, [this] { return line_.size() <= refill_at(); });
    pipeline_->stats()->ahead_wait.add(Clock::now() - begin);
  }
  if (stop.stop_requested()) return false;
  line_.push_back(std::move(item));
  changed_.notify_all();
  return true;
}

// Stays in line until it is handed over.
Result<LoaderImpl::Item> LoaderImpl::front(Deadline deadline) {
  std::unique_lock lock(mutex_);
  Deadline say = deadline_in(kSayAfter);
  const auto any = [this] { return !line_.empty(); };
  while (!changed_.wait_until(lock, std::min(deadline, say), any)) {
    if (Clock::now() >= deadline) return make_error(ErrorCode::kTimeout, "no batch yet", true);
    const io::BufferStats memory = pipeline_->memory();
    log_warn("no batch can be begun: is all of the memory in batches that are kept?",
             {{"memory", format_size(memory.budget_bytes)},
              {"in_use", format_size(memory.in_use_bytes)}});
    say = deadline_in(kSayAfter);
  }
  return line_.front();
}

Result<std::shared_ptr<const Batch>> LoaderImpl::next(Deadline deadline) {
  PENSTOCK_TRY(check_process());
  if (!asked_) begin_asking();
  const Item item = PENSTOCK_TRY(front(deadline));
  std::optional<Error> error = item.error;
  if (item.batch != nullptr) {
    const Result<void> waited = pipeline_->wait(*item.batch, deadline);
    if (!waited.ok()) error = waited.error();
    // Not handed over, though it may be there by now: it is the next call's.
    if (error && error->code == ErrorCode::kTimeout) return *error;
  }
  return hand_over(item, error);
}

Result<void> LoaderImpl::check_process() const {
  if (!is_forked()) return {};
  return make_error(ErrorCode::kInvalid,
                    "this loader was made before a fork, and its threads are not in this process: "
                    "make one here (it needs no worker processes)");
}

// What has threads, or is waited for by some, is the parent's: nothing of it is taken down here.
void LoaderImpl::leave_all() {
  (void)pipeline_.release();
  (void)stage_.release();
  (void)planner_.release();
  (void)new std::deque<Item>(std::move(line_));
  (void)new BatchWork::Datasets(datasets_);
  (void)new std::shared_ptr<cache::Cache>(options_.open.cache);
}

// A call that timed out and the next one are one wait.
void LoaderImpl::begin_asking() {
  asked_ = Clock::now();
  const std::shared_ptr<Stats> stats = pipeline_->stats();
  if (left_) stats->away.add(*asked_ - *left_);
  const std::lock_guard lock(mutex_);
  start();
  for (const Item& item : line_) {
    if (item.batch != nullptr && pipeline_->ready(*item.batch)) stats->ready_sum.add();
  }
  stats->next_calls.add();
}

Result<std::shared_ptr<const Batch>> LoaderImpl::hand_over(Item item,
                                                           const std::optional<Error>& error) {
  const std::shared_ptr<Stats> stats = pipeline_->stats();
  const std::lock_guard lock(mutex_);
  line_.pop_front();
  if (line_.size() <= refill_at()) changed_.notify_all();
  left_ = Clock::now();
  const Nanoseconds took = *left_ - *asked_;
  asked_.reset();
  if (item.batch == nullptr && !error) {
    ++epoch_;
    position_ = 0;
    return std::shared_ptr<const Batch>();
  }
  if (stage_ != nullptr) stage_->delivered();
  position_ += sequence_.deal(0).step_positions();
  if (error) return *error;
  stats->next.record(took);
  stats->batches.add();
  stats->samples.add(item.batch->size());
  uint64_t unset = 0;
  stats->first_batch_ns.compare_exchange_strong(
      unset, static_cast<uint64_t>(Nanoseconds(*left_ - stats->since).count()));
  return std::shared_ptr<const Batch>(std::move(item.batch));
}

void LoaderImpl::go_to(uint64_t epoch, uint64_t position) {
  stop();
  const std::lock_guard lock(mutex_);
  epoch_ = epoch;
  position_ = position;
}

Result<void> LoaderImpl::set_epoch(uint64_t epoch) {
  PENSTOCK_TRY(check_process());
  {
    const std::lock_guard lock(mutex_);
    if (epoch_ == epoch && position_ == 0) return {};
  }
  go_to(epoch, 0);
  return {};
}

State LoaderImpl::state() const {
  State state = sequence_.state();
  const std::lock_guard lock(mutex_);
  state.epoch = epoch_;
  state.position = position_;
  return state;
}

Result<void> LoaderImpl::load_state(const State& state) {
  PENSTOCK_TRY(check_process());
  State own = sequence_.state();
  own.epoch = state.epoch;
  own.position = state.position;
  if (own.to_text() != state.to_text()) {
    return make_error(
        ErrorCode::kInvalid,
        fmt::format("the state is of another order: it says {}, and this loader has {}",
                    state.to_text(), own.to_text()));
  }
  const Deal deal = sequence_.deal(state.position);
  PENSTOCK_TRY(deal.check());
  go_to(state.epoch, state.position);
  return {};
}

Report LoaderImpl::report() const {
  Report report = pipeline_->stats()->report();
  report.threads = options_.threads;
  report.memory_peak_bytes = pipeline_->memory().peak_held_bytes;
  report.page_cache = page_cache_;
  report.tuned = tuned_;
  for (const auto& dataset : datasets_) {
    if (const auto cache = dataset->cache()) report.cache = cache->stats();
  }
  if (stage_ != nullptr) report.staged = stage_->staged();
  return report;
}

// A window of each stream, decompressed, has to stay until its samples came.
Result<uint64_t> stream_memory(const LoaderOptions& options, uint64_t streams) {
  const uint64_t needed = streams * (options.window_bytes + 2 * StreamShards::kChunk);
  if (needed <= options.memory_bytes / 2) return needed;
  return make_error(
      ErrorCode::kInvalid,
      fmt::format("shuffle='local' of compressed shards keeps {} streams of {}, {} in "
                  "all: give twice that as memory, or a smaller window",
                  streams, format_size(options.window_bytes), format_size(needed)));
}

Result<std::shared_ptr<data::Dataset>> open_source(const Source& source,
                                                   const data::OpenOptions& options) {
  if (source.seq_length == 0) {
    return std::shared_ptr<data::Dataset>(
        PENSTOCK_TRY(data::Dataset::open(source.addresses, options)));
  }
  if (source.addresses.size() != 1)
    return make_error(ErrorCode::kInvalid, "a source of tokens is one PREFIX.bin and PREFIX.idx");
  return std::shared_ptr<data::Dataset>(
      PENSTOCK_TRY(TokenDataset::open(source.addresses.front(), source.seq_length, options)));
}

}  // namespace

Result<std::unique_ptr<Loader>> Loader::open(const LoaderOptions& given) {
  LoaderOptions options = given;
  PENSTOCK_TRY(check_fields(options.fields));
  std::string tuned;
  if (std::exchange(options.tune, false)) {
    const Tuning tuning = PENSTOCK_TRY(tune_threads(options, options.open.cancel));
    options.threads = tuning.threads;
    tuned = to_text(tuning);
  }
  if (options.threads == 0) options.threads = static_cast<uint32_t>(available_cores());
  BatchWork::Datasets datasets;
  std::vector<std::vector<uint64_t>> samples;
  std::vector<uint64_t> bytes;
  uint64_t all_bytes = 0;
  uint64_t all_samples = 0;
  for (const Source& source : options.sources) {
    std::shared_ptr<data::Dataset> dataset = PENSTOCK_TRY(open_source(source, options.open));
    auto& counts = samples.emplace_back();
    for (const data::Shard& shard : dataset->shards()) counts.push_back(shard.samples);
    bytes.push_back(dataset->bytes());
    all_bytes += dataset->bytes();
    all_samples += dataset->samples();
    if (dataset->sequential_only() && options.shuffle == Shuffle::kGlobal) {
      return make_error(
          ErrorCode::kUnsupported,
          "compressed shards can only be read from front to back, so shuffle='global' "
          "is not possible: use shuffle='local', or decompress them");
    }
    datasets.push_back(std::move(dataset));
  }
  bool compressed = false;
  for (const auto& dataset : datasets) compressed |= dataset->sequential_only();
  Sequence sequence = PENSTOCK_TRY(Sequence::create(options, samples, bytes, compressed));
  const PageCacheChoice choice = choose_page_cache(options.page_cache, all_bytes);
  for (const auto& dataset : datasets) dataset->set_mode(choice.mode);
  PipelineOptions pipeline;
  pipeline.fields = options.fields;
  pipeline.batch_size = options.batch_size;
  pipeline.memory_bytes = options.memory_bytes;
  pipeline.threads = options.threads;
  pipeline.on_error = options.on_error;
  // Of samples from anywhere the first batches would wait for all that is around them.
  pipeline.fills_page_cache = choice.fits && options.shuffle != Shuffle::kGlobal;
  pipeline.pin = options.pin;
  if (are_mapped(options, choice, batch_bytes(options, all_bytes, all_samples), all_bytes)) {
    for (const auto& dataset : datasets) pipeline.memory_bytes -= dataset->map_shards();
  }
  if (compressed && options.shuffle == Shuffle::kLocal) {
    pipeline.stream_bytes =
        PENSTOCK_TRY(stream_memory(options, sequence.state().streams / options.world_size));
    pipeline.memory_bytes -= pipeline.stream_bytes;
  }
  // Registering takes the memory at once, on one thread: only for who gains by it.
  bool direct = false;
  for (const auto& dataset : datasets)
    direct |= dataset->local() && dataset->mode() == io::CacheMode::kDirect;
  if (direct && options.open.file_system == nullptr)
    pipeline.registrar = PENSTOCK_TRY(io::process_file_system())->registrar();
  options.open.on_progress = {};  // What it tells may be gone from now on.
  auto made = PENSTOCK_TRY(Pipeline::create(std::move(pipeline), datasets));
  return std::unique_ptr<Loader>(std::make_unique<LoaderImpl>(options, std::move(sequence),
                                                              std::move(datasets), std::move(made),
                                                              choice.reason, std::move(tuned)));
}

}  // namespace penstock::loader
