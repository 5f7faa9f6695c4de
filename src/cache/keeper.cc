#include "cache/keeper.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>
#include <thread>

#include "base/log.h"
#include "cache/keeper_desk.h"
#include "cache/keeper_work.h"

namespace penstock::cache {

namespace {

using std::chrono::steady_clock;

class ThreadedKeeper final : public Keeper {
 public:
  ThreadedKeeper(CacheDirectory& directory, KeeperOptions options)
      : options_(std::move(options)), desk_(options_.quota), work_(directory, options_, desk_) {
    // Threads can run out, and the standard library says so by throwing.
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
      log_warn("no thread for the keeper of a cache: nothing will be added to it",
               {{"directory", directory.path()}, {"reason", error.what()}});
    }
  }

  ~ThreadedKeeper() override {
    desk_.stop();
    if (thread_.joinable()) thread_.join();
  }

  bool reserve(const EntryName& name) override { return desk_.reserve(name); }
  void cancel_fill(const EntryName& name) override { desk_.cancel_fill(name); }
  void note_added(const EntryName& name) override { desk_.note_added(name); }
  void note_dropped(const EntryName& name) override {
    desk_.note({Note::Kind::kDropped, name.id, name.file_bytes()});
  }
  void note_used(const EntryId& id, uint64_t bytes) override {
    desk_.note({Note::Kind::kUsed, id, bytes});
  }
  void note_missed(const EntryId& id, uint64_t bytes) override {
    desk_.note({Note::Kind::kMissed, id, bytes});
  }
  void note_expected(const EntryId& id) override { desk_.note({Note::Kind::kExpected, id, 0}); }
  void note_finished(const EntryId& id, bool again) override {
    desk_.note({again ? Note::Kind::kFinishedAgain : Note::Kind::kFinished, id, 0});
  }

  void count_read(uint64_t hit_bytes, uint64_t miss_bytes) override {
    desk_.count_read(hit_bytes, miss_bytes);
  }
  void count_anew() override { desk_.count_anew(); }

  uint64_t room_bytes() const override { return desk_.room_bytes(); }
  void set_quota(SizeOrPercent quota) override { desk_.set_quota(quota); }
  KeeperStatus status() const override { return desk_.status(); }
  Result<void> settle(Deadline deadline) override { return desk_.settle(deadline); }

 private:
  void run() {
    ::pthread_setname_np(::pthread_self(), "ps-keeper");
    while (true) {
      const SteadyTime began = steady_clock::now();
      const bool more = work_.round();
      const SteadyTime earliest = more ? began : steady_clock::now() + options_.tick / 10;
      const SteadyTime until = more ? began : std::max(earliest, began + options_.tick);
      if (!desk_.wait(earliest, until)) break;
    }
    work_.finish();
  }

  const KeeperOptions options_;
  KeeperDesk desk_;
  KeeperWork work_;
  std::thread thread_;  // Last: uses the others.
};

}  // namespace

std::unique_ptr<Keeper> Keeper::start(CacheDirectory& directory, KeeperOptions options) {
  return std::make_unique<ThreadedKeeper>(directory, std::move(options));
}

}  // namespace penstock::cache
