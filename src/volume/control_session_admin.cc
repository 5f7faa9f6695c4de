// Requests about volumes.
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <thread>

#include "base/thread_pool.h"
#include "volume/control_server.h"
#include "volume/control_session.h"

namespace penstock::volume::control {

namespace {

constexpr auto kSignOfLife = std::chrono::milliseconds(500);
constexpr size_t kFindingsAtOnce = 1000;

// The newest value, from one thread to another.
template <typename T>
class Latest {
 public:
  void set(const T& value) {
    const std::lock_guard lock(mutex_);
    value_ = value;
  }
  T get() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }

 private:
  mutable std::mutex mutex_;
  T value_{};
};

}  // namespace

Result<Session::Body> Session::admin_answer(const Frame& frame) {
  Admin& admin = server_.admin();
  switch (frame.header.kind) {
    case Kind::kVolumes:
      return encode(PENSTOCK_TRY(admin.volumes()));
    case Kind::kStatus: {
      const auto request = PENSTOCK_TRY(decode<VolumeRequest>(frame.body));
      return encode(PENSTOCK_TRY(admin.status(request.volume)));
    }
    case Kind::kMetrics: {
      const auto request = PENSTOCK_TRY(decode<VolumeRequest>(frame.body));
      return encode(PENSTOCK_TRY(admin.metrics(request.volume)));
    }
    case Kind::kSetSettings: {
      const auto request = PENSTOCK_TRY(decode<SettingsRequest>(frame.body));
      PENSTOCK_TRY(admin.set_settings(request.volume, request.settings));
      return Body();
    }
    case Kind::kCommit:
      return encode(PENSTOCK_TRY(admin.commit()));
    case Kind::kMakeSnapshot: {
      const auto request = PENSTOCK_TRY(decode<SnapshotRequest>(frame.body));
      PENSTOCK_TRY(admin.make_snapshot(request.volume, request.name, request.at));
      return Body();
    }
    case Kind::kRemoveSnapshot: {
      const auto request = PENSTOCK_TRY(decode<SnapshotRequest>(frame.body));
      PENSTOCK_TRY(admin.remove_snapshot(request.volume, request.name));
      return Body();
    }
    default:
      return long_answer(frame);
  }
}

Result<Session::Body> Session::long_answer(const Frame& frame) {
  switch (frame.header.kind) {
    case Kind::kClone: {
      const auto request = PENSTOCK_TRY(decode<SnapshotRequest>(frame.body));
      Result<void> done;
      run_long(
          frame.header.request,
          [&](const std::stop_token&) {
            done = server_.admin().clone(request.volume, request.at, request.name);
          },
          [] { return Body(); });
      if (!done.ok()) return done.error();
      return Body();
    }
    case Kind::kGc:
      return gc(frame);
    case Kind::kFsck:
      return fsck(frame);
    case Kind::kDrain:
      return drain(frame);
    case Kind::kMount:
      return mount(frame);
    default:
      return make_error(ErrorCode::kUnsupported,
                        "the process that has the volume does not know this request");
  }
}

Result<Session::Body> Session::gc(const Frame& frame) {
  const auto request = PENSTOCK_TRY(decode<GcRequest>(frame.body));
  GcOptions options;
  options.dry_run = request.dry_run;
  options.compact_below = static_cast<double>(request.compact_below_ppm) / 1e6;
  Result<GcReport> report = GcReport();
  run_long(
      frame.header.request,
      [&](std::stop_token cancel) {
        options.cancel = std::move(cancel);
        report = server_.admin().gc(options);
      },
      [] { return Body(); });
  if (!report.ok()) return report.error();
  return encode(*report);
}

Result<Session::Body> Session::fsck(const Frame& frame) {
  const auto request = PENSTOCK_TRY(decode<FsckRequest>(frame.body));
  Latest<FsckProgress> latest;
  FsckOptions options;
  options.read_content = request.read_content;
  options.repair = request.repair;
  options.progress = [&](uint64_t files, uint64_t bytes) { latest.set({files, bytes}); };
  Result<FsckReport> report = FsckReport();
  run_long(
      frame.header.request,
      [&](std::stop_token cancel) {
        options.cancel = std::move(cancel);
        report = server_.admin().fsck(options);
      },
      [&] { return encode(latest.get()); });
  if (!report.ok()) return report.error();
  PENSTOCK_TRY(send_findings(frame.header.request, report->findings));
  return encode(FsckAnswer{report->files, report->bytes, std::move(report->repaired)});
}

// In pieces: there may be one for each of a million files.
Result<void> Session::send_findings(uint64_t request, const std::vector<Finding>& findings) {
  for (size_t at = 0; at < findings.size(); at += kFindingsAtOnce) {
    const size_t end = std::min(findings.size(), at + kFindingsAtOnce);
    const std::vector<Finding> some(findings.begin() + static_cast<ptrdiff_t>(at),
                                    findings.begin() + static_cast<ptrdiff_t>(end));
    PENSTOCK_TRY(channel_.send(Kind::kFindings, request, encode(some)));
  }
  return {};
}

Result<Session::Body> Session::drain(const Frame& frame) {
  const auto request = PENSTOCK_TRY(decode<TimeoutRequest>(frame.body));
  const Deadline deadline = deadline_of(request.timeout_ns);
  Latest<Pending> latest;
  Result<void> done;
  run_long(
      frame.header.request,
      [&](std::stop_token cancel) {
        done = server_.admin().drain(
            deadline, [&](const Pending& pending) { latest.set(pending); }, std::move(cancel));
      },
      [&] { return encode(latest.get()); });
  if (!done.ok()) return done.error();
  return Body();
}

Result<Session::Body> Session::mount(const Frame& frame) {
  const auto request = PENSTOCK_TRY(decode<MountRequest>(frame.body));
  Result<MountAnswer> answer = MountAnswer();
  run_long(
      frame.header.request,
      [&](const std::stop_token& cancel) { answer = server_.mount(request, cancel); },
      [] { return Body(); });
  if (!answer.ok()) return answer.error();
  return encode(*answer);
}

void Session::run_long(uint64_t request, const std::function<void(std::stop_token)>& work,
                       const std::function<Body()>& progress) {
  std::stop_source stop;
  const int done = ::eventfd(0, EFD_CLOEXEC);
  std::atomic<bool> ended = false;
  std::thread worker([&] {
    set_thread_name("volume-work");
    work(stop.get_token());
    ended = true;
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(done, &one, sizeof one);
  });
  while (!ended && !stop.stop_requested()) {
    // Nothing is due from the peer, so what comes is its end; or that of the server.
    const bool gone = channel_.wait_input(kSignOfLife, done);
    if (ended) break;
    if (gone || !channel_.send(Kind::kProgress, request, progress()).ok()) stop.request_stop();
  }
  worker.join();
  if (done >= 0) ::close(done);
}

}  // namespace penstock::volume::control
