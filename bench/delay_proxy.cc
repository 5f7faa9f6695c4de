// A far server on this machine: passes TCP connections on, and delays what goes through them.
//
//   delay_proxy PORT [--delay-ms MS] [--window BYTES] [--rate BYTES]
//
// Listens on a free port of 127.0.0.1, prints its number, and connects to PORT of 127.0.0.1. Ends on
// SIGTERM, SIGINT, or with the process that started it.
//
//   --delay-ms  One way: every byte arrives so much later, in both directions. A round trip is twice
//               that, and a new connection waits for one, as a handshake would. Default 10.
//   --window    What one connection may have on the way in one direction until its receipt comes back,
//               a round trip later: so one connection carries at most window / round trip, as TCP does
//               with receivers that offer no more (64 KiB without window scaling). Default 64 MiB.
//   --rate      Bytes per second of the link in each direction, shared by all connections. Default: as
//               much as this machine can move.
//
// There are no losses, and no slow start: a young connection does as well as an old one.
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

#include "delay_flows.h"

namespace {

using namespace delay;

constexpr size_t kChunkBytes = 128 * 1024;
// What the link holds of bytes that wait their turn: a router's queue, but one that loses nothing.
constexpr nanoseconds kLinkQueue = std::chrono::milliseconds(20);

class Proxy {
 public:
  explicit Proxy(const Options& options) : options_(options) {}

  // Only returns when something fails.
  const char* run();

 private:
  const char* listen_on_free_port();
  void wait_for_events();
  void run_timers();
  void after(Clock::time_point due, std::function<void()> what) {
    timers_.emplace(due, std::move(what));
  }

  void accept_all();
  void established(const ConnectionRef& connection);
  void close_both(Connection& connection);
  void watch(Connection& connection);

  void readable(const ConnectionRef& connection, size_t direction);
  bool link_is_full(size_t direction) const;
  void stand_in_line(const ConnectionRef& connection, size_t direction);
  void serve_line(size_t direction);
  void read_chunk(const ConnectionRef& connection, size_t direction);
  void send_off(const ConnectionRef& connection, size_t direction, Chunk chunk);
  void arrived(const ConnectionRef& connection, size_t direction);
  void write_arrived(const ConnectionRef& connection, size_t direction);

  const Options options_;
  int epoll_ = -1;
  int listener_ = -1;
  std::multimap<Clock::time_point, std::function<void()>> timers_;
  std::unordered_map<int, ConnectionRef> by_socket_;
  std::array<Link, 2> links_;
};

const char* Proxy::listen_on_free_port() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (epoll_ < 0 || listener_ < 0) return "socket";
  if (bind(listener_, generic, length) != 0 || listen(listener_, 1024) != 0) return "listen";
  if (getsockname(listener_, generic, &length) != 0) return "getsockname";
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = listener_;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, listener_, &event) != 0) return "epoll_ctl";
  fmt::print("{}\n", ntohs(address.sin_port));
  return std::fflush(stdout) == 0 ? nullptr : "standard output";
}

const char* Proxy::run() {
  if (const char* failed = listen_on_free_port()) return failed;
  while (true) {
    wait_for_events();
    run_timers();
  }
}

void Proxy::wait_for_events() {
  timespec wait{};
  const timespec* timeout = nullptr;
  if (!timers_.empty()) {
    const nanoseconds left =
        std::max(nanoseconds(0), nanoseconds(timers_.begin()->first - Clock::now()));
    wait.tv_sec = left.count() / 1'000'000'000;
    wait.tv_nsec = left.count() % 1'000'000'000;
    timeout = &wait;
  }
  std::array<epoll_event, 64> events;
  const int count = epoll_pwait2(epoll_, events.data(), events.size(), timeout, nullptr);
  for (int i = 0; i < count; ++i) {
    const int socket = events[static_cast<size_t>(i)].data.fd;
    if (socket == listener_) {
      accept_all();
      continue;
    }
    const auto found = by_socket_.find(socket);
    if (found == by_socket_.end()) continue;  // Closed by an event before this one.
    const ConnectionRef connection = found->second;
    const size_t side = connection->flows[0].from == socket ? 0 : 1;
    // An error or a hang-up shows when we do what we waited for.
    const uint32_t interest = connection->interest[side];
    if ((interest & EPOLLOUT) != 0) write_arrived(connection, 1 - side);
    if ((interest & EPOLLIN) != 0) readable(connection, side);
  }
}

void Proxy::run_timers() {
  while (!timers_.empty() && timers_.begin()->first <= Clock::now()) {
    const std::function<void()> what = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    what();
  }
}

void Proxy::accept_all() {
  while (true) {
    const int client = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (client < 0) return;
    const int server = connect_to(options_.server_port);
    if (server < 0) {
      close(client);
      continue;
    }
    const int yes = 1;
    const auto connection = std::make_shared<Connection>();
    connection->flows[0].from = connection->flows[1].to = client;
    connection->flows[1].from = connection->flows[0].to = server;
    for (const int socket : {client, server}) {
      setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
      by_socket_[socket] = connection;
    }
    after(Clock::now() + 2 * options_.delay, [this, connection] { established(connection); });
  }
}

void Proxy::established(const ConnectionRef& connection) {
  connection->established = true;
  if (!connection->closed) watch(*connection);
}

void Proxy::close_both(Connection& connection) {
  if (connection.closed) return;
  connection.closed = true;
  for (const Flow& flow : connection.flows) {
    by_socket_.erase(flow.from);
    close(flow.from);
  }
}

