#include "data/index_build.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/thread_pool.h"

namespace penstock::data {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kTellEvery = std::chrono::milliseconds(200);
constexpr int kSaveShare = 10;  // Of the time, one part in so many.

class Build {
 public:
  explicit Build(const IndexBuildPlan& plan) : plan_(plan) {}

  Result<void> run() {
    const std::stop_callback forward(plan_.cancel, [this] { stop_.request_stop(); });
    const size_t threads = std::clamp<size_t>(plan_.threads, 1, std::max<size_t>(plan_.shards, 1));
    running_ = threads;
    std::vector<std::thread> workers;
    for (size_t i = 0; i < threads; ++i) workers.emplace_back([this] { work(); });
    collect();
    for (std::thread& worker : workers) worker.join();
    plan_.save();
    plan_.tell(bytes_);
    if (error_) return *error_;
    return {};
  }

 private:
  struct Finished {
    size_t shard = 0;
    ScannedShard scanned;
  };

  void work() {
    set_thread_name("data-index");
    while (!stop_.stop_requested()) {
      const size_t shard = next_.fetch_add(1);
      if (shard >= plan_.shards) break;
      Result<ScannedShard> scanned = plan_.scan(shard, stop_.get_token(), bytes_);
      std::lock_guard lock(mutex_);
      if (scanned.ok()) {
        finished_.push_back({shard, std::move(*scanned)});
      } else {
        fail(scanned.error());
      }
      changed_.notify_all();
    }
    std::lock_guard lock(mutex_);
    if (plan_.cancel.stop_requested()) {
      fail(make_error(ErrorCode::kCancelled, "making the index of a dataset was cancelled"));
    }
    --running_;
    changed_.notify_all();
  }

  // The others' errors are only that they were stopped.
  void fail(const Error& error) {
    if (!error_) error_ = error;
    stop_.request_stop();
  }

  void collect() {
    Clock::time_point tell_at = Clock::now() + kTellEvery;
    Clock::time_point save_at = Clock::now() + plan_.save_every;
    std::unique_lock lock(mutex_);
    while (running_ > 0 || !finished_.empty()) {
      changed_.wait_until(lock, tell_at, [this] { return running_ == 0 || !finished_.empty(); });
      std::vector<Finished> finished;
      finished.swap(finished_);
      lock.unlock();
      for (Finished& one : finished) plan_.take(one.shard, std::move(one.scanned));
      if (Clock::now() >= tell_at) {
        plan_.tell(bytes_);
        tell_at = Clock::now() + kTellEvery;
      }
      if (Clock::now() >= save_at || plan_.must_save()) {
        const Clock::time_point begin = Clock::now();
        plan_.save();
        const auto took = Clock::now() - begin;
        save_at = Clock::now() + std::max<Clock::duration>(plan_.save_every, kSaveShare * took);
      }
      lock.lock();
    }
  }

  const IndexBuildPlan& plan_;
  std::stop_source stop_;
  std::atomic<size_t> next_{0};
  std::atomic<uint64_t> bytes_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Finished> finished_;
  std::optional<Error> error_;
  size_t running_ = 0;
};

}  // namespace

Result<void> run_index_build(const IndexBuildPlan& plan) {
  if (plan.shards == 0) return {};
  return Build(plan).run();
}

}  // namespace penstock::data
