#include "checkpoint/finisher.h"

#include "base/log.h"
#include "checkpoint/commit.h"
#include "checkpoint/directory.h"
#include "checkpoint/examine.h"
#include "checkpoint/names.h"
#include "checkpoint/rank_commit.h"
#include "checkpoint/save_metrics.h"

namespace penstock::checkpoint {

namespace {

void count(const Job& job, const Result<void>& written) {
  SaveMetrics& metrics = SaveMetrics::global();
  metrics.under_way.add(-1);
  const SaveReport report = job.report();
  metrics.rewritten.add(report.rewritten);
  if (!written.ok()) return metrics.failures.add();
  metrics.saves.add();
  metrics.bytes.add(report.bytes);
  metrics.linked_bytes.add(report.linked_bytes);
  metrics.durable.record(std::chrono::steady_clock::now() - job.begun);
}

// Others are not listed, copied or deleted.
bool is_step(const Job& job) {
  return job.options.name == step_name(job.report().step);
}

}  // namespace

Finisher::Finisher(io::FileSystem& fs, const CheckpointerOptions& options,
                   std::vector<Copies> places)
    : fs_(fs), options_(options), writer_(fs, options) {
  if (!places.empty()) {
    replicator_ = std::make_unique<Replicator>(fs, options, std::move(places),
                                               [this](uint64_t step) { retire(step); });
  }
}

Finisher::~Finisher() {
  stop();
}

void Finisher::add(const std::shared_ptr<Job>& job) {
  SaveMetrics::global().under_way.add(1);
  thread_.submit([this, job] { finish(job); });
}

void Finisher::stop() {
  thread_.stop();
  if (replicator_ != nullptr) replicator_->stop();
}

Result<void> Finisher::write_and_commit(Job& job) {
  if (options_.incremental) find_previous();
  const Result<void> written =
      writer_.write(job, previous_ ? &*previous_ : nullptr, previous_path_);
  if (!job.options.attempt.empty()) {
    PENSTOCK_TRY(written);
    job.set_part(manifest_text(job.manifest));
    job.attempt->hand_over();
    return {};
  }
  const Commit commit = commit_of(options_.directory, job.options, job.place.nonce);
  if (session_ != nullptr) {
    if (!written.ok()) return fail_with_ranks(fs_, *session_, job.topic, written.error(), commit);
    return commit_with_ranks(fs_, *session_, job, commit);
  }
  PENSTOCK_TRY(written);
  job.attempt->hand_over();
  return commit_attempt(fs_, commit, job.manifest);
}

// Of an earlier run.
void Finisher::find_previous() {
  if (std::exchange(looked_for_previous_, true)) return;
  const Result<std::vector<uint64_t>> steps = list_steps(fs_, options_.directory);
  if (!steps.ok() || steps->empty()) return;
  previous_path_ = join(options_.directory, step_name(steps->back()));
  Result<Manifest> manifest = examine(*directory_source(fs_, previous_path_), steps->back());
  if (manifest.ok()) previous_ = std::move(*manifest);
}

void Finisher::after_commit(Job& job) {
  if (options_.incremental) {
    previous_ = std::move(job.manifest);
    previous_path_ = join(options_.directory, job.options.name);
  }
  if (options_.ranks.rank != 0 || !is_step(job)) return;
  const uint64_t step = job.report().step;
  tell_latest(step);
  // With a second place old ones go when the new one is there too.
  if (replicator_ == nullptr) retire(step);
}

void Finisher::finish(const std::shared_ptr<Job>& job) {
  Result<void> written = write_and_commit(*job);
  if (!written.ok()) {
    written = written.error().as_outcome();
    job->pieces.fail(written.error());
  }
  job->pieces.drop();
  job->attempt.reset();
  count(*job, written);
  // At once: removing old ones can take as long as writing did.
  job->finish_durable(written);
  if (written.ok() && job->options.attempt.empty()) after_commit(*job);
  job->finish_settled();
  if (!written.ok()) return;
  if (replicator_ != nullptr && is_step(*job)) {
    replicator_->add(job);
  } else {
    job->finish_replicated({});
  }
}

void Finisher::tell_latest(uint64_t newest) {
  const Result<void> told = write_latest(fs_, options_.directory, newest);
  if (told.ok()) return;
  log_warn("'latest' could not be written",
           {{"directory", options_.directory}, {"error", told.error().detail}});
}

// Failures of this are told, and are none of the save.
void Finisher::retire(uint64_t newest) {
  const auto told = [&](const Result<void>& result, std::string_view what) {
    if (!result.ok()) {
      log_warn(what, {{"directory", options_.directory}, {"error", result.error().detail}});
    }
  };
  Result<std::vector<uint64_t>> steps = list_steps(fs_, options_.directory);
  if (!steps.ok()) return told(steps.error(), "old checkpoints could not be listed");
  // Newer ones may not be in all places yet: they are no successors, and not to go either.
  std::erase_if(*steps, [&](uint64_t step) { return step > newest; });
  for (const uint64_t step : steps_to_remove(*steps, options_.keep)) {
    told(remove_checkpoint(fs_, options_.directory, step_name(step)), "an old checkpoint stays");
  }
}

}  // namespace penstock::checkpoint
