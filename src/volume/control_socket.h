// The control socket of a volume, DIR/control: a Unix socket, for the same user and root only.
//
// Threads: one at a time for each Channel; shut_down() and peer_is_gone() from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "penstock/result.h"
#include "penstock/units.h"
#include "volume/control_format.h"

namespace penstock::volume::control {

// Until when, and until what.
struct Patience {
  Deadline deadline = kNoDeadline;  // Then kTimeout.
  std::stop_token cancel = {};      // Then kCancelled.
};

struct Frame {
  Header header;
  std::vector<std::byte> body;
};

// One end of a connection. Frames are written and read whole; a peer that stops in the middle of one
// is given up after half a minute. After any error the connection is of no use any more.
// Failure: kUnavailable when the other end is gone: nothing more can be said, or heard, this way.
class Channel {
 public:
  Channel() = default;
  explicit Channel(int fd) : fd_(fd) {}
  ~Channel();
  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&& other) noexcept;

  Result<void> send(Kind kind, uint64_t request, std::span<const std::byte> body,
                    std::span<const std::byte> payload = {});
  // The next frame; its payload goes to the front of `payload`. kCorrupt when that is too small.
  Result<Frame> receive(std::span<std::byte> payload, const Patience& patience);

  // From now on nothing comes in: a receive() ends, now or later. What is being sent still goes out.
  void shut_down() const;
  // Both ways, at once.
  void break_off() const;
  // Whether the other end has closed, or sent something, although it is not its turn.
  bool peer_is_gone() const;
  // Waits for something to come in, or for the peer to go. False: the time is over.
  bool wait_input(Nanoseconds time, int other_fd = -1) const;
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  Result<void> wait(const Patience& patience) const;
  Result<void> receive_all(std::span<std::byte> first, std::span<std::byte> second) const;

  int fd_ = -1;
};

// Listens in the directory of a volume, which the caller owns: whatever socket lies there is of a dead
// process, and replaced. Its name is removed when this is destroyed.
class Listener {
 public:
  static Result<Listener> open(const std::string& directory);
  ~Listener();
  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&&) = delete;

  int fd() const { return fd_; }
  // Somebody who may; an empty one where nobody came after all, or it was somebody who may not.
  Result<Channel> accept();

 private:
  Listener(int directory, int fd) : directory_(directory), fd_(fd) {}
  int directory_ = -1;
  int fd_ = -1;
};

// kUnavailable: nobody listens there (any more). kPermission: it belongs to another user.
Result<Channel> connect_to_owner(const std::string& directory);

}  // namespace penstock::volume::control
