// What another process does for us with a volume that it has.
#include <algorithm>
#include <iterator>
#include <mutex>

#include "volume/admin.h"
#include "volume/control_call.h"
#include "volume/owner.h"

namespace penstock::volume {

namespace {

using control::Kind;

class RemoteAdmin final : public Admin {
 public:
  RemoteAdmin(std::string directory, control::Channel first)
      : directory_(std::move(directory)), first_(std::move(first)) {}

  Result<std::vector<std::string>> volumes() override {
    return ask<std::vector<std::string>>(Kind::kVolumes, control::Nothing{});
  }
  Result<VolumeStatus> status(std::string_view volume) override {
    return ask<VolumeStatus>(Kind::kStatus, control::VolumeRequest{std::string(volume)});
  }
  Result<std::string> metrics(std::string_view volume) override {
    return ask<std::string>(Kind::kMetrics, control::VolumeRequest{std::string(volume)});
  }
  Result<void> set_settings(std::string_view volume, const meta::Settings& settings) override {
    return tell(Kind::kSetSettings, control::SettingsRequest{std::string(volume), settings});
  }
  Result<meta::Version> commit() override {
    return ask<meta::Version>(Kind::kCommit, control::Nothing{});
  }
  Result<void> make_snapshot(std::string_view volume, std::string_view name,
                             std::optional<meta::Time> at) override {
    return tell(Kind::kMakeSnapshot, snapshot_request(volume, name, at));
  }
  Result<void> remove_snapshot(std::string_view volume, std::string_view name) override {
    return tell(Kind::kRemoveSnapshot, snapshot_request(volume, name, {}));
  }
  Result<void> clone(std::string_view volume, std::optional<meta::Time> at,
                     std::string_view name) override {
    return tell(Kind::kClone, snapshot_request(volume, name, at));
  }
  Result<GcReport> gc(const GcOptions& options) override;
  Result<FsckReport> fsck(const FsckOptions& options) override;
  Result<void> drain(Deadline deadline, const std::function<void(const Pending&)>& progress,
                     std::stop_token cancel) override;

 private:
  static control::SnapshotRequest snapshot_request(std::string_view volume, std::string_view name,
                                                   std::optional<meta::Time> at) {
    return {std::string(volume), std::string(name), at};
  }

  template <typename Reply, typename Request>
  Result<Reply> ask(Kind kind, const Request& request, const std::stop_token& cancel = {},
                    const control::OnNews& on_news = {}) {
    control::Link link;
    link.channel = PENSTOCK_TRY(connect());
    const control::Answer answer = PENSTOCK_TRY(
        control::call(link, kind, control::encode(request), {.cancel = cancel}, {}, on_news));
    return control::decode<Reply>(answer.body);
  }
  template <typename Request>
  Result<void> tell(Kind kind, const Request& request, const std::stop_token& cancel = {},
                    const control::OnNews& on_news = {}) {
    PENSTOCK_TRY(ask<control::Nothing>(kind, request, cancel, on_news));
    return {};
  }

  Result<control::Channel> connect() {
    {
      const std::lock_guard lock(mutex_);
      if (first_ && !first_.peer_is_gone()) return std::move(first_);
    }
    return control::connect_to_owner(directory_);
  }

  const std::string directory_;
  std::mutex mutex_;
  control::Channel first_;  // The one that was made to see whether there is anybody.
};

Result<GcReport> RemoteAdmin::gc(const GcOptions& options) {
  const control::GcRequest request{options.dry_run,
                                   static_cast<uint64_t>(options.compact_below * 1e6)};
  return ask<GcReport>(Kind::kGc, request, options.cancel);
}

Result<FsckReport> RemoteAdmin::fsck(const FsckOptions& options) {
  FsckReport report;
  const auto on_news = [&](const control::Frame& frame) -> Result<void> {
    if (frame.header.kind == Kind::kFindings) {
      auto some = PENSTOCK_TRY(control::decode<std::vector<Finding>>(frame.body));
      std::ranges::move(some, std::back_inserter(report.findings));
      return {};
    }
    const auto progress = PENSTOCK_TRY(control::decode<control::FsckProgress>(frame.body));
    if (options.progress) options.progress(progress.files, progress.bytes);
    return {};
  };
  auto done = PENSTOCK_TRY(ask<control::FsckAnswer>(
      Kind::kFsck, control::FsckRequest{options.read_content, options.repair}, options.cancel,
      on_news));
  report.files = done.files;
  report.bytes = done.bytes;
  report.repaired = std::move(done.repaired);
  return report;
}

Result<void> RemoteAdmin::drain(Deadline deadline,
                                const std::function<void(const Pending&)>& progress,
                                std::stop_token cancel) {
  const auto on_news = [&](const control::Frame& frame) -> Result<void> {
    const auto pending = PENSTOCK_TRY(control::decode<Pending>(frame.body));
    if (progress) progress(pending);
    return {};
  };
  return tell(Kind::kDrain, control::TimeoutRequest{control::timeout_of(deadline)}, cancel,
              on_news);
}

}  // namespace

Result<std::unique_ptr<Admin>> open_admin(const std::string& directory,
                                          const HostOptions& options) {
  Reached reached = PENSTOCK_TRY(reach(directory, options));
  if (!reached.owner) {
    return std::unique_ptr<Admin>(
        std::make_unique<RemoteAdmin>(directory, std::move(reached.channel)));
  }
  // The owner goes with the host that is looked at through it.
  Host* const host = reached.owner->host().get();
  return make_local_admin(std::shared_ptr<Host>(std::move(reached.owner), host));
}

}  // namespace penstock::volume
