#include <fmt/core.h>

#include "base/log.h"
#include "checkpoint/commit.h"
#include "checkpoint/directory.h"
#include "checkpoint/finisher.h"
#include "checkpoint/job.h"
#include "checkpoint/names.h"
#include "checkpoint/rank_commit.h"
#include "checkpoint/save_metrics.h"
#include "checkpoint/session.h"
#include "checkpoint/stager.h"
#include "checkpoint/watched_jobs.h"
#include "penstock/checkpoint.h"

namespace penstock::checkpoint {

namespace {

using Clock = std::chrono::steady_clock;

// Waiting longer than this for earlier saves is said aloud.
constexpr Nanoseconds kWaitNoticed = std::chrono::seconds(1);

Nanoseconds since(Clock::time_point begin) {
  return Clock::now() - begin;
}

class DirectoryCheckpointer final : public Checkpointer {
 public:
  DirectoryCheckpointer(const CheckpointerOptions& options, io::FileSystem& fs,
                        std::unique_ptr<io::FileLock> lease, std::vector<Copies> places)
      : options_(options),
        fs_(fs),
        lease_(std::move(lease)),
        stager_(options.arena_bytes, options.copy_threads, options.pin),
        finisher_(fs, options, std::move(places)) {}

  ~DirectoryCheckpointer() override {
    const Result<void> closed = close();
    if (!closed.ok()) log_error("a checkpoint was not saved", {{"error", closed.error().detail}});
  }

  Result<std::shared_ptr<Save>> save(uint64_t step, State state,
                                     const SaveOptions& options) override;
  Result<void> refuse(const std::string& why) override;
  Result<void> commit(uint64_t step, const SaveOptions& options,
                      const std::vector<std::string>& parts, const std::string& tree,
                      const std::map<std::string, std::string>& metadata) override;
  Result<void> drain() override;
  Result<void> remove(const std::string& name) override;
  Result<std::vector<std::string>> exchange(const std::string& topic,
                                            const std::string& mine) override;
  Result<void> close() override;

 private:
  bool has_session() const { return options_.ranks.count > 1; }
  Result<void> join_session();
  Result<void> check_name(const SaveOptions& options);
  std::string next_topic();
  std::string shared_nonce(const std::string& topic) const;
  Result<Place> place_of(const SaveOptions& options, const std::string& topic);
  std::shared_ptr<Save> skipped(uint64_t step);
  Result<void> wait_for_earlier(uint64_t step, const std::function<bool()>& give_up);
  Result<std::shared_ptr<Job>> prepare(uint64_t step, State state, const SaveOptions& options,
                                       const std::string& topic, Clock::time_point begun);
  Error tell_ranks(const std::string& topic, const SaveOptions& options, const Error& error);

  const CheckpointerOptions options_;
  io::FileSystem& fs_;
  std::unique_ptr<io::FileLock> lease_;  // Of rank 0.
  std::unique_ptr<Session> session_;     // Once it is needed.
  uint64_t saves_begun_ = 0;
  Stager stager_;
  WatchedJobs watched_;
  bool closed_ = false;

  Finisher finisher_;
};

Result<void> DirectoryCheckpointer::join_session() {
  if (session_ != nullptr) return {};
  session_ = PENSTOCK_TRY(Session::join(fs_, options_.directory, options_.ranks));
  finisher_.set_session(session_.get());
  return {};
}

Result<void> DirectoryCheckpointer::check_name(const SaveOptions& options) {
  if (!is_checkpoint_name(options.name)) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("'{}' cannot be the name of a checkpoint", options.name));
  }
  const auto exists = [&] {
    return make_error(ErrorCode::kExists, fmt::format("{}: {} is saved there already",
                                                      options_.directory, options.name));
  };
  if (watched_.has_name(options.name)) {
    if (!options.replace) return exists();
    // Or the older one could take the name after the newer.
    PENSTOCK_TRY(watched_.wait_all(options.give_up));
  }
  const std::string path = join(options_.directory, options.name);
  const Result<io::FileInfo> there = fs_.stat_link(path);
  if (there.ok()) return options.replace ? check_replaceable(fs_, path) : exists();
  if (there.error().code != ErrorCode::kNotFound) return there.error();
  return {};
}

std::string DirectoryCheckpointer::next_topic() {
  return fmt::format("save-{}", saves_begun_++);
}

// Of the attempt that ranks speak of under this topic.
std::string DirectoryCheckpointer::shared_nonce(const std::string& topic) const {
  return fmt::format("{}-{}", session_->ranks().run, topic);
}

