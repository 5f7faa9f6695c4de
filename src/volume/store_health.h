// Says in the log when a store stops to answer, and when it does so again: a line for each, and one
// a minute meanwhile, whatever the number of calls that fail. One that fails now and then gets a line
// a minute at most, too.
// Threads: all calls from any thread. Cheap while all is well.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/line_limit.h"
#include "base/metrics.h"
#include "penstock/result.h"

namespace penstock::volume {

// Of the store, or of the way to it. That something is not there, or is not what it should be, is an
// answer like any other.
bool is_store_trouble(const Error& error);

class StoreHealth {
 public:
  using Clock = std::chrono::steady_clock;

  // For people: "content cannot be read from the store", and "... is read from the store again".
  struct Texts {
    const char* failing;
    const char* well;
  };

  // `gauge` is 1 while it fails; it outlives this.
  StoreHealth(const Texts& texts, std::string store, Gauge& gauge);

  // A call was answered.
  void well() {
    if (failing_.load(std::memory_order_relaxed)) recovered();
  }
  // One failed that was begun then. `what` names the object, or what else it was about. One that was
  // begun before others were answered again says nothing of now, and does not count.
  void failed(const Error& error, std::string_view what, Clock::time_point begun);

 private:
  void recovered();

  const Texts texts_;
  const std::string store_;
  Gauge& gauge_;
  LineLimit lines_;
  std::atomic<bool> failing_ = false;

  std::mutex mutex_;
  Clock::time_point failing_since_{};  // Under mutex_, as are the next.
  Clock::time_point well_since_{};
  uint64_t failures_ = 0;  // Since it fails.
  bool told_ = false;      // In the log: then its end is told too.
};

}  // namespace penstock::volume
