#include "volume/control_socket.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/descriptor.h"
#include "base/log.h"

namespace penstock::volume::control {

namespace {

constexpr const char* kSocketName = "control";
constexpr int kBacklog = 64;
constexpr time_t kStallSeconds = 30;
constexpr int kBufferBytes = 1 << 20;

Error gone() {
  Error error = make_error(ErrorCode::kUnavailable,
                           "the process that has the volume ended, or closed the connection",
                           /*retryable=*/true);
  error.os_errno = ECONNRESET;
  return error;
}

Error socket_error(int number, std::string_view action) {
  if (number == EPIPE || number == ECONNRESET || number == ENOTCONN) return gone();
  if (number == EAGAIN || number == EWOULDBLOCK) {
    return make_error(ErrorCode::kTimeout,
                      "the other end of the control socket does not go on in the middle of a "
                      "message",
                      /*retryable=*/true);
  }
  return errno_error(number, action);
}

// Through the directory's descriptor: the path itself may be longer than an address can be.
sockaddr_un address_in(int directory) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto end = fmt::format_to_n(address.sun_path, sizeof address.sun_path - 1,
                                    "/proc/self/fd/{}/{}", directory, kSocketName);
  *end.out = '\0';
  return address;
}

int open_directory(const std::string& directory) {
  return ::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
}

void set_up(int fd) {
  const timeval stall{.tv_sec = kStallSeconds, .tv_usec = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &stall, sizeof stall);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &stall, sizeof stall);
  // As much as an answer has, so that one writes while the other reads. More than the system's
  // limit only root gets.
  if (::setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &kBufferBytes, sizeof kBufferBytes) != 0) {
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kBufferBytes, sizeof kBufferBytes);
  }
}

int poll_milliseconds(Deadline deadline) {
  if (deadline == kNoDeadline) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1'000'000'000));
}

// Leaves out the first `count` bytes.
void leave_out(std::span<iovec>& parts, size_t count) {
  while (!parts.empty() && count >= parts.front().iov_len) {
    count -= parts.front().iov_len;
    parts = parts.subspan(1);
  }
  if (parts.empty()) return;
  parts.front().iov_base = static_cast<char*>(parts.front().iov_base) + count;
  parts.front().iov_len -= count;
}

}  // namespace

Channel::~Channel() {
  if (fd_ >= 0) ::close(fd_);
}

