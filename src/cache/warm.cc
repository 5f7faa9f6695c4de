#include "cache/warm.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/rate_limiter.h"
#include "base/thread_pool.h"
#include "cache/entry.h"

namespace penstock::cache {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kListedMax = 4096;   // Objects ahead of their staging.
constexpr size_t kRefusedMax = 1024;  // Windows that wait for room.
constexpr size_t kFailuresMax = 100;
constexpr auto kProgressEvery = std::chrono::milliseconds(200);
constexpr auto kRetryEvery = std::chrono::milliseconds(100);
// Once one had waited in vain, the others wait no longer than it takes to hear of new room.
constexpr auto kShortPatience = std::chrono::milliseconds(500);

struct Object {
  CachedStore* store = nullptr;
  store::ObjectInfo info;
  bool failed = false;
};

struct Window {
  std::shared_ptr<Object> object;
  uint64_t offset = 0;
  uint64_t length = 0;
  std::optional<Clock::time_point> refused_at = {};  // For want of room, first.
  Clock::time_point retry_at = {};
};

// What it takes on a drive.
uint64_t entry_bytes(const Window& window) {
  const store::ObjectInfo& info = window.object->info;
  EntryKey key;
  key.version.url = window.object->store->identity() + info.key;
  key.version.etag = info.etag;
  key.version.size = info.size;
  key.offset = window.offset;
  key.length = static_cast<uint32_t>(window.length);
  return file_bytes(key);
}

uint32_t jobs_of(const WarmOptions& options) {
  if (options.bytes_per_second == 0) return options.jobs;
  // What is under way cannot be slowed down: about a second's worth.
  const uint64_t windows = options.bytes_per_second / options.window_bytes;
  return static_cast<uint32_t>(std::clamp<uint64_t>(windows, 1, options.jobs));
}

class Warmer {
 public:
  explicit Warmer(const WarmOptions& options)
      : options_(options),
        jobs_(jobs_of(options)),
        rate_(static_cast<double>(options.bytes_per_second), 0) {}

  Result<WarmReport> run(const WarmList& list) {
    const Clock::time_point begin = Clock::now();
    const std::stop_callback wake(options_.stop, [this] {
      std::lock_guard lock(mutex_);
      changed_.notify_all();
    });
    Result<void> listed;
    std::thread lister([&] {
      set_thread_name("cache-list");
      listed = list([this](CachedStore& store, const store::ObjectInfo& object) {
        return take(store, object);
      });
      std::lock_guard lock(mutex_);
      report_.totals.listed = true;
      changed_.notify_all();
    });
    stage_all();
    lister.join();
    report_.time = Clock::now() - begin;
    report_.stopped = options_.stop.stop_requested();
    if (!listed.ok() && !report_.stopped) return listed.error();
    return std::move(report_);
  }

 private:
  using Lock = std::unique_lock<std::mutex>;

  bool stopping() const { return options_.stop.stop_requested(); }

  // The lister's side.
  bool take(CachedStore& store, const store::ObjectInfo& info) {
    auto object = std::make_shared<Object>(Object{&store, info});
    Lock lock(mutex_);
    changed_.wait(lock, [this] { return listed_.size() < kListedMax || stopping(); });
    report_.totals.objects += 1;
    report_.totals.bytes += info.size;
    listed_.push_back(std::move(object));
    changed_.notify_all();
    return !stopping();
  }

  void stage_all() {
    Lock lock(mutex_);
    Clock::time_point tell_at = Clock::now() + kProgressEvery;
    while (!finished()) {
      const Clock::time_point now = Clock::now();
      if (now >= tell_at) {
        tell_at = now + kProgressEvery;
        if (options_.on_progress) tell(lock);
      }
      if (std::optional<Window> window = next(now)) {
        start(std::move(*window), lock);
      } else {
        changed_.wait_until(lock, std::min(tell_at, wake_at(now)));
      }
    }
    if (options_.on_progress) tell(lock);
  }

  void tell(Lock& lock) {
    const WarmProgress progress = report_.totals;
    lock.unlock();
    options_.on_progress(progress);
    lock.lock();
  }

  bool finished() const {
    if (under_way_ > 0) return false;
    if (stopping()) return true;
    return report_.totals.listed && listed_.empty() && !current_ && refused_.empty();
  }

