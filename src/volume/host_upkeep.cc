// What is done to a host as a whole: garbage collection, checking, mending.
#include <fmt/core.h>

#include "volume/fsck.h"
#include "volume/gc.h"
#include "volume/host.h"

namespace penstock::volume {

// What cannot be told stays as it was.
void HostImpl::note_metrics() {
  gauges_.journal_limit_bytes.set(static_cast<int64_t>(journal_limit_bytes()));
  gauges_.journal_bytes.set(static_cast<int64_t>(journal_->usage().bytes));
  gauges_.frame_bytes.set(static_cast<int64_t>(frames_->stats().held_bytes));
  const Result<Pending> waiting = pending();
  if (!waiting.ok()) return;
  gauges_.pending_bytes.set(static_cast<int64_t>(waiting->content_bytes));
  const meta::Time age = waiting->oldest == 0 ? 0 : now() - waiting->oldest;
  gauges_.pending_age_seconds.set(std::max<meta::Time>(age, 0) / 1'000'000'000);
}

Gc HostImpl::collector() {
  const auto committing = [this]() -> Result<void> {
    PENSTOCK_TRY(commit());
    return {};
  };
  return {*database_, *packer_, space_, committing, [this] { return now(); }};
}

Result<GcReport> HostImpl::gc(const GcOptions& options) {
  return collector().run(options);
}

Result<FsckReport> HostImpl::fsck(const FsckOptions& options) {
  // Counts come first: by them it is known what nothing refers to.
  std::vector<std::string> repaired;
  if (options.repair) repaired = PENSTOCK_TRY(repair_counts());
  PENSTOCK_TRY(commit());  // It looks at what is committed.
  FsckReport report = PENSTOCK_TRY(Fsck(*database_, *reader_, *store_, space_).run(options));
  report.repaired = std::move(repaired);
  // What looks like garbage may be what a damaged row should refer to.
  if (options.repair && report.findings.empty()) PENSTOCK_TRY(sweep(options, report));
  return report;
}

Result<std::vector<std::string>> HostImpl::repair_counts() {
  const Turn turn(turn_);
  PENSTOCK_TRY(check_usable(turn));
  std::vector<std::string> repaired = PENSTOCK_TRY(database_->repair());
  PENSTOCK_TRY(commit_turn(turn));
  return repaired;
}

Result<void> HostImpl::sweep(const FsckOptions& options, FsckReport& report) {
  const GcReport swept = PENSTOCK_TRY(
      collector().sweep({.io_timeout = options_.io_timeout, .cancel = options.cancel}));
  const uint64_t objects = swept.deleted + swept.orphans;
  if (objects == 0) return {};
  report.repaired.push_back(fmt::format("deleted {} objects that nothing refers to ({})", objects,
                                        format_size(swept.freed_bytes)));
  return {};
}

}  // namespace penstock::volume