// Asks the kernel for what can be used now, and only that. A socket that is watched for nothing would
// still say, over and over, that the other side hung up: such a one is taken out.
void Proxy::watch(Connection& connection) {
  for (size_t side = 0; side < 2; ++side) {
    const Flow& reads = connection.flows[side];
    const Flow& writes = connection.flows[1 - side];
    const bool may_read = connection.established && !reads.ended && !reads.in_line &&
                          reads.unacknowledged_bytes < options_.window_bytes;
    uint32_t interest = may_read ? uint32_t{EPOLLIN} : 0;
    if (!writes.arrived.empty()) interest |= EPOLLOUT;
    const uint32_t before = std::exchange(connection.interest[side], interest);
    if (interest == before) continue;
    epoll_event event{};
    event.events = interest;
    event.data.fd = reads.from;
    const int change = interest == 0 ? EPOLL_CTL_DEL : before == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    epoll_ctl(epoll_, change, reads.from, &event);
  }
}

bool Proxy::link_is_full(size_t direction) const {
  return links_[direction].free_at > Clock::now() + kLinkQueue;
}

void Proxy::readable(const ConnectionRef& connection, size_t direction) {
  if (connection->closed) return;
  if (link_is_full(direction)) {
    stand_in_line(connection, direction);
  } else {
    read_chunk(connection, direction);
  }
  if (!connection->closed) watch(*connection);
}

void Proxy::stand_in_line(const ConnectionRef& connection, size_t direction) {
  Link& link = links_[direction];
  connection->flows[direction].in_line = true;
  link.line.push_back(connection);
  if (link.wakes) return;
  link.wakes = true;
  after(link.free_at - kLinkQueue, [this, direction] { serve_line(direction); });
}

// One chunk for each in turn, so that all get the same.
void Proxy::serve_line(size_t direction) {
  Link& link = links_[direction];
  link.wakes = false;
  while (!link.line.empty() && !link_is_full(direction)) {
    const ConnectionRef connection = std::move(link.line.front());
    link.line.pop_front();
    connection->flows[direction].in_line = false;
    if (connection->closed) continue;
    read_chunk(connection, direction);
    if (!connection->closed) watch(*connection);
  }
  if (link.line.empty()) return;
  link.wakes = true;
  after(link.free_at - kLinkQueue, [this, direction] { serve_line(direction); });
}

void Proxy::read_chunk(const ConnectionRef& connection, size_t direction) {
  Flow& flow = connection->flows[direction];
  if (flow.ended || flow.unacknowledged_bytes >= options_.window_bytes) return;
  const size_t room =
      std::min<uint64_t>(kChunkBytes, options_.window_bytes - flow.unacknowledged_bytes);
  Chunk chunk{.bytes = std::unique_ptr<std::byte[]>(new std::byte[room])};
  const ssize_t got = recv(flow.from, chunk.bytes.get(), room, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got < 0) return close_both(*connection);
  chunk.size = static_cast<size_t>(got);
  flow.ended = got == 0;
  flow.unacknowledged_bytes += chunk.size;
  send_off(connection, direction, std::move(chunk));
}

void Proxy::send_off(const ConnectionRef& connection, size_t direction, Chunk chunk) {
  Link& link = links_[direction];
  link.free_at = std::max(link.free_at, Clock::now());
  if (options_.bytes_per_second > 0) {
    const double seconds =
        static_cast<double>(chunk.size) / static_cast<double>(options_.bytes_per_second);
    link.free_at += std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>(seconds));
  }
  connection->flows[direction].under_way.push_back(std::move(chunk));
  after(link.free_at + options_.delay,
        [this, connection, direction] { arrived(connection, direction); });
}

void Proxy::arrived(const ConnectionRef& connection, size_t direction) {
  if (connection->closed) return;
  Flow& flow = connection->flows[direction];
  flow.arrived.push_back(std::move(flow.under_way.front()));
  flow.under_way.pop_front();
  write_arrived(connection, direction);
}

void Proxy::write_arrived(const ConnectionRef& connection, size_t direction) {
  Flow& flow = connection->flows[direction];
  while (!connection->closed && !flow.arrived.empty()) {
    Chunk& chunk = flow.arrived.front();
    if (chunk.size == 0) {
      shutdown(flow.to, SHUT_WR);
      flow.finished = true;
    }
    const ssize_t put = chunk.size == 0 ? 0
                                        : send(flow.to, chunk.bytes.get() + chunk.written,
                                               chunk.size - chunk.written, MSG_NOSIGNAL);
    if (put < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (put < 0) return close_both(*connection);
    chunk.written += static_cast<size_t>(put);
    if (chunk.written < chunk.size) continue;
    const size_t size = chunk.size;
    flow.arrived.pop_front();
    after(Clock::now() + options_.delay, [this, connection, direction, size] {
      connection->flows[direction].unacknowledged_bytes -= size;
      if (!connection->closed) watch(*connection);
    });
  }
  if (connection->closed) return;
  if (connection->flows[0].finished && connection->flows[1].finished)
    return close_both(*connection);
  watch(*connection);
}

}  // namespace

int main(int argc, char** argv) {
  delay::Options options;
  if (!delay::parse(argc, argv, options)) {
    fmt::print(stderr, "usage: delay_proxy PORT [--delay-ms MS] [--window BYTES] [--rate BYTES]\n");
    return 2;
  }
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // Nobody is left to stop it then.
  const char* failed = Proxy(options).run();
  fmt::print(stderr, "delay_proxy: {}: {}\n", failed, std::strerror(errno));
  return 1;
}
