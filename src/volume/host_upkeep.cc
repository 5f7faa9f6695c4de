// What is done to a host as a whole: garbage collection, checking, mending.
#include <fmt/core.h>

#include "volume/fsck.h"
#include "volume/gc.h"
#include "volume/host.h"

namespace penstock::volume {

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
