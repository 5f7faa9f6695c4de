// penstock checkpoint verify, prune, copy.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/rate_limiter.h"
#include "checkpoint/directory.h"
#include "checkpoint/names.h"
#include "checkpoint/open_source.h"
#include "checkpoint/plan.h"
#include "checkpoint/replica.h"
#include "cli/checkpoint_places.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress_line.h"
#include "tune/text.h"

namespace penstock::cli {

namespace {

using checkpoint::Found;
using tune::doctor::printable;

std::vector<std::string> verify_one(const CheckpointTarget& target) {
  const auto reader = checkpoint::open_source(target.source(), target.step);
  if (!reader.ok()) return {reader.error().detail};
  std::vector<std::string> errors;
  for (const Error& error : (*reader)->verify()) errors.push_back(error.detail);
  return errors;
}

// Those that cannot be read count for nothing: they are no reason to delete one that can.
std::vector<uint64_t> steps_to_prune(const std::vector<Found>& found,
                                     const CheckpointArguments& arguments) {
  std::vector<uint64_t> whole;
  for (const Found& one : found) {
    if (!one.damage) whole.push_back(one.step);
  }
  std::ranges::sort(whole);
  return checkpoint::steps_to_remove(whole, {arguments.keep_last, arguments.keep_every});
}

// Of a second place. There is no lease to take: whoever copies to it removes by the same rules.
Result<std::vector<uint64_t>> prune_store(io::FileSystem& fs, const std::string& run,
                                          const CheckpointArguments& arguments) {
  std::vector<Found> found;
  for (const CheckpointTarget& target : PENSTOCK_TRY(find_checkpoints(fs, run, std::nullopt))) {
    found.push_back(describe_target(target));
  }
  const std::vector<uint64_t> removed = steps_to_prune(found, arguments);
  if (arguments.dry_run) return removed;
  const auto replica = PENSTOCK_TRY(checkpoint::Replica::open(run, fs));
  for (const uint64_t step : removed) PENSTOCK_TRY(replica->remove(step));
  return removed;
}

Result<std::vector<uint64_t>> prune(io::FileSystem& fs, CheckpointArguments& arguments) {
  const std::string directory = PENSTOCK_TRY(find_run(fs, arguments.path, arguments.step));
  if (arguments.step) {
    return make_error(ErrorCode::kInvalid,
                      fmt::format("{} is one checkpoint: prune takes a run", arguments.path));
  }
  if (is_in_store(directory)) return prune_store(fs, directory, arguments);
  if (PENSTOCK_TRY(checkpoint::list_steps(fs, directory)).empty())
    return make_error(ErrorCode::kNotFound, fmt::format("{}: no checkpoint is there", directory));
  const std::unique_ptr<io::FileLock> lease =
      PENSTOCK_TRY(checkpoint::lease_directory(fs, directory));
  const std::vector<Found> found = PENSTOCK_TRY(checkpoint::list_checkpoints(fs, directory));
  const std::vector<uint64_t> removed = steps_to_prune(found, arguments);
  if (arguments.dry_run) return removed;
  for (const uint64_t step : removed) {
    PENSTOCK_TRY(checkpoint::remove_checkpoint(fs, directory, checkpoint::step_name(step)));
  }
  PENSTOCK_TRY(checkpoint::remove_leftovers(fs, directory));
  return removed;
}

struct Copied {
  uint64_t step = 0;
  uint64_t bytes = 0;
};

// Shows how far it is.
class CopyProgress {
 public:
  explicit CopyProgress(uint64_t total) : total_(total) {}
  void add(uint64_t bytes) {
    done_ += bytes;
    meter_.add(done_);
    if (!line_.due()) return;
    line_.show(fmt::format("{} of {}  {}", format_size(done_), format_size(total_),
                           format_rate(meter_.per_second())));
  }