Result<Place> DirectoryCheckpointer::place_of(const SaveOptions& options,
                                              const std::string& topic) {
  const uint32_t rank = options_.ranks.rank;
  if (!options.attempt.empty()) {
    return Place{.nonce = options.attempt, .shared = true, .rank = rank, .retry = 0};
  }
  if (!has_session()) return Place{.nonce = make_nonce()};
  return Place{.nonce = shared_nonce(topic), .shared = true, .rank = rank, .retry = 0};
}

std::shared_ptr<Save> DirectoryCheckpointer::skipped(uint64_t step) {
  SaveMetrics::global().skipped.add();
  auto job = std::make_shared<Job>(step, Plan(), false);
  job->change_report([](SaveReport& report) { report.skipped = true; });
  job->finish_durable(
      make_error(ErrorCode::kCancelled,
                 fmt::format("step {} was skipped: an earlier one is still being written", step)));
  return job;
}

Result<void> DirectoryCheckpointer::wait_for_earlier(uint64_t step,
                                                     const std::function<bool()>& give_up) {
  const WatchedJobs::Behind behind = watched_.behind();
  const Clock::time_point begun = Clock::now();
  if (options_.when_busy == WhenBusy::kWait) PENSTOCK_TRY(watched_.wait_all(give_up));
  const Nanoseconds waited = since(begun);
  if (waited > kWaitNoticed || behind.saves > 1) {
    log_warn("writing checkpoints falls behind; save less often, or to a faster disk",
             {{"step", step},
              {"earlier_saves", behind.saves},
              {"bytes_behind", behind.bytes},
              {"waited_seconds", std::chrono::duration<double>(waited).count()}});
  }
  return watched_.raise_unseen();
}

// Everything before the copy.
Result<std::shared_ptr<Job>> DirectoryCheckpointer::prepare(uint64_t step, State state,
                                                            const SaveOptions& options,
                                                            const std::string& topic,
                                                            Clock::time_point begun) {
  PENSTOCK_TRY(watched_.raise_unseen());
  PENSTOCK_TRY(check_name(options));
  Plan plan =
      PENSTOCK_TRY(make_plan(std::move(state.tensors), {.files_max = options_.files_max,
                                                        .incremental = options_.incremental}));
  PENSTOCK_TRY(wait_for_earlier(step, options.give_up));
  const bool keep = PENSTOCK_TRY(stager_.make_room(
      plan.pieces.size() * kPieceBytes, [&] { return watched_.wait_all(options.give_up); }));
  const Nanoseconds waited = since(begun);
  auto job = std::make_shared<Job>(step, std::move(plan), keep);
  job->begun = begun;
  job->options = options;
  job->options.give_up = nullptr;  // It is of this call.
  job->topic = topic;
  job->place = PENSTOCK_TRY(place_of(options, topic));
  job->attempt =
      PENSTOCK_TRY(Attempt::begin(fs_, options_.directory, job->plan, options_.mode, job->place));
  job->manifest.step = step;
  job->manifest.saved_ns =
      std::chrono::duration_cast<Nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  job->manifest.writer = options_.program;
  job->manifest.metadata = std::move(state.metadata);
  job->manifest.trees.push_back(std::move(state.tree));
  job->change_report([&](SaveReport& report) {
    report.waited = waited;
    report.prepared = since(begun) - waited;
  });
  return job;
}

Result<std::shared_ptr<Save>> DirectoryCheckpointer::save(uint64_t step, State state,
                                                          const SaveOptions& given) {
  const Clock::time_point begun = Clock::now();
  if (closed_) return make_error(ErrorCode::kClosed, "the checkpointer is closed");
  SaveOptions options = given;
  if (options.name.empty()) options.name = step_name(step);
  const bool with_ranks = has_session() && options.attempt.empty();
  if (with_ranks) PENSTOCK_TRY(join_session());
  const std::string topic = next_topic();
  if (options_.when_busy == WhenBusy::kSkip && watched_.behind().saves > 0) return skipped(step);
  const Result<std::shared_ptr<Job>> job = prepare(step, std::move(state), options, topic, begun);
  if (!job.ok()) return with_ranks ? tell_ranks(topic, options, job.error()) : job.error();
  watched_.add(*job);
  finisher_.add(*job);
  PENSTOCK_TRY(stager_.stage(*job));
  const Nanoseconds stall = since(begun);
  (*job)->change_report([&](SaveReport& report) {
    report.stall = stall;
    report.copied = stall - report.waited - report.prepared;
  });
  SaveMetrics::global().stall.record(stall);
  return std::static_pointer_cast<Save>(*job);
}

