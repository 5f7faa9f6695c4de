#include "checkpoint/replicator.h"

#include <algorithm>

#include "base/log.h"
#include "checkpoint/examine.h"
#include "checkpoint/names.h"
#include "checkpoint/plan.h"
#include "checkpoint/save_metrics.h"

namespace penstock::checkpoint {

Replicator::Replicator(io::FileSystem& fs, const CheckpointerOptions& options,
                       std::vector<Copies> places, std::function<void(uint64_t step)> retire)
    : fs_(fs),
      directory_(options.directory),
      places_(std::move(places)),
      incremental_(options.incremental),
      retire_(std::move(retire)),
      limiter_(static_cast<double>(options.replicate_bandwidth), static_cast<double>(kPieceBytes)) {
  thread_.submit([this] { catch_up(); });
}

Replicator::~Replicator() {
  stop();
}

void Replicator::add(std::shared_ptr<Job> job) {
  thread_.submit([this, job = std::move(job)] {
    const uint64_t step = job->report().step;
    const Result<void> done = replicate(step);
    if (done.ok()) {
      retire_(step);
      SaveMetrics::global().replicated.record(std::chrono::steady_clock::now() - job->begun);
    }
    job->finish_replicated(done);
  });
}

void Replicator::stop() {
  thread_.stop();
  places_.clear();
}

// What a run that ended, or was killed, had saved and not copied: the newest of it.
void Replicator::catch_up() {
  const Result<std::vector<Found>> found = list_checkpoints(fs_, directory_);
  if (!found.ok()) return;
  const auto newest = std::ranges::find_if(*found, [](const Found& one) { return !one.damage; });
  if (newest == found->end()) return;
  const Result<void> done = replicate(newest->step);
  if (done.ok()) return;
  log_warn("a checkpoint of an earlier run could not be copied",
           {{"step", newest->step}, {"error", done.error().detail}});
}

// All places, though one fails: the others should have it.
Result<void> Replicator::replicate(uint64_t step) {
  Result<void> first;
  for (const Copies& place : places_) {
    const Result<void> done = replicate_to(place, step);
    if (!done.ok() && first.ok())
      first = done.error().with_context("copying to " + place.replica->description());
  }
  return first;
}

Result<void> Replicator::replicate_to(const Copies& place, uint64_t step) {
  Replica& replica = *place.replica;
  const std::vector<uint64_t> there = PENSTOCK_TRY(replica.steps());
  if (std::ranges::binary_search(there, step)) return {};
  const std::unique_ptr<Source> from = directory_source(fs_, join(directory_, step_name(step)));
  PENSTOCK_TRY(replica.copy(*from, step, {.limiter = limiter_, .incremental = incremental_}));
  const Result<void> retired = replica.retire(place.keep, step);
  if (!retired.ok()) {
    log_warn("old checkpoints stay",
             {{"place", replica.description()}, {"error", retired.error().detail}});
  }
  return {};
}

}  // namespace penstock::checkpoint
