// What the kernel says and libfuse 3.14 does not pass on: that it leaves taking special bits
// (set-ID, capabilities) away to us when a file is written, and for which requests.
//
// Without that agreement the kernel asks for the capabilities of a file before each write(2), and a
// write into its memory costs as much as a request. The agreement is a bit in the answer to the
// kernel's first request. It also counts them, by kind.
// Threads: read() and write() from any. What a thread has read is what it answers next.
#pragma once

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include "mount/fuse.h"
#include "mount/turn.h"

namespace penstock::mount {

class RequestWatch {
 public:
  // As read(2) and writev(2) of /dev/fuse.
  ssize_t read(int fd, void* into, size_t size);
  ssize_t write(int fd, iovec* parts, int count);

  // The agreement holds.
  bool kills_special_bits() const { return agreed_.load(std::memory_order_relaxed); }
  // The request that this thread answers takes them away.
  static bool request_kills();
  // How many came of each kind, those left out of which there were none.
  std::map<std::string, uint64_t> counts() const;

 private:
  static constexpr size_t kKinds = 64;

  void look(const void* request, size_t size);

  Turn turn_;
  std::atomic<uint64_t> first_{
      0};  // The number of the request that is answered with the bit, while it is.
  std::atomic<bool> agreed_ = false;
  std::array<std::atomic<uint64_t>, kKinds> counts_{};  // By opcode; the first: others.
};

}  // namespace penstock::mount
