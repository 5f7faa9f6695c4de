#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "base/metrics.h"
#include "penstock/result.h"
#include "penstock/units.h"

namespace penstock::cache {

// False for what a well drive answers too: it is full, or this process has too much open.
bool blames_drive(const Error& error);

// Whether a cache directory is in use. One that is ill is off until it was tried and found well.
// Its thread is the only one that tries, so that a drive that hangs blocks nobody else.
// Threads: all calls from any thread.
class Health {
 public:
  struct Options {
    std::string directory;
    Nanoseconds slow_after = std::chrono::seconds(2);
    Nanoseconds retry_every = std::chrono::seconds(5);
  };
  struct Hooks {
    std::function<Result<void>()> heal;   // While off: opens or tries the drive. May block.
    std::function<Result<void>()> check;  // While on, every retry_every. May block.
    std::function<void()> on_off;         // It was switched off. Must not block.
  };
  // Off, until start() and a first try.
  Health(Options options, Hooks hooks);
  ~Health();  // Stops.
  Health(const Health&) = delete;
  Health& operator=(const Health&) = delete;

  void start();
  bool on() const { return on_.load(std::memory_order_acquire); }
  // Switches off, with one warning; off already: nothing.
  void ill(const Error& error);
  // What the first try said. kTimeout at the deadline.
  Result<void> wait_tried(Deadline deadline);
  // Waits for a try under way.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;

  void run();
  Result<void> timed_heal();
  void switch_on();
  void plan_retry(Lock& held, Clock::time_point now);
  void tell_off(bool loud, const Error& error, Nanoseconds retry);

  const Options options_;
  const Hooks hooks_;
  Gauge& on_gauge_;
  std::atomic<bool> on_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool known_ill_ = false;  // Off because of an error, which was told.
  Clock::time_point next_try_{};
  Clock::time_point healed_at_{};
  Clock::time_point warned_at_{};
  Nanoseconds retry_;
  bool tried_ = false;
  Result<void> first_try_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace penstock::cache
