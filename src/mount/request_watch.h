// What the kernel says and libfuse 3.14 does not pass on: that it leaves taking special bits
// (set-ID, capabilities) away to us when a file is written, and for which requests.
//
// Without that agreement the kernel asks for the capabilities of a file before each write(2), and a
// write into its memory costs as much as a request. The agreement is a bit in the answer to the
// kernel's first request.
//
// As all requests and answers come by here, it also counts them, sees how long they take, and tells of
// those that take too long (slow_requests.h).
// Threads: read() and write() from any. What a thread has read is what it answers next, unless it
// hands that over to another.
#pragma once

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include "mount/fuse.h"
#include "mount/request_metrics.h"
#include "mount/requests_under_way.h"
#include "mount/slow_requests.h"
#include "mount/turn.h"

struct fuse_out_header;

namespace penstock::mount {

class RequestWatch {
 public:
  RequestWatch(const SlowRequestOptions& slow, bool stay_awake)
      : turn_(stay_awake), slow_(under_way_, metrics_, slow) {}

  // As read(2) and writev(2) of /dev/fuse.
  ssize_t read(int fd, void* into, size_t size);
  ssize_t write(int fd, iovec* parts, int count);

  // The agreement holds.
  bool kills_special_bits() const { return agreed_.load(std::memory_order_relaxed); }
  // The request that this thread answers takes them away.
  static bool request_kills();
  // How many came of each kind, those left out of which there were none.
  std::map<std::string, uint64_t> counts() const;

  // The request that this thread has read is answered by another one, which calls take_over() first.
  RequestFacts hand_over() { return under_way_.hand_over(); }
  void take_over(const RequestFacts& request) { under_way_.begin(request); }

 private:
  void look(const void* request, size_t size);
  void agree(const fuse_out_header& header, iovec* parts, int count);
  void count_answer(const RequestFacts& request, const fuse_out_header& header);

  Turn turn_;
  std::atomic<uint64_t> first_{
      0};  // The number of the request that is answered with the bit, while it is.
  std::atomic<bool> agreed_ = false;
  std::array<std::atomic<uint64_t>, kOpcodesMax> counts_{};  // By opcode; the first: others.
  RequestMetrics metrics_;
  RequestsUnderWay under_way_;
  SlowRequests slow_;
};

}  // namespace penstock::mount
