#include "volume/control_server.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>

#include "base/log.h"
#include "base/thread_pool.h"
#include "volume/control_session.h"
#include "volume/served_volume.h"
#include "volume/volume_metrics.h"
#include "volume/volume_store.h"

namespace penstock::volume {

namespace {

// After a failure to accept, of which being out of descriptors is the likely one.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

// As ps calls it.
std::string program_name() {
  std::ifstream file("/proc/self/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

}  // namespace

Result<std::unique_ptr<ControlServer>> ControlServer::start(std::shared_ptr<Host> host,
                                                            const std::string& directory,
                                                            const ControlServerOptions& options) {
  control::Listener listener = PENSTOCK_TRY(control::Listener::open(directory));
  const int wake = ::eventfd(0, EFD_CLOEXEC);
  if (wake < 0) return errno_error(errno, "make an eventfd");
  std::unique_ptr<ControlServer> server(
      new ControlServer(std::move(host), std::move(listener), wake, options));
  server->acceptor_ = std::thread([raw = server.get()] { raw->run(); });
  return server;
}

ControlServer::ControlServer(std::shared_ptr<Host> host, control::Listener listener, int wake,
                             const ControlServerOptions& options)
    : host_(std::move(host)),
      options_(options),
      admin_(make_local_admin(host_, options.mounted_at)),
      listener_(std::move(listener)),
      wake_(wake) {}

void ControlServer::stop() {
  std::call_once(stopped_, [this] {
    stopping_ = true;
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
    if (acceptor_.joinable()) acceptor_.join();
    listener_.reset();
    for (const auto& connection : connections_) connection->channel.shut_down();
    for (const auto& connection : connections_) connection->thread.join();
    connections_.clear();
    ::close(wake_);
  });
}

size_t ControlServer::connections() const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(
      std::ranges::count_if(connections_, [](const auto& one) { return !one->ended; }));
}

void ControlServer::run() {
  set_thread_name("volume-control");
  while (!stopping_) {
    std::array<pollfd, 2> ends = {pollfd{.fd = listener_->fd(), .events = POLLIN, .revents = 0},
                                  pollfd{.fd = wake_, .events = POLLIN, .revents = 0}};
    if (::poll(ends.data(), ends.size(), -1) < 0 && errno != EINTR) return;
    if (!stopping_ && ends[0].revents != 0) accept_one();
    join_ended();
  }
}

void ControlServer::accept_one() {
  Result<control::Channel> channel = listener_->accept();
  if (!channel.ok()) {
    log_warn("cannot accept connections to the control socket",
             {{"error", channel.error().to_string()}});
    std::this_thread::sleep_for(kAcceptPause);
    return;
  }
  if (!*channel) return;
  if (connections() >= options_.connections_max) {
    const Error full = make_error(ErrorCode::kUnavailable,
                                  "too many others use the volume at this moment; try again",
                                  /*retryable=*/true);
    (void)channel->send(control::Kind::kError, 0, control::encode_error(full));
    return;
  }
  auto made = std::make_unique<Connection>();
  Connection& connection = *made;
  connection.channel = std::move(*channel);
  const std::lock_guard lock(mutex_);
  connections_.push_back(std::move(made));
  VolumeMetrics::global().connections.add();
  VolumeMetrics::global().connections_now.add(1);
  connection.thread = std::thread([this, &connection] {
    set_thread_name("volume-client");
    control::Session(*this, connection.channel).run();
    VolumeMetrics::global().connections_now.add(-1);
    connection.channel.break_off();  // Who waits at the other end is to know.
    connection.ended = true;
  });
}

void ControlServer::join_ended() {
  const std::lock_guard lock(mutex_);
  std::erase_if(connections_, [](const auto& connection) {
    if (!connection->ended) return false;
    connection->thread.join();
    return true;
  });
}

Result<control::MountAnswer> ControlServer::mount(const control::MountRequest& request,
                                                  const std::stop_token& cancel) {
  if (options_.mount_beside) return options_.mount_beside(request, cancel);
  return make_error(
      ErrorCode::kUnsupported,
      fmt::format("process {} ({}) has the volume, and serves no mounts; mount it when that has "
                  "ended. Once it is mounted, such programs go through the mount",
                  ::getpid(), program_name()));
}

Result<std::shared_ptr<store::ObjectStore>> ControlServer::store_of(
    const control::OpenStoreRequest& request) {
  std::string volume = request.volume;
  if (volume.empty()) volume = PENSTOCK_TRY(host_->volumes()).front();
  const std::lock_guard lock(mutex_);
  std::erase_if(stores_, [](const auto& one) { return one.second.expired(); });
  std::weak_ptr<store::ObjectStore>& known =
      stores_[{volume, request.folder, request.name, request.read_only}];
  if (std::shared_ptr<store::ObjectStore> open = known.lock()) return open;
  std::shared_ptr<Volume> live = PENSTOCK_TRY(host_->open(volume));
  if (options_.feed) live = std::make_shared<ServedVolume>(std::move(live), options_.feed);
  std::shared_ptr<store::ObjectStore> open = make_volume_store(
      std::move(live),
      {.name = request.name, .folder = request.folder, .read_only = request.read_only});
  known = open;
  return open;
}

}  // namespace penstock::volume
