#include "volume/owner.h"

#include <fmt/core.h>

#include <map>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "volume/control_call.h"

namespace penstock::volume {

namespace {

// So long others wait for a take-over at most; what is left then is moved by who takes over.
constexpr auto kDrainTurn = std::chrono::seconds(10);
constexpr auto kReachPatience = std::chrono::seconds(5);
constexpr auto kGreetPatience = std::chrono::seconds(10);
constexpr auto kFirstPause = std::chrono::milliseconds(5);
constexpr auto kLongestPause = std::chrono::milliseconds(200);

struct Owners {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Owner>> open;
};

Owners& owners() {
  static auto* const all = new Owners;  // Its users may live until the process ends.
  return *all;
}

Result<std::shared_ptr<Owner>> shared_owner(const std::string& directory,
                                            const HostOptions& options) {
  const std::lock_guard lock(owners().mutex);
  std::weak_ptr<Owner>& known = owners().open[directory];
  if (std::shared_ptr<Owner> owner = known.lock()) return owner;
  std::shared_ptr<Owner> owner = PENSTOCK_TRY(Owner::open(directory, options, {}));
  known = owner;
  return owner;
}

// One that is about to end lets us connect, and then goes; one that was stopped says nothing.
Result<void> greet(control::Link& link) {
  const control::Patience patience{.deadline = deadline_in(kGreetPatience)};
  const Result<control::Answer> answer = control::call(link, control::Kind::kVolumes, {}, patience);
  if (answer.ok()) return {};
  if (answer.error().code != ErrorCode::kTimeout) return answer.error();
  return make_error(
      ErrorCode::kTimeout,
      "the process that has the volume does not answer; is it stopped, or waiting for "
      "a drive?",
      /*retryable=*/true);
}

}  // namespace

Result<std::shared_ptr<Owner>> Owner::open(const std::string& directory, HostOptions host,
                                           const OwnerOptions& options) {
  std::shared_ptr<Owner> owner(new Owner);
  // Not in the host's own end: nobody would be answered meanwhile.
  owner->drain_on_close_ = std::exchange(host.drain_on_close, false);
  owner->host_ = PENSTOCK_TRY(open_host(directory, host));
  Result<std::unique_ptr<ControlServer>> server =
      ControlServer::start(owner->host_, directory,
                           {.mounted_at = options.mounted_at,
                            .feed = options.feed,
                            .mount_beside = options.mount_beside});
  if (server.ok()) {
    owner->server_ = std::move(*server);
  } else {
    log_warn("no other process can use the volume meanwhile",
             {{"directory", directory}, {"error", server.error().to_string()}});
  }
  return owner;
}

Owner::~Owner() {
  if (drain_on_close_ && host_) drain();
  server_.reset();
}

// Where it fails, that is what the journal is for.
void Owner::drain() {
  uint64_t before = UINT64_MAX;
  while (true) {
    Pending left;
    const Result<void> drained =
        host_->drain(deadline_in(kDrainTurn), [&](const Pending& pending) { left = pending; });
    if (drained.ok() || drained.error().code != ErrorCode::kTimeout) return;
    const bool others = server_ && server_->connections() > 0;
    if (others || left.content_bytes >= before) return;
    before = left.content_bytes;
  }
}

Result<control::MountAnswer> mount_beside(const std::string& directory,
                                          const control::MountRequest& request,
                                          const std::stop_token& cancel) {
  control::Link link;
  link.channel = PENSTOCK_TRY(control::connect_to_owner(directory));
  PENSTOCK_TRY(greet(link));
  const control::Answer answer = PENSTOCK_TRY(
      control::call(link, control::Kind::kMount, control::encode(request), {.cancel = cancel}));
  return control::decode<control::MountAnswer>(answer.body);
}

Result<Reached> reach(const std::string& directory, const HostOptions& options) {
  const Deadline deadline = deadline_in(kReachPatience);
  Nanoseconds pause = kFirstPause;
  while (true) {
    Reached reached;
    Result<std::shared_ptr<Owner>> owner = shared_owner(directory, options);
    if (owner.ok()) {
      reached.owner = std::move(*owner);
      return reached;
    }
    if (owner.error().code != ErrorCode::kBusy) return owner.error();
    Result<control::Channel> channel = control::connect_to_owner(directory);
    if (channel.ok()) {
      control::Link link;
      link.channel = std::move(*channel);
      const Result<void> answers = greet(link);
      if (!answers.ok() && link.health != control::Health::kLost) return answers.error();
      reached.channel = std::move(link.channel);
      if (answers.ok()) return reached;
    } else if (channel.error().code != ErrorCode::kUnavailable) {
      return channel.error();
    }
    // It is about to listen, or to end.
    if (std::chrono::steady_clock::now() >= deadline) return owner.error();
    std::this_thread::sleep_for(pause);
    pause = std::min<Nanoseconds>(pause * 2, kLongestPause);
  }
}

}  // namespace penstock::volume
