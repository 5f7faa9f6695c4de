#include "mount/request_watch.h"

#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "mount/request_kinds.h"

namespace penstock::mount {

namespace {

thread_local bool current_kills = false;

// Whoever got an answer often asks again within microseconds. To look out for that so long saves
// waking a processor that has gone to sleep, which takes as long as the rest of a request.
constexpr auto kSpin = std::chrono::microseconds(50);

bool is_waiting(int fd) {
  pollfd wanted{fd, POLLIN, 0};
  return ::poll(&wanted, 1, 0) > 0;
}

bool is_answered(uint32_t opcode) {
  return opcode != FUSE_FORGET && opcode != FUSE_BATCH_FORGET && opcode != FUSE_INTERRUPT;
}

// The part of the request after its header.
template <typename T>
bool take(T& into, const void* request, size_t size) {
  if (size < sizeof(fuse_in_header) + sizeof into) return false;
  std::memcpy(&into, static_cast<const char*>(request) + sizeof(fuse_in_header), sizeof into);
  return true;
}

}  // namespace

bool RequestWatch::request_kills() {
  return current_kills;
}

void RequestWatch::look(const void* request, size_t size) {
  current_kills = false;
  fuse_in_header header{};
  if (size < sizeof header) return;
  std::memcpy(&header, request, sizeof header);
  const bool known = header.opcode < kOpcodesMax;
  counts_[known ? header.opcode : 0].fetch_add(1, std::memory_order_relaxed);
  RequestFacts facts{.number = header.unique, .opcode = header.opcode, .ino = header.nodeid};
  if (header.opcode == FUSE_READ) {
    fuse_read_in read{};
    if (take(read, request, size)) {
      facts.offset = read.offset;
      facts.length = read.size;
    }
  } else if (header.opcode == FUSE_WRITE) {
    fuse_write_in write{};
    if (take(write, request, size)) {
      facts.offset = write.offset;
      facts.length = write.size;
      current_kills = (write.write_flags & FUSE_WRITE_KILL_SUIDGID) != 0;
    }
  } else if (header.opcode == FUSE_SETATTR) {
    fuse_setattr_in change{};
    current_kills = take(change, request, size) && (change.valid & FATTR_KILL_SUIDGID) != 0;
  } else if (header.opcode == FUSE_INIT) {
    // Only its beginning: it grows with the kernels.
    struct {
      uint32_t major, minor, read_ahead, flags;
    } init{};
    if (take(init, request, size) && (init.flags & FUSE_HANDLE_KILLPRIV_V2) != 0) {
      first_ = header.unique;
    }
  }
  if (!is_answered(header.opcode)) return;
  facts.begun = RequestFacts::Clock::now();
  under_way_.begin(facts);
}

std::map<std::string, uint64_t> RequestWatch::counts() const {
  std::map<std::string, uint64_t> found;
  uint64_t named = 0;
  uint64_t all = 0;
  for (const auto& count : counts_) all += count.load(std::memory_order_relaxed);
  for (const RequestKind& kind : request_kinds()) {
    const uint64_t count = counts_[kind.opcode].load(std::memory_order_relaxed);
    if (count > 0) found[kind.name] = count;
    named += count;
  }
  if (all > named) found["other"] = all - named;
  return found;
}

ssize_t RequestWatch::read(int fd, void* into, size_t size) {
  turn_.take();
  const auto until = std::chrono::steady_clock::now() + kSpin;
  while (!is_waiting(fd) && std::chrono::steady_clock::now() < until) ::sched_yield();
  const ssize_t got = ::read(fd, into, size);
  if (got > 0) look(into, static_cast<size_t>(got));
  if (got <= 0 || is_waiting(fd)) {
    turn_.pass_on();
  } else {
    turn_.keep();
  }
  return got;
}

// Says in the answer to the first request that the agreement holds.
void RequestWatch::agree(const fuse_out_header& header, iovec* parts, int count) {
  if (count < 2 || header.unique != first_ || header.error != 0 || parts[1].iov_len < 16) return;
  fuse_init_out answer{};
  const size_t known = std::min(parts[1].iov_len, sizeof answer);
  std::memcpy(&answer, parts[1].iov_base, known);
  answer.flags |= FUSE_HANDLE_KILLPRIV_V2;
  std::memcpy(parts[1].iov_base, &answer, known);
  first_ = 0;
  agreed_ = true;
}

void RequestWatch::count_answer(const RequestFacts& request, const fuse_out_header& header) {
  if (header.error != 0) {
    metrics_.count_error(-header.error);
  } else if (request.opcode == FUSE_READ) {
    metrics_.read_bytes.add(header.len - sizeof header);
  } else if (request.opcode == FUSE_WRITE) {
    metrics_.written_bytes.add(request.length);
  }
}

ssize_t RequestWatch::write(int fd, iovec* parts, int count) {
  fuse_out_header header{};
  if (count < 1 || parts[0].iov_len != sizeof header) return ::writev(fd, parts, count);
  std::memcpy(&header, parts[0].iov_base, sizeof header);
  if (first_ != 0) agree(header, parts, count);
  const RequestFacts* const request = under_way_.mine(header.unique);
  if (request == nullptr) return ::writev(fd, parts, count);  // A notice, and no answer.
  // Before the answer: whoever gets it may look at once.
  count_answer(*request, header);
  const ssize_t sent = ::writev(fd, parts, count);
  const int number = errno;
  const auto now = RequestFacts::Clock::now();
  const RequestFacts done = under_way_.hand_over();
  metrics_.seconds(done.opcode).record(now - done.begun);
  if (slow_.is_slow(now - done.begun)) slow_.ended(done, now);
  errno = number;
  return sent;
}

}  // namespace penstock::mount
