#include <unistd.h>

#include "base/metrics.h"
#include "volume/admin.h"

namespace penstock::volume {

namespace {

// A version without retention goes with the next commit, unless it is held in time.
constexpr int kPinAttempts = 5;

class LocalAdmin final : public Admin {
 public:
  LocalAdmin(std::shared_ptr<Host> host, MountedAt mounted_at)
      : host_(std::move(host)), mounted_at_(std::move(mounted_at)) {}

  Result<std::vector<std::string>> volumes() override { return host_->volumes(); }
  Result<VolumeStatus> status(std::string_view volume) override {
    return volume_status(*host_, volume, mounted_at_ ? mounted_at_(volume) : std::string());
  }
  Result<std::string> metrics(std::string_view volume) override {
    PENSTOCK_TRY(host_->open(volume));  // There is such a one.
    host_->note_metrics();
    return Metrics::global().prometheus({{"volume", std::string(volume)}});
  }
  Result<void> set_settings(std::string_view volume, const meta::Settings& settings) override {
    return host_->set_settings(volume, settings);
  }
  Result<meta::Version> commit() override { return host_->commit(); }
  Result<void> make_snapshot(std::string_view volume, std::string_view name,
                             std::optional<meta::Time> at) override {
    const std::unique_ptr<meta::Pin> pin = PENSTOCK_TRY(pin_of(at));
    PENSTOCK_TRY(host_->database().make_snapshot(volume, name, pin->version()));
    PENSTOCK_TRY(host_->commit());
    return {};
  }
  Result<void> remove_snapshot(std::string_view volume, std::string_view name) override {
    PENSTOCK_TRY(host_->database().remove_snapshot(volume, name));
    PENSTOCK_TRY(host_->commit());
    return {};
  }
  Result<void> clone(std::string_view volume, std::optional<meta::Time> at,
                     std::string_view name) override {
    const std::unique_ptr<meta::Pin> pin = PENSTOCK_TRY(pin_of(at));
    return host_->clone(volume, pin->version(), name);
  }
  Result<GcReport> gc(const GcOptions& options) override { return host_->gc(options); }
  Result<FsckReport> fsck(const FsckOptions& options) override { return host_->fsck(options); }
  Result<void> drain(Deadline deadline, const std::function<void(const Pending&)>& progress,
                     std::stop_token cancel) override {
    return host_->drain(deadline, progress, cancel);
  }

 private:
  // Of the version of that time, which stays while this lives.
  Result<std::unique_ptr<meta::Pin>> pin_of(std::optional<meta::Time> at);

  const std::shared_ptr<Host> host_;
  const MountedAt mounted_at_;
};

Result<std::unique_ptr<meta::Pin>> LocalAdmin::pin_of(std::optional<meta::Time> at) {
  meta::Database& database = host_->database();
  if (at) return database.pin(PENSTOCK_TRY(database.version_at(*at)));
  Result<std::unique_ptr<meta::Pin>> pin = make_error(ErrorCode::kNotFound, "no version");
  for (int attempt = 0; attempt < kPinAttempts && !pin.ok(); ++attempt) {
    pin = database.pin(PENSTOCK_TRY(host_->commit()));
    if (!pin.ok() && pin.error().code != ErrorCode::kNotFound) break;
  }
  return pin;
}

}  // namespace

Result<VolumeStatus> volume_status(Host& host, std::string_view volume, std::string mounted_at) {
  const std::shared_ptr<Volume> open = PENSTOCK_TRY(host.open(volume));
  VolumeStatus status;
  status.settings = open->settings();
  status.totals = PENSTOCK_TRY(open->names().totals());
  status.host = PENSTOCK_TRY(host.status());
  status.snapshots = PENSTOCK_TRY(host.database().snapshots(volume));
  status.owner_pid = ::getpid();
  status.mounted_at = std::move(mounted_at);
  return status;
}

std::unique_ptr<Admin> make_local_admin(std::shared_ptr<Host> host, MountedAt mounted_at) {
  return std::make_unique<LocalAdmin>(std::move(host), std::move(mounted_at));
}

}  // namespace penstock::volume