  Clock::time_point wake_at(Clock::time_point now) const {
    if (under_way_ >= jobs_) return now + kProgressEvery;
    if (not_before_ > now) return not_before_;
    return refused_.empty() ? now + kProgressEvery : refused_.front().retry_at;
  }

  std::optional<Window> next(Clock::time_point now) {
    if (stopping() || under_way_ >= jobs_ || now < not_before_) return std::nullopt;
    if (!refused_.empty() && refused_.front().retry_at <= now) {
      Window window = std::move(refused_.front());
      refused_.pop_front();
      return window;
    }
    if (refused_.size() >= kRefusedMax) return std::nullopt;
    while (current_ || !listed_.empty()) {
      if (!current_) {
        current_ = std::move(listed_.front());
        listed_.pop_front();
        offset_ = 0;
        changed_.notify_all();
      }
      const uint64_t left = current_->info.size - offset_;
      if (current_->failed) report_.totals.failed_bytes += left;
      if (current_->failed || left == 0) {
        current_ = nullptr;
        continue;
      }
      Window window{current_, offset_, std::min(left, options_.window_bytes)};
      offset_ += window.length;
      if (window.length == left) current_ = nullptr;
      return window;
    }
    return std::nullopt;
  }

  void start(Window window, Lock& lock) {
    ++under_way_;
    lock.unlock();
    const store::ObjectInfo& info = window.object->info;
    Range range{.key = info.key,
                .etag = info.etag,
                .size = info.size,
                .offset = window.offset,
                .length = window.length};
    CachedStore& store = *window.object->store;
    store.async_stage(std::move(range), options_.verify, {.cancel = options_.stop},
                      [this, window = std::move(window)](const Result<uint64_t>& fetched) {
                        std::lock_guard held(mutex_);
                        staged(window, fetched);
                        --under_way_;
                        changed_.notify_all();
                      });
    lock.lock();
  }

  // With the lock held.
  void staged(const Window& window, const Result<uint64_t>& fetched) {
    WarmProgress& totals = report_.totals;
    if (fetched.ok()) {
      totals.fetched_bytes += *fetched;
      totals.there_bytes += window.length - std::min(*fetched, window.length);
      totals.file_bytes += entry_bytes(window);
      if (*fetched == 0) return;
      not_before_ = Clock::now() + rate_.reserve(static_cast<double>(*fetched));
      given_up_ = 0;
    } else if (fetched.error().code == ErrorCode::kNoSpace) {
      refused(window, fetched.error().retryable);
    } else if (!stopping()) {
      failed(window, fetched.error());
    }
  }

  void refused(Window window, bool may_change) {
    const Clock::time_point now = Clock::now();
    if (!window.refused_at) window.refused_at = now;
    // Many in a row, and nothing came in: it is full.
    const bool full = given_up_ >= kRefusedMax || !may_change;
    if (full || now - *window.refused_at >= patience_) {
      if (may_change) patience_ = std::min<Nanoseconds>(patience_, kShortPatience);
      given_up_ += 1;
      report_.totals.no_room_bytes += window.length;
      return;
    }
    window.retry_at = now + kRetryEvery;
    refused_.push_back(std::move(window));
  }

  void failed(const Window& window, const Error& error) {
    report_.totals.failed_bytes += window.length;
    if (window.object->failed) return;
    window.object->failed = true;
    report_.totals.failed_objects += 1;
    if (report_.failures.size() >= kFailuresMax) return;
    report_.failures.push_back(
        {window.object->store->description() + "/" + window.object->info.key, error});
  }

  const WarmOptions& options_;
  const uint32_t jobs_;
  RateLimiter rate_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // All under the mutex.
  std::deque<std::shared_ptr<Object>> listed_;
  std::shared_ptr<Object> current_;  // Of which `offset_` is the next window.
  uint64_t offset_ = 0;
  std::deque<Window> refused_;  // In the order of retry_at.
  uint32_t under_way_ = 0;
  Clock::time_point not_before_{};
  Nanoseconds patience_ = options_.patience;
  uint64_t given_up_ = 0;  // Since something came in.
  WarmReport report_;
};

}  // namespace

Result<WarmReport> warm(const WarmList& list, const WarmOptions& options) {
  return Warmer(options).run(list);
}

}  // namespace penstock::cache
