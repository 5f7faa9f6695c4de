// What a mount counts of the requests it answers, in Metrics::global(). Looked up once: a request
// costs two additions, and what it takes to see how long it took.
#pragma once

#include <array>

#include "base/metrics.h"
#include "mount/request_kinds.h"

namespace penstock::mount {

class RequestMetrics {
 public:
  RequestMetrics();

  // Of an opcode of the kernel's, whatever it is.
  Histogram& seconds(uint32_t opcode) { return *seconds_[opcode < kOpcodesMax ? opcode : 0]; }
  // An answer was an error; `number` is positive. ENOSYS is none: it tells the kernel not to ask.
  void count_error(int number);

  Counter& read_bytes;
  Counter& written_bytes;
  Counter& slow;    // Longer than --slow-request.
  Gauge& slow_now;  // Of those, not answered yet.

 private:
  static constexpr size_t kErrnosMax = 134;
  std::array<Histogram*, kOpcodesMax> seconds_{};
  std::array<Counter*, kErrnosMax> errors_{};  // Null: not counted.
};

}  // namespace penstock::mount
