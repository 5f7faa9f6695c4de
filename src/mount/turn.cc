#include "mount/turn.h"

#include <chrono>
#include <utility>

#include "base/thread_pool.h"

namespace penstock::mount {

namespace {

constexpr auto kLook = std::chrono::milliseconds(1);
constexpr int kLooksInVain = 100;  // Then it rests.

// The number of the answer that this thread keeps a turn over, unless that was taken away; 0: none.
thread_local uint64_t mine = 0;

}  // namespace

Turn::Turn(bool stay_awake) : wakefulness_(stay_awake ? kLatencyDevice : "") {
  ::sem_init(&free_, 0, 1);
  watcher_ = std::thread([this] { watch(); });
}

Turn::~Turn() {
  stopping_ = true;
  resting_ = false;
  resting_.notify_one();
  watcher_.join();
  ::sem_destroy(&free_);
}

void Turn::take() {
  uint64_t kept = std::exchange(mine, 0);
  if (kept != 0 && kept_.compare_exchange_strong(kept, 0)) return;
  while (::sem_wait(&free_) != 0) {
  }
}

void Turn::count() {
  turns_.store(turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (!resting_) return;
  resting_ = false;
  resting_.notify_one();
}

void Turn::keep() {
  mine = ++last_;
  kept_ = mine;
  count();
}

void Turn::pass_on() {
  count();
  ::sem_post(&free_);
}

void Turn::watch() {
  set_thread_name("mount-turn");
  int in_vain = 0;
  uint64_t turns = 0;
  while (!stopping_) {
    uint64_t seen = kept_;
    std::this_thread::sleep_for(kLook);
    if (seen != 0 && kept_.compare_exchange_strong(seen, 0)) ::sem_post(&free_);
    const uint64_t now = turns_.load(std::memory_order_relaxed);
    const uint64_t came = now - std::exchange(turns, now);
    wakefulness_.look(came);
    in_vain = seen == 0 && came == 0 ? in_vain + 1 : 0;
    if (in_vain < kLooksInVain) continue;
    in_vain = 0;
    resting_ = true;
    // Whoever has a turn from here on wakes us.
    if (kept_ == 0 && !stopping_) resting_.wait(true);
    resting_ = false;
  }
}

}  // namespace penstock::mount