Channel::Channel(Channel&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Channel& Channel::operator=(Channel&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Result<void> Channel::send(Kind kind, uint64_t request, std::span<const std::byte> body,
                           std::span<const std::byte> payload) {
  if (body.size() > kBodyBytesMax || payload.size() > kPayloadBytesMax) {
    return make_error(ErrorCode::kInvalid, "too much for one message of the control socket");
  }
  auto header = encode_header({.kind = kind,
                               .request = request,
                               .body_bytes = static_cast<uint32_t>(body.size()),
                               .payload_bytes = static_cast<uint32_t>(payload.size())});
  std::array<iovec, 3> all = {iovec{header.data(), header.size()},
                              iovec{const_cast<std::byte*>(body.data()), body.size()},
                              iovec{const_cast<std::byte*>(payload.data()), payload.size()}};
  std::span<iovec> parts = all;
  leave_out(parts, 0);
  while (!parts.empty()) {
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t sent = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return socket_error(errno, "send over the control socket");
    leave_out(parts, static_cast<size_t>(sent));
  }
  return {};
}

Result<void> Channel::wait(const Patience& patience) const {
  std::array<pollfd, 2> ends = {pollfd{.fd = fd_, .events = POLLIN, .revents = 0},
                                pollfd{.fd = -1, .events = POLLIN, .revents = 0}};
  const Descriptor stop(patience.cancel.stop_possible() ? ::eventfd(0, EFD_CLOEXEC) : -1);
  ends[1].fd = stop.get();
  const std::stop_callback on_stop(patience.cancel, [&stop] {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(stop.get(), &one, sizeof one);
  });
  while (true) {
    const int ready = ::poll(ends.data(), ends.size(), poll_milliseconds(patience.deadline));
    if (ready < 0 && errno != EINTR) return errno_error(errno, "poll");
    if (patience.cancel.stop_requested()) {
      return make_error(ErrorCode::kCancelled, "the caller cancelled the call");
    }
    if (ready > 0 && ends[0].revents != 0) return {};
    if (ready == 0 && std::chrono::steady_clock::now() >= patience.deadline) {
      return make_error(ErrorCode::kTimeout, "the deadline of the call passed", true);
    }
  }
}

Result<void> Channel::receive_all(std::span<std::byte> first, std::span<std::byte> second) const {
  std::array<iovec, 2> all = {iovec{first.data(), first.size()},
                              iovec{second.data(), second.size()}};
  std::span<iovec> parts = all;
  leave_out(parts, 0);
  while (!parts.empty()) {
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t got = ::recvmsg(fd_, &message, MSG_WAITALL);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return socket_error(errno, "read from the control socket");
    if (got == 0) return gone();
    leave_out(parts, static_cast<size_t>(got));
  }
  return {};
}

Result<Frame> Channel::receive(std::span<std::byte> payload, const Patience& patience) {
  PENSTOCK_TRY(wait(patience));
  std::array<std::byte, kHeaderBytes> bytes{};
  PENSTOCK_TRY(receive_all(bytes, {}));
  Frame frame;
  frame.header = PENSTOCK_TRY(decode_header(bytes));
  if (frame.header.payload_bytes > payload.size()) {
    return make_error(ErrorCode::kCorrupt, "more came over the control socket than was asked for");
  }
  frame.body.resize(frame.header.body_bytes);
  PENSTOCK_TRY(receive_all(frame.body, payload.first(frame.header.payload_bytes)));
  return frame;
}

void Channel::shut_down() const {
  ::shutdown(fd_, SHUT_RD);
}

void Channel::break_off() const {
  ::shutdown(fd_, SHUT_RDWR);
}

bool Channel::peer_is_gone() const {
  pollfd end{.fd = fd_, .events = POLLIN | POLLRDHUP, .revents = 0};
  return ::poll(&end, 1, 0) > 0;
}

bool Channel::wait_input(Nanoseconds time, int other_fd) const {
  std::array<pollfd, 2> ends = {pollfd{.fd = fd_, .events = POLLIN | POLLRDHUP, .revents = 0},
                                pollfd{.fd = other_fd, .events = POLLIN, .revents = 0}};
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(time).count();
  const int ready = ::poll(ends.data(), ends.size(), static_cast<int>(milliseconds));
  return ready > 0 && ends[0].revents != 0;
}

Result<Listener> Listener::open(const std::string& directory) {
  Descriptor folder(open_directory(directory));
  if (folder.get() < 0) return errno_error(errno, fmt::format("open {}", directory));
  Descriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) return errno_error(errno, "make a socket");
  ::unlinkat(folder.get(), kSocketName, 0);
  const sockaddr_un address = address_in(folder.get());
  // Before anybody can connect, which takes listen(), only its user may.
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::fchmodat(folder.get(), kSocketName, 0600, 0) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    return errno_error(errno, fmt::format("listen at {}/{}", directory, kSocketName));
  }
  return Listener(folder.release(), fd.release());
}

Listener::Listener(Listener&& other) noexcept
    : directory_(std::exchange(other.directory_, -1)), fd_(std::exchange(other.fd_, -1)) {}

Listener::~Listener() {
  if (fd_ < 0) return;
  ::unlinkat(directory_, kSocketName, 0);
  ::close(fd_);
  ::close(directory_);
}

Result<Channel> Listener::accept() {
  Channel channel(::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC));
  if (channel.fd() < 0) {
    const bool nobody =
        errno == EAGAIN || errno == EWOULDBLOCK || errno == ECONNABORTED || errno == EINTR;
    return nobody ? Result<Channel>(Channel()) : errno_error(errno, "accept a connection");
  }
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(channel.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return errno_error(errno, "ask who connects");
  }
  if (peer.uid != 0 && peer.uid != ::geteuid()) {
    log_warn("refused a connection of another user", {{"uid", peer.uid}, {"pid", peer.pid}});
    return Channel();
  }
  set_up(channel.fd());
  return channel;
}

Result<Channel> connect_to_owner(const std::string& directory) {
  const Descriptor folder(open_directory(directory));
  if (folder.get() < 0) return errno_error(errno, fmt::format("open {}", directory));
  Channel channel(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!channel) return errno_error(errno, "make a socket");
  set_up(channel.fd());
  const sockaddr_un address = address_in(folder.get());
  int done = 0;
  do {
    done = ::connect(channel.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } while (done != 0 && errno == EINTR);
  if (done == 0) return channel;
  // EAGAIN: so many connect that they do not fit in its queue.
  if (errno == ECONNREFUSED || errno == ENOENT || errno == EAGAIN) {
    Error error = gone();
    error.os_errno = errno;
    return error;
  }
  if (errno == EACCES || errno == EPERM) {
    return make_error(ErrorCode::kPermission,
                      fmt::format("another user has the volume in {}: only that one and root can "
                                  "use it meanwhile",
                                  directory));
  }
  return errno_error(errno, fmt::format("connect to {}/{}", directory, kSocketName));
}

}  // namespace penstock::volume::control
