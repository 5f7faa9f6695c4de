#include "loader/tuning.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "base/thread_pool.h"

namespace penstock::loader {

namespace {

constexpr double kAsFast = 0.95;
constexpr Nanoseconds kTrialTime = std::chrono::seconds(1);
constexpr uint64_t kTrialBatchesMin = 4;
constexpr uint64_t kWarmUpBatches = 2;  // Memory is touched for the first time.
constexpr Nanoseconds kLookEvery = std::chrono::milliseconds(100);

// The next batch, looking at `stop` meanwhile; the end of an epoch is passed over.
Result<uint32_t> next_size(Loader& loader, const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const auto batch = loader.next(deadline_in(kLookEvery));
    if (!batch.ok() && batch.error().code == ErrorCode::kTimeout) continue;
    if (!batch.ok()) return batch.error();
    if (*batch != nullptr) return (*batch)->size();
  }
  return make_error(ErrorCode::kCancelled, "interrupted");
}

// `part` of the epoch, from 0 to 1, is where it begins.
Result<void> go_to_part(Loader& loader, double part) {
  for (const auto& dataset : loader.datasets()) {
    if (dataset->sequential_only()) return {};  // Reads all that lies before.
  }
  State state = loader.state();
  state.position = static_cast<uint64_t>(static_cast<double>(loader.samples()) * part);
  return loader.load_state(state);
}

Result<Trial> try_threads(LoaderOptions options, uint32_t threads, double part,
                          const std::stop_token& stop) {
  options.threads = threads;
  options.last = Last::kPad;  // A stretch need not come out even.
  const std::unique_ptr<Loader> loader = PENSTOCK_TRY(Loader::open(options));
  PENSTOCK_TRY(go_to_part(*loader, part));
  for (uint64_t i = 0; i < kWarmUpBatches; ++i) PENSTOCK_TRY(next_size(*loader, stop));
  const auto begin = std::chrono::steady_clock::now();
  Nanoseconds took{0};
  uint64_t samples = 0;
  for (uint64_t i = 0; i < kTrialBatchesMin || took < kTrialTime; ++i) {
    samples += PENSTOCK_TRY(next_size(*loader, stop));
    took = std::chrono::steady_clock::now() - begin;
  }
  return Trial{threads, static_cast<double>(samples) / std::chrono::duration<double>(took).count()};
}

}  // namespace

std::vector<uint32_t> thread_counts_to_try(uint32_t cores) {
  std::vector<uint32_t> counts = {cores / 4, cores / 2, cores, cores + cores / 2, cores * 2};
  std::erase(counts, 0U);
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

uint32_t best_threads(const std::vector<Trial>& trials) {
  double best = 0;
  for (const Trial& trial : trials) best = std::max(best, trial.samples_per_second);
  uint32_t chosen = 0;
  for (const Trial& trial : trials) {
    if (trial.samples_per_second < best * kAsFast) continue;
    if (chosen == 0 || trial.threads < chosen) chosen = trial.threads;
  }
  return chosen;
}

Result<Tuning> tune_threads(const LoaderOptions& options, std::stop_token stop) {
  Tuning tuning;
  const std::vector<uint32_t> counts =
      thread_counts_to_try(static_cast<uint32_t>(available_cores()));
  for (size_t i = 0; i < counts.size(); ++i) {
    const double part = static_cast<double>(i) / static_cast<double>(counts.size());
    tuning.trials.push_back(PENSTOCK_TRY(try_threads(options, counts[i], part, stop)));
  }
  tuning.threads = best_threads(tuning.trials);
  return tuning;
}

std::string to_text(const Tuning& tuning) {
  std::string text = fmt::format("{} thread{} (", tuning.threads, tuning.threads == 1 ? "" : "s");
  for (const Trial& trial : tuning.trials) {
    text += fmt::format("{}{}: {}", &trial == &tuning.trials.front() ? "" : ", ", trial.threads,
                        format_count(trial.samples_per_second));
  }
  return text + " samples/s)";
}

}  // namespace penstock::loader
