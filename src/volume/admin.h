// What can be done with a volume besides reading and writing its files: looked at, set, kept,
// cleaned, checked. The same calls whether this process has the volume or another one does, which is
// then asked over its control socket.
//
//   const auto admin = PENSTOCK_TRY(volume::open_admin(directory, {}));
//   const volume::VolumeStatus status = PENSTOCK_TRY(admin->status("train"));
//
// Threads: all calls from any thread. Failure: kUnavailable where the process that has the volume
// ended meanwhile; what was asked for may have happened or not, and can be asked for again.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/volume.h"

namespace penstock::volume {

struct VolumeStatus {
  meta::Settings settings;
  meta::Totals totals;
  HostStatus host;
  std::vector<meta::Snapshot> snapshots;
  int32_t owner_pid = 0;
  std::string mounted_at;  // By its owner; empty: it is not.
};

class Admin {
 public:
  virtual ~Admin() = default;

  // The first is the one that the host was made for.
  virtual Result<std::vector<std::string>> volumes() = 0;
  virtual Result<VolumeStatus> status(std::string_view volume) = 0;
  // What the process that has it counted (docs/METRICS.md): Prometheus text, each sample with the
  // label `volume`.
  virtual Result<std::string> metrics(std::string_view volume) = 0;
  virtual Result<void> set_settings(std::string_view volume, const meta::Settings& settings) = 0;
  // All changes up to now become a version, durable.
  virtual Result<meta::Version> commit() = 0;
  // Of the newest version that is not younger than `at`; none: of now. kNotFound: nothing is left of
  // then.
  virtual Result<void> make_snapshot(std::string_view volume, std::string_view name,
                                     std::optional<meta::Time> at) = 0;
  virtual Result<void> remove_snapshot(std::string_view volume, std::string_view name) = 0;
  virtual Result<void> clone(std::string_view volume, std::optional<meta::Time> at,
                             std::string_view name) = 0;
  virtual Result<GcReport> gc(const GcOptions& options) = 0;
  virtual Result<FsckReport> fsck(const FsckOptions& options) = 0;
  // Waits until all content is in the store. kCancelled, kTimeout.
  virtual Result<void> drain(Deadline deadline, const std::function<void(const Pending&)>& progress,
                             std::stop_token cancel) = 0;
};

// Where this process has the volume of that name mounted at the moment: the live one; where that is
// not, another state of it. Empty: nowhere.
using MountedAt = std::function<std::string(std::string_view volume)>;

// Over a host of this process.
std::unique_ptr<Admin> make_local_admin(std::shared_ptr<Host> host, MountedAt mounted_at = nullptr);
// What both status() and a mount tell.
Result<VolumeStatus> volume_status(Host& host, std::string_view volume,
                                   std::string mounted_at = {});

// Takes the volume in this directory over for as long as the answer lives; where another process has
// it, goes through that one. kBusy: one has it, and does not answer.
Result<std::unique_ptr<Admin>> open_admin(const std::string& directory, const HostOptions& options);

}  // namespace penstock::volume
