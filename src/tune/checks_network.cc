// File systems that are a network away.
#include <fmt/format.h>

#include "penstock/units.h"
#include "tune/checks.h"
#include "tune/knowledge.h"

namespace penstock::tune::doctor {

namespace {

// What is wrong with an NFS mount's options, and the options that put it right.
struct NfsFaults {
  Severity severity = Severity::kOk;
  std::vector<std::string> observed;
  std::vector<std::string> additions;

  void add(Severity how_bad, std::string what, std::vector<std::string> options) {
    severity = std::max(severity, how_bad);
    observed.push_back(std::move(what));
    additions.insert(additions.end(), options.begin(), options.end());
  }
};

void judge_transfer_size(const Mount& mount, NfsFaults& faults) {
  const auto wanted = static_cast<uint64_t>(threshold("nfs-options", "transfer"));
  for (const char* key : {"rsize", "wsize"}) {
    const auto bytes = mount.option_number(key);
    if (bytes && *bytes < wanted)
      faults.add(Severity::kWarn, fmt::format("{}={}", key, *bytes),
                 {fmt::format("{}={}", key, wanted)});
  }
}

void judge_transport(const Mount& mount, NfsFaults& faults) {
  if (mount.option_value("proto") == "udp") faults.add(Severity::kWarn, "proto=udp", {"proto=tcp"});
  const bool soft = mount.has_option("soft") || mount.has_option("softerr");
  if (soft) faults.add(Severity::kWarn, "soft", {"hard"});
  const auto connections = static_cast<uint64_t>(threshold("nfs-options", "connections"));
  if (mount.option_number("nconnect").value_or(1) < 2 && mount.option_value("proto") != "rdma")
    faults.add(Severity::kInfo, "one connection", {fmt::format("nconnect={}", connections)});
}

void judge_caching(const Mount& mount, NfsFaults& faults) {
  const auto wanted = static_cast<uint64_t>(threshold("nfs-options", "attribute_cache"));
  // actimeo=60 is shown by the kernel as the four limits it sets, less those that are defaults.
  const bool cached = mount.option_number("acregmin").value_or(3) >= wanted ||
                      mount.option_number("actimeo").value_or(0) >= wanted;
  const std::string actimeo = fmt::format("actimeo={}", wanted);
  if (mount.has_option("noac")) {
    faults.add(Severity::kWarn, "noac: a round trip for every stat", {actimeo});
  } else if (!cached) {
    faults.add(Severity::kInfo, "attributes cached for 3 s only", {actimeo});
  }
  if (mount.option_value("lookupcache") == "none") {
    faults.add(Severity::kWarn, "lookupcache=none", {"lookupcache=pos"});
  } else if (!mount.option_value("lookupcache")) {
    // The default also remembers that a name is missing, which a reader waiting for it pays for.
    faults.additions.push_back("lookupcache=pos");
  }
}

Finding nfs_options(const Machine& machine, const Mount& mount) {
  NfsFaults faults;
  judge_transfer_size(mount, faults);
  judge_transport(mount, faults);
  judge_caching(mount, faults);
  if (faults.severity == Severity::kOk)
    return make_finding("nfs-options", Severity::kOk, mount.point, "as they should be");
  faults.additions.push_back("noatime");
  Finding finding = make_finding("nfs-options", faults.severity, mount.point,
                                 fmt::format("{}", fmt::join(faults.observed, ", ")),
                                 {{"mount", mount.point},
                                  {"type", mount.type},
                                  {"source", mount.source},
                                  {"options", mount_options(machine, mount, faults.additions)}});
  finding.config.push_back(fstab_line(machine, mount, faults.additions));
  return finding;
}

// Striping for large files uses all targets; several checkpoint writers share them.
Finding lustre_striping(const std::string& path, const Striping& striping,
                        const DoctorOptions& options) {
  const double size = static_cast<double>(striping.size_bytes);
  const bool good_size =
      striping.size_bytes == 0 || (size >= threshold("lustre-stripes", "min_size") &&
                                   size <= threshold("lustre-stripes", "max_size"));
  const bool for_checkpoints = options.writes_checkpoints();
  const auto few = static_cast<int64_t>(threshold("lustre-stripes", "checkpoint_count"));
  Severity severity = good_size ? Severity::kOk : Severity::kInfo;
  if (for_checkpoints && striping.count > 0 && striping.count < few) severity = Severity::kWarn;
  if (striping.count == 1) severity = Severity::kWarn;
  const std::string count = striping.count < 0 ? "all targets"
                                               : fmt::format("{} stripe{}", striping.count,
                                                             striping.count == 1 ? "" : "s");
  return make_finding("lustre-stripes", severity, path,
                      fmt::format("new files: {} of {}", count, format_size(striping.size_bytes)),
                      {{"path", path},
                       {"count", for_checkpoints ? std::to_string(few) : "-1"},
                       {"size", for_checkpoints ? "1M" : "4M"}});
}

}  // namespace

Findings check_nfs(const Machine& machine, const DoctorOptions& options) {
  Findings findings;
  for (const Mount* mount : mounts_of(machine, options)) {
    if (!is_nfs(*mount)) continue;
    findings.push_back(nfs_options(machine, *mount));
    const bool serious = options.writes_checkpoints();
    findings.push_back(make_finding(
        "nfs-checkpoints", serious ? Severity::kWarn : Severity::kInfo, mount->point,
        serious ? "checkpoints are to be written here" : "if checkpoints are written here"));
    const uint64_t bytes = std::max(options.dataset_bytes, options.checkpoint_bytes);
    if (static_cast<double>(bytes) > threshold("nfs-scale", "dataset"))
      findings.push_back(make_finding("nfs-scale", Severity::kWarn, mount->point,
                                      format_size(bytes) + " over NFS"));
  }
  return findings;
}

Findings check_lustre(const Machine& machine, const DoctorOptions& options) {
  Findings findings;
  for (const std::string& path : options.paths) {
    const Mount* mount = find_mount(machine.mounts(), path);
    if (mount == nullptr || mount->type != "lustre") continue;
    const Result<std::string> text = machine.facts().lustre_striping(path);
    const auto striping = text ? parse_striping(*text) : std::nullopt;
    if (striping) {
      findings.push_back(lustre_striping(path, *striping, options));
    } else {
      findings.push_back(
          make_unknown("lustre-stripes", path,
                       text ? "lfs getstripe says nothing of stripes" : text.error().detail));
    }
    if (options.workload == Workload::kImages)
      findings.push_back(make_finding("lustre-small-files", Severity::kWarn, path,
                                      "millions of small files are to be read here"));
  }
  return findings;
}

}  // namespace penstock::tune::doctor