 private:
  const uint64_t total_;
  uint64_t done_ = 0;
  ProgressLine line_{"penstock checkpoint copy"};
  RateMeter meter_;
};

// What is to be copied, oldest first: an interrupted copy leaves what is older, and whole.
Result<std::vector<CheckpointTarget>> copy_sources(io::FileSystem& fs,
                                                   const CheckpointArguments& arguments) {
  std::vector<CheckpointTarget> found =
      PENSTOCK_TRY(find_checkpoints(fs, arguments.path, arguments.step));
  if (!found[0].step) {
    return make_error(
        ErrorCode::kInvalid,
        fmt::format("{} is not named after its step: copy it with penstock sync", found[0].path));
  }
  if (!arguments.all) {
    // The newest that is whole.
    const auto whole = std::ranges::find_if(
        found, [](const CheckpointTarget& one) { return !describe_target(one).damage; });
    if (whole == found.end()) return *describe_target(found[0]).damage;
    found = {*whole};
  }
  std::ranges::reverse(found);
  return found;
}

Result<std::vector<Copied>> copy_all(io::FileSystem& fs, const CheckpointArguments& arguments) {
  const std::stop_token stop = stop_on_interrupt();
  const std::vector<CheckpointTarget> sources = PENSTOCK_TRY(copy_sources(fs, arguments));
  if (fs.stat(checkpoint::join(arguments.to, checkpoint::kManifestName)).ok()) {
    return make_error(
        ErrorCode::kInvalid,
        fmt::format("{} is one checkpoint: copy takes a run to copy to", arguments.to));
  }
  const std::unique_ptr<checkpoint::Replica> to =
      PENSTOCK_TRY(checkpoint::Replica::open(arguments.to, fs));
  const std::vector<uint64_t> there = PENSTOCK_TRY(to->steps());
  std::vector<CheckpointTarget> missing;
  uint64_t total = 0;
  for (const CheckpointTarget& source : sources) {
    if (std::ranges::binary_search(there, *source.step)) continue;
    missing.push_back(source);
    total += describe_target(source).bytes;
  }
  CopyProgress progress(total);
  const uint64_t rate =
      arguments.max_bandwidth.empty() ? 0 : PENSTOCK_TRY(parse_size(arguments.max_bandwidth));
  RateLimiter limiter(static_cast<double>(rate), static_cast<double>(checkpoint::kPieceBytes));
  std::vector<Copied> copied;
  for (const CheckpointTarget& source : missing) {
    PENSTOCK_TRY(to->copy(
        *source.source(), *source.step,
        {.limiter = limiter, .incremental = true, .stop = stop, .moved = [&](uint64_t bytes) {
           progress.add(bytes);
         }}));
    copied.push_back({*source.step, describe_target(source).bytes});
  }
  return copied;
}

}  // namespace

int checkpoint_verify(io::FileSystem& fs, CheckpointArguments& arguments) {
  const auto found = find_checkpoints(fs, arguments.path, arguments.step);
  if (!found.ok()) return checkpoint_failed("verify", found.error());
  bool whole = true;
  nlohmann::json list = nlohmann::json::array();
  std::string text;
  for (const CheckpointTarget& target : *found) {
    const Found one = describe_target(target);
    const auto begun = std::chrono::steady_clock::now();
    const std::vector<std::string> errors = verify_one(target);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begun;
    whole = whole && errors.empty();
    list.push_back(
        {{"step", one.step}, {"path", one.path}, {"bytes", one.bytes}, {"errors", errors}});
    text += errors.empty()
                ? fmt::format(
                      "step {}: {} verified ({})\n", one.step, format_size(one.bytes),
                      format_rate(static_cast<double>(one.bytes) / std::max(time.count(), 1e-6)))
                : fmt::format("step {}: damaged\n", one.step);
    for (const std::string& error : errors) text += fmt::format("  {}\n", printable(error));
  }
  if (arguments.json)
    text = checkpoint_json({{"schema", 1}, {"whole", whole}, {"checkpoints", list}});
  return checkpoint_print("verify", text, whole ? kExitOk : kExitFailed);
}

int checkpoint_prune(io::FileSystem& fs, CheckpointArguments& arguments) {
  const Result<std::vector<uint64_t>> removed = prune(fs, arguments);
  if (!removed.ok()) return checkpoint_failed("prune", removed.error());
  if (arguments.json) {
    return checkpoint_print(
        "prune",
        checkpoint_json({{"schema", 1}, {"dry_run", arguments.dry_run}, {"removed", *removed}}),
        kExitOk);
  }
  const std::string_view verb = arguments.dry_run ? "would remove" : "removed";
  std::string text = fmt::format("{} {} checkpoints", verb, removed->size());
  if (!removed->empty()) text += fmt::format(": steps {}", fmt::join(*removed, ", "));
  return checkpoint_print("prune", text + "\n", kExitOk);
}

int checkpoint_copy(io::FileSystem& fs, CheckpointArguments& arguments) {
  const Result<std::vector<Copied>> copied = copy_all(fs, arguments);
  if (!copied.ok()) {
    const int code = checkpoint_failed("copy", copied.error());
    return copied.error().code == ErrorCode::kCancelled ? kExitInterrupted : code;
  }
  nlohmann::json list = nlohmann::json::array();
  std::string text = copied->empty() ? "nothing to copy: it is there already\n" : "";
  for (const Copied& one : *copied) {
    list.push_back({{"step", one.step}, {"bytes", one.bytes}});
    text += fmt::format("step {}: {} copied to {}, and verified on the way\n", one.step,
                        format_size(one.bytes), printable(arguments.to));
  }
  if (arguments.json) text = checkpoint_json({{"schema", 1}, {"copied", list}});
  return checkpoint_print("copy", text, kExitOk);
}

}  // namespace penstock::cli
