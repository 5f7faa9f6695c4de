#include "sync/tally.h"

namespace penstock::sync {

namespace {

constexpr size_t kFailuresKept = 100;
constexpr size_t kSkippedKept = 20;

}  // namespace

std::string_view action_name(Action action) {
  switch (action) {
    case Action::kCopy:
      return "copy";
    case Action::kDelete:
      return "delete";
    case Action::kLink:
      return "link";
    case Action::kAttributes:
      return "attributes";
    case Action::kSkip:
      return "skip";
  }
  return "unknown";
}

Tally::Tally(const Options& options)
    : options_(options), begun_at_(std::chrono::steady_clock::now()) {}

void Tally::to_copy(uint64_t bytes) {
  ++to_copy_;
  to_copy_bytes_ += bytes;
}

void Tally::copied(uint64_t bytes) {
  ++copied_;
  copied_bytes_ += bytes;
}

void Tally::failed(const std::string& key, const Error& error) {
  if (error.code == ErrorCode::kCancelled && options_.stop.stop_requested()) return;
  ++failed_;
  std::lock_guard lock(mutex_);
  if (failures_.size() < kFailuresKept) failures_.push_back({key, error});
}

void Tally::skipped(const std::string& key, std::string_view why) {
  ++skipped_;
  {
    std::lock_guard lock(mutex_);
    if (skips_.size() < kSkippedKept) skips_.push_back({key, std::string(why)});
  }
  act(Action::kSkip, key, 0, why);
}

void Tally::act(Action action, const std::string& key, uint64_t bytes, std::string_view why) {
  if (!options_.on_action) return;
  std::lock_guard lock(act_mutex_);
  options_.on_action(action, key, bytes, why);
}

Progress Tally::progress() const {
  Progress progress;
  // Before what it is compared with, so that nobody sees more done than there is to do.
  progress.copied = copied_;
  progress.copied_bytes = copied_bytes_;
  progress.moved_bytes = moved_bytes_;
  progress.listing_done = listing_done_;
  progress.listed = listed_;
  progress.same = same_;
  progress.to_copy = to_copy_;
  progress.to_copy_bytes = to_copy_bytes_;
  progress.deleted = deleted_;
  progress.failed = failed_;
  return progress;
}

Report Tally::report() const {
  Report report;
  report.totals = progress();
  report.skipped = skipped_;
  report.time = std::chrono::steady_clock::now() - begun_at_;
  report.stopped = options_.stop.stop_requested();
  std::lock_guard lock(mutex_);
  report.failures = failures_;
  report.skips = skips_;
  return report;
}

}  // namespace penstock::sync
