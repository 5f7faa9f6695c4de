// Whether it fits.
#include <fmt/core.h>

#include "penstock/units.h"
#include "tune/checks.h"
#include "tune/knowledge.h"

namespace penstock::tune::doctor {

namespace {

double percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

Finding inodes_of(const Mount& mount, const io::SpaceInfo& space) {
  const uint64_t used = space.total_inodes - std::min(space.free_inodes, space.total_inodes);
  const double used_percent = percent(used, space.total_inodes);
  const Severity severity = used_percent > threshold("inodes", "error")  ? Severity::kError
                            : used_percent > threshold("inodes", "warn") ? Severity::kWarn
                                                                         : Severity::kOk;
  return make_finding("inodes", severity, mount.point,
                      fmt::format("{:.0f} % of {} used", used_percent,
                                  format_count(static_cast<double>(space.total_inodes))),
                      {{"mount", mount.point}});
}

Finding free_space_of(const Mount& mount, const io::SpaceInfo& space,
                      const DoctorOptions& options) {
  const double free_percent = percent(space.available_bytes, space.total_bytes);
  const double wanted = threshold("free-space", "checkpoints");
  const auto available = static_cast<double>(space.available_bytes);
  const auto checkpoint = static_cast<double>(options.checkpoint_bytes);
  Severity severity = Severity::kOk;
  if (free_percent < threshold("free-space", "free")) severity = Severity::kWarn;
  std::string observed = fmt::format("{} of {} free ({:.0f} %)", format_size(space.available_bytes),
                                     format_size(space.total_bytes), free_percent);
  if (checkpoint > 0) {
    if (available < wanted * checkpoint) severity = Severity::kWarn;
    if (available < checkpoint) severity = Severity::kError;
    observed += fmt::format(": room for {:.1f} checkpoints of {}", available / checkpoint,
                            format_size(options.checkpoint_bytes));
  }
  return make_finding("free-space", severity, mount.point, observed, {{"mount", mount.point}});
}

// Read-only images such as squashfs and ISO are always full.
bool can_fill(const Mount& mount, const io::SpaceInfo& space) {
  return space.total_bytes > 0 && !mount.has_option("ro");
}

}  // namespace

Findings check_inodes(const Machine& machine, const DoctorOptions& options) {
  Findings findings;
  for (const Mount* mount : working_mounts_of(machine, options)) {
    const Result<io::SpaceInfo> space = machine.facts().space(mount->point);
    if (!space) {
      findings.push_back(make_unknown("inodes", mount->point, space.error().detail));
    } else if (space->total_inodes > 0 && can_fill(*mount, *space)) {
      findings.push_back(inodes_of(*mount, *space));
    }
  }
  return findings;
}

Findings check_free_space(const Machine& machine, const DoctorOptions& options) {
  Findings findings;
  for (const Mount* mount : working_mounts_of(machine, options)) {
    const Result<io::SpaceInfo> space = machine.facts().space(mount->point);
    if (!space) {
      findings.push_back(make_unknown("free-space", mount->point, space.error().detail));
    } else if (can_fill(*mount, *space)) {
      findings.push_back(free_space_of(*mount, *space, options));
    }
  }
  return findings;
}

Findings check_dataset_space(const Machine& machine, const DoctorOptions& options) {
  Findings findings;
  if (options.dataset_bytes == 0) return findings;
  for (const Mount* mount : working_mounts_of(machine, options)) {
    const Result<io::SpaceInfo> space = machine.facts().space(mount->point);
    // Where it cannot be seen, check_free_space says so.
    if (!space || !is_local(*mount)) continue;
    const bool fits = space->total_bytes >= options.dataset_bytes;
    findings.push_back(make_finding(
        "dataset-space", fits ? Severity::kOk : Severity::kWarn, mount->point,
        fmt::format("{} of data, {} in all, {} free", format_size(options.dataset_bytes),
                    format_size(space->total_bytes), format_size(space->available_bytes))));
  }
  return findings;
}

}  // namespace penstock::tune::doctor
