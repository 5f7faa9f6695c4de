#include "cache/health.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/thread_pool.h"

namespace penstock::cache {

namespace {

// A drive that passes its tests and falls ill right afterwards is tried less and less often, and is
// warned about no more than this often.
constexpr Nanoseconds kQuiet = std::chrono::minutes(1);
constexpr int kRelapse = 10;    // In waits: falling ill within so many is a relapse.
constexpr int kRetryMost = 32;  // Times retry_every.

}  // namespace

bool blames_drive(const Error& error) {
  return error.code != ErrorCode::kNoSpace && error.code != ErrorCode::kBusy &&
         error.code != ErrorCode::kNoMemory;
}

Health::Health(Options options, Hooks hooks)
    : options_(std::move(options)),
      hooks_(std::move(hooks)),
      on_gauge_(Metrics::global().gauge("penstock_cache_directory_on",
                                        "1 while the cache directory is in use, 0 while it is off",
                                        {{"directory", options_.directory}})),
      retry_(options_.retry_every) {
  on_gauge_.set(0);
}

Health::~Health() {
  stop();
}

void Health::start() {
  thread_ = std::thread([this] { run(); });
}

void Health::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  on_.store(false, std::memory_order_release);
  on_gauge_.set(0);
}

void Health::ill(const Error& error) {
  Nanoseconds retry{0};
  bool loud = false;
  {
    Lock lock(mutex_);
    if (known_ill_ || stopping_) return;
    known_ill_ = true;
    on_.store(false, std::memory_order_release);
    on_gauge_.set(0);
    const Clock::time_point now = Clock::now();
    plan_retry(lock, now);
    retry = retry_;
    loud = warned_at_ == Clock::time_point{} || now - warned_at_ > kQuiet;
    if (loud) warned_at_ = now;
  }
  changed_.notify_all();
  tell_off(loud, error, retry);
  hooks_.on_off();
}

void Health::plan_retry(Lock&, Clock::time_point now) {
  const bool relapse =
      healed_at_ != Clock::time_point{} && now - healed_at_ < kRelapse * options_.retry_every;
  retry_ = relapse ? std::min(2 * retry_, kRetryMost * options_.retry_every) : options_.retry_every;
  next_try_ = now + retry_;
}

void Health::tell_off(bool loud, const Error& error, Nanoseconds retry) {
  log_event(loud ? LogLevel::kWarn : LogLevel::kInfo,
            "a cache directory is switched off; its share is read from the source",
            {{"directory", options_.directory},
             {"error", error.to_string()},
             {"tried_again_in", format_duration(retry)}});
}

void Health::switch_on() {
  bool again = false;
  {
    Lock lock(mutex_);
    again = std::exchange(known_ill_, false);
    if (again) healed_at_ = Clock::now();
    on_.store(true, std::memory_order_release);
    on_gauge_.set(1);
  }
  if (again) log_info("a cache directory is on again", {{"directory", options_.directory}});
}

Result<void> Health::timed_heal() {
  const Clock::time_point begin = Clock::now();
  PENSTOCK_TRY(hooks_.heal());
  const Nanoseconds took = Clock::now() - begin;
  if (took <= options_.slow_after) return {};
  return make_error(ErrorCode::kTimeout,
                    fmt::format("trying {} took {}", options_.directory, format_duration(took)));
}

void Health::run() {
  set_thread_name("cache-health");
  while (true) {
    const bool was_on = on();
    const Result<void> outcome = was_on ? hooks_.check() : timed_heal();
    if (!outcome.ok()) {
      ill(outcome.error());
    } else if (!was_on) {
      switch_on();
    }
    Lock lock(mutex_);
    if (!std::exchange(tried_, true)) first_try_ = outcome;
    changed_.notify_all();
    next_try_ = Clock::now() + (on() ? options_.retry_every : retry_);
    // ill() moves it on: a drive that fails now is left alone for a whole interval.
    while (!stopping_ && Clock::now() < next_try_) changed_.wait_until(lock, next_try_);
    if (stopping_) return;
  }
}

Result<void> Health::wait_tried(Deadline deadline) {
  Lock lock(mutex_);
  const auto ready = [this] { return tried_ || stopping_; };
  if (deadline == kNoDeadline) {
    changed_.wait(lock, ready);
  } else {
    changed_.wait_until(lock, deadline, ready);
  }
  if (tried_) return first_try_;
  return make_error(ErrorCode::kTimeout, fmt::format("{} has not answered yet", options_.directory),
                    true);
}

}  // namespace penstock::cache
