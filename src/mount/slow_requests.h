// Says in the log which requests of a mount take too long, while they do, and what they wait for: a
// program that hangs is what people notice first of a store that does not answer.
//
// At most one line every ten seconds, which counts the others; and one when it is over.
// Threads: all calls from any thread. A thread of its own looks every second.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_set>

#include "base/line_limit.h"
#include "mount/request_metrics.h"
#include "mount/requests_under_way.h"
#include "penstock/units.h"

namespace penstock::mount {

struct SlowRequestOptions {
  Nanoseconds threshold = std::chrono::seconds(10);  // 0: none is too slow.
  std::string store = {};                            // For people: what the volume lies in.
  bool background = true;                            // False: whoever tests it looks.
};

class SlowRequests {
 public:
  using Clock = RequestFacts::Clock;

  // Both outlive it.
  SlowRequests(const RequestsUnderWay& under_way, RequestMetrics& metrics,
               const SlowRequestOptions& options);
  ~SlowRequests();
  SlowRequests(const SlowRequests&) = delete;
  SlowRequests& operator=(const SlowRequests&) = delete;

  bool is_slow(Nanoseconds took) const { return took >= threshold_; }
  // One that is_slow() was answered, and is under way no more.
  void ended(const RequestFacts& request, Clock::time_point now);
  // Looks through those under way.
  void look(Clock::time_point now);

 private:
  void run();
  void note_quiet(Clock::time_point now);
  void tell(const RequestsUnderWay::Seen& seen, Clock::time_point now, bool answered);

  const RequestsUnderWay& under_way_;
  RequestMetrics& metrics_;
  const Nanoseconds threshold_;  // The longest time there is where none is too slow.
  const std::string store_;

  std::mutex mutex_;
  // All of the following under mutex_.
  std::condition_variable wake_;
  bool stopping_ = false;
  LineLimit lines_;
  std::unordered_set<uint64_t> known_;  // Slow and not answered yet, by their numbers.
  uint64_t untold_ = 0;                 // Found since the last line.
  // Since the last line that all is well.
  uint64_t found_ = 0;
  Nanoseconds longest_{0};
  Clock::time_point last_{};  // When one was seen.

  std::thread watcher_;
};

}  // namespace penstock::mount