Error DirectoryCheckpointer::tell_ranks(const std::string& topic, const SaveOptions& options,
                                        const Error& error) {
  return fail_with_ranks(fs_, *session_, topic, error,
                         commit_of(options_.directory, options, shared_nonce(topic)));
}

Result<void> DirectoryCheckpointer::refuse(const std::string& why) {
  if (!has_session()) return {};
  PENSTOCK_TRY(join_session());
  (void)tell_ranks(next_topic(), {}, Error{.code = ErrorCode::kInvalid, .detail = why});
  return {};
}

Result<void> DirectoryCheckpointer::commit(uint64_t step, const SaveOptions& given,
                                           const std::vector<std::string>& parts,
                                           const std::string& tree,
                                           const std::map<std::string, std::string>& metadata) {
  SaveOptions options = given;
  if (options.name.empty()) options.name = step_name(step);
  PENSTOCK_TRY(check_name(options));
  Manifest manifest = PENSTOCK_TRY(merge_parts(parts, options.attempt));
  manifest.step = step;
  manifest.trees = {tree};
  manifest.metadata = metadata;
  return commit_attempt(fs_, commit_of(options_.directory, options, options.attempt), manifest);
}

Result<void> DirectoryCheckpointer::drain() {
  PENSTOCK_TRY(watched_.wait_all());
  return watched_.raise_unseen();
}

Result<void> DirectoryCheckpointer::remove(const std::string& name) {
  if (!is_checkpoint_name(name)) {
    return make_error(ErrorCode::kInvalid, fmt::format("'{}' is no name of a checkpoint", name));
  }
  // What replaces it may be under way.
  PENSTOCK_TRY(drain());
  PENSTOCK_TRY(check_replaceable(fs_, join(options_.directory, name)));
  return remove_checkpoint(fs_, options_.directory, name);
}

Result<std::vector<std::string>> DirectoryCheckpointer::exchange(const std::string& topic,
                                                                 const std::string& mine) {
  if (!has_session()) return std::vector<std::string>{mine};
  PENSTOCK_TRY(join_session());
  return session_->exchange(topic, mine);
}

Result<void> DirectoryCheckpointer::close() {
  if (closed_) return {};
  closed_ = true;
  finisher_.stop();
  stager_.stop();
  session_.reset();
  lease_.reset();
  return watched_.raise_unseen();
}

Result<void> check_options(const CheckpointerOptions& options) {
  const auto invalid = [](std::string why) { return make_error(ErrorCode::kInvalid, why); };
  const Ranks& ranks = options.ranks;
  if (options.directory.empty()) return invalid("no directory is given");
  if (ranks.count == 0 || ranks.rank >= ranks.count) {
    return invalid(fmt::format("rank {} of {} is none", ranks.rank, ranks.count));
  }
  if (ranks.count > 1 && options.when_busy == WhenBusy::kSkip) {
    return invalid("ranks could differ in what they skip: let several ranks wait, or queue");
  }
  return {};
}

}  // namespace

std::string make_run_id() {
  return make_nonce();
}

Result<std::unique_ptr<Checkpointer>> Checkpointer::open(const CheckpointerOptions& options) {
  PENSTOCK_TRY(check_options(options));
  io::FileSystem* fs = options.fs;
  if (fs == nullptr) fs = PENSTOCK_TRY(io::process_file_system());
  std::unique_ptr<io::FileLock> lease;
  std::vector<Copies> places;
  if (options.ranks.rank == 0) {
    lease = PENSTOCK_TRY(lease_directory(*fs, options.directory));
    PENSTOCK_TRY(remove_leftovers(*fs, options.directory, options.ranks.run));
    for (const Tier& tier : options.replicate) {
      places.push_back(
          {PENSTOCK_TRY(Replica::open(tier.address, *fs)), tier.keep.value_or(options.keep)});
    }
    if (places.empty()) {
      log_once(LogLevel::kWarn, "checkpoints in one place",
               "checkpoints in one place are no backup: replicate them to a second one");
    }
  } else {
    PENSTOCK_TRY(make_directories_durably(*fs, options.directory));
  }
  return std::unique_ptr<Checkpointer>(
      std::make_unique<DirectoryCheckpointer>(options, *fs, std::move(lease), std::move(places)));
}

}  // namespace penstock::checkpoint
